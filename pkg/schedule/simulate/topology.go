// Package simulate predicts how long a schedule takes on a model of a machine. It simulates discrete events
// in integer picoseconds.
package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/plural"
)

// Topology is a graph of nodes and directed links. Ranks are nodes 0 to Ranks−1. A switch, or a network between
// hosts, is node Ranks. All links cost the same, except the links of a network between hosts.
type Topology struct {
	Name    string
	Ranks   int
	links   int
	network int32 // links from this number on belong to the network between hosts; 0: no network
	wide    int   // see Columns
	// next returns the link on which node at forwards a message to rank to, and the node at its other end.
	next func(at, to int32) (link, node int32)
}

// Topologies returns the names that NewTopology accepts.
func Topologies() []string { return []string{"full", "switch", "ring", "torus", "mesh", "hosts"} }

// NewTopology returns the topology with a name. width is the number of ranks in a row of a torus or mesh, or on
// each host; 0 means all ranks. NewTopology fails if the name is unknown or the ranks do not fill each row.
func NewTopology(name string, ranks, width int) (Topology, error) {
	width = cmp.Or(width, ranks)
	switch name {
	case "full":
		return Full(ranks), nil
	case "switch":
		return Switch(ranks), nil
	case "ring":
		return Ring(ranks), nil
	case "torus", "mesh", "hosts":
		if width < 1 || ranks%width != 0 {
			return Topology{}, fmt.Errorf("topology %s: %d ranks in rows of %d, must fill each row", name, ranks, width)
		}
		switch name {
		case "torus":
			return Torus(width, ranks/width), nil
		case "mesh":
			return Mesh(width, ranks/width), nil
		}
		return Hosts(width, ranks/width), nil
	}
	return Topology{}, fmt.Errorf("unknown topology %q, must be one of %s", name, strings.Join(Topologies(), ", "))
}

// Full returns a topology with a link from each of n ranks to each other rank.
func Full(n int) Topology {
	return Topology{Name: "full mesh", Ranks: n, links: n * n, next: func(at, to int32) (int32, int32) { return at*int32(n) + to, to }}
}

// Hosts returns h hosts of w ranks each, with rank r on host r/w. Each rank has a link to every other rank
// of its host, and a network adapter: a link to the network, and one from it.
func Hosts(w, h int) Topology {
	n := w * h
	inside, hub := Full(n), int32(n)
	t := Topology{Name: fmt.Sprintf("network of %s with %s each", plural.Count(h, "host", "hosts"), plural.Count(w, "rank", "ranks")), Ranks: n, links: inside.links + 2*n, network: int32(inside.links), wide: w}
	t.next = func(at, to int32) (int32, int32) {
		switch {
		case at == hub:
			return t.network + hub + to, to
		case int(at)/w == int(to)/w:
			return inside.next(at, to)
		}
		return t.network + at, hub
	}
	return t
}

// Switch returns n ranks, each with a link to the switch and a link from it.
func Switch(n int) Topology {
	hub := int32(n)
	return Topology{Name: "switch", Ranks: n, links: 2 * n, next: func(at, to int32) (int32, int32) {
		if at == hub {
			return hub + to, to
		}
		return at, hub
	}}
}

// Ring returns a ring of n ranks. A message takes the shorter direction, or ascending ranks if both are equal.
func Ring(n int) Topology {
	t := grid("ring", n, 1, true)
	t.wide = 0
	return t
}

// Torus returns h rows of w ranks each, with rank r in column r mod w. Each rank has links to its neighbours,
// and the ends of each row and column are neighbours. A message goes along its row first.
func Torus(w, h int) Topology { return grid(fmt.Sprintf("torus %d×%d", w, h), w, h, true) }

// Mesh is like Torus, but the ends of rows and columns are not neighbours.
func Mesh(w, h int) Topology { return grid(fmt.Sprintf("mesh %d×%d", w, h), w, h, false) }

// Directions of the links of a grid.
const (
	east = iota
	west
	south
	north
	directions
)

// grid returns h rows of w ranks each, as a torus if wraps is set and as a mesh otherwise.
func grid(name string, w, h int, wraps bool) Topology {
	// step returns the direction from a to b in a dimension of n positions, and the next position.
	step := func(a, b, n int, wraps bool) (forward bool, next int) {
		ahead := b - a
		if wraps && n > 2 {
			ahead = (ahead + n) % n
			forward = 2*ahead <= n
		} else {
			forward = ahead > 0
		}
		if forward {
			return true, (a + 1) % n
		}
		return false, (a - 1 + n) % n
	}
	return Topology{Name: name, Ranks: w * h, links: directions * w * h, wide: w, next: func(at, to int32) (int32, int32) {
		x, y := int(at)%w, int(at)/w
		tx, ty := int(to)%w, int(to)/w
		var forward bool
		direction := east
		if x != tx {
			forward, x = step(x, tx, w, wraps)
		} else {
			direction = south
			forward, y = step(y, ty, h, wraps)
		}
		if !forward {
			direction++
		}
		return at*directions + int32(direction), int32(y*w + x)
	}}
}

// HasRows reports whether the topology with a name depends on the width of NewTopology.
func HasRows(name string) bool { return name == "torus" || name == "mesh" || name == "hosts" }

// isNetwork reports whether a link belongs to the network between hosts.
func (t *Topology) isNetwork(link int32) bool { return t.network > 0 && link >= t.network }

// leaves reports whether a message from one rank to another takes the network.
func (t *Topology) leaves(from, to int32) bool {
	return t.network > 0 && int(from)/t.wide != int(to)/t.wide
}

// route calls f for each link from rank from to rank to.
func (t *Topology) route(from, to int32, f func(link int32)) {
	for from != to {
		link, node := t.next(from, to)
		f(link)
		from = node
	}
}

// Columns returns the number of ranks in a row of a torus or mesh, or on each host; 0 for any other
// topology.
func (t *Topology) Columns() int { return t.wide }

// Networked reports whether node Ranks is a network that joins hosts.
func (t *Topology) Networked() bool { return t.network > 0 }

// Switched reports whether node Ranks is a switch.
func (t *Topology) Switched() bool { return t.Name == "switch" }

// Lines returns the pairs of nodes with a link that some message takes, in either direction. Each pair is
// listed once, with the lower node first. The list is sorted.
func (t *Topology) Lines() [][2]int32 {
	seen := map[[2]int32]bool{}
	for from := range int32(t.Ranks) {
		for to := range int32(t.Ranks) {
			for node := from; node != to; {
				_, next := t.next(node, to)
				seen[[2]int32{min(node, next), max(node, next)}] = true
				node = next
			}
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b [2]int32) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
}
