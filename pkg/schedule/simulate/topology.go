// Package simulate predicts how long a schedule takes on a machine, by discrete events in
// integer picoseconds.
package simulate

import (
	"fmt"
	"strings"
)

// Topology is nodes and directed links between them. Ranks are nodes 0 to n−1; a switch is a
// node more. All links are alike.
type Topology struct {
	Name  string
	Ranks int
	links int
	wide  int // ranks in a row of a torus or mesh; 0 of others
	// next returns the link from node at that leads to rank to, and the node behind it.
	next func(at, to int32) (link, node int32)
}

// Topologies lists the names that NewTopology knows.
func Topologies() []string { return []string{"full", "switch", "ring", "torus", "mesh"} }

// NewTopology returns the topology of a name. A torus or mesh has width ranks in a row; 0 is
// all of them.
func NewTopology(name string, ranks, width int) (Topology, error) {
	if width == 0 {
		width = ranks
	}
	switch name {
	case "full":
		return Full(ranks), nil
	case "switch":
		return Switch(ranks), nil
	case "ring":
		return Ring(ranks), nil
	case "torus", "mesh":
		if width < 1 || ranks%width != 0 {
			return Topology{}, fmt.Errorf("topology %s: %d ranks in rows of %d, must fill each row", name, ranks, width)
		}
		if name == "torus" {
			return Torus(width, ranks/width), nil
		}
		return Mesh(width, ranks/width), nil
	}
	return Topology{}, fmt.Errorf("topology %q, must be one of %s", name, strings.Join(Topologies(), ", "))
}

// Full has a link from every rank to every other.
func Full(n int) Topology {
	return Topology{"full mesh", n, n * n, 0, func(at, to int32) (int32, int32) { return at*int32(n) + to, to }}
}

// Switch has a link from every rank to one switch, and one back.
func Switch(n int) Topology {
	hub := int32(n)
	return Topology{"switch", n, 2 * n, 0, func(at, to int32) (int32, int32) {
		if at == hub {
			return hub + to, to
		}
		return at, hub
	}}
}

// Ring takes the shorter way, and of two the one to higher ranks.
func Ring(n int) Topology {
	t := grid("ring", n, 1, true)
	t.wide = 0
	return t
}

// Torus and Mesh have w ranks in a row; rank r is in column r mod w. A message goes along
// its row first. A torus has links from the end of each row and column to its beginning,
// but where that has two ranks, which are neighbours already.
func Torus(w, h int) Topology { return grid(fmt.Sprintf("torus %d×%d", w, h), w, h, true) }

// Mesh is a Torus without links from the ends to the beginnings; see Torus.
func Mesh(w, h int) Topology { return grid(fmt.Sprintf("mesh %d×%d", w, h), w, h, false) }

// Directions of the links of a grid.
const (
	east = iota
	west
	south
	north
	directions
)

func grid(name string, w, h int, wraps bool) Topology {
	// step is the direction, and the position after it, from a to b in a dimension of n.
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
	return Topology{name, w * h, directions * w * h, w, func(at, to int32) (int32, int32) {
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

// HasRows reports whether the topology of a name depends on the width of its rows.
func HasRows(name string) bool { return name == "torus" || name == "mesh" }

// route calls f for each link from rank from to rank to, and returns their number.
func (t *Topology) route(from, to int32, f func(link int32)) (hops int) {
	for from != to {
		link, node := t.next(from, to)
		if f != nil {
			f(link)
		}
		from = node
		hops++
	}
	return hops
}
