package runner

import (
	"cmp"
	"slices"

	"github.com/collectivex/collectivex/pkg/workload"
)

// moves holds lower bounds on the elements that any algorithm for an operation moves. A group here is
// one rank or one scale-up domain. Each bound is the maximum over the groups, in one direction.
//
// The bounds follow from the operation's definition. If an output outside of a group depends on an
// element of the group's inputs, that element has to leave the group. If an output in the group depends
// on an input outside, at least a partial result has to enter the group. An element counts once even if
// several ranks need it, since a switch can multicast and reduce (NVLS, SHARP).
//
// For example, an all_reduce of S bytes has to move S in each direction, not the 2(n-1)/n S of a ring.
// In an all_gather, ranks receive (n-1)/n S and have to send only S/n. A library that compresses data
// could stay below these bounds, but none compresses by default.
type moves struct {
	// Off is the number of elements that leave a group, Onto the number that enter it.
	Off, Onto int64
	// Memory is the number of elements that a rank reads from and writes to its own buffers: those
	// that leave, those that enter and, out of place, its own part, which is read and written.
	Memory int64
}

// span is the range of elements from ≤ i < to.
type span struct{ from, to int64 }

// spans are ranges of elements that may overlap.
type spans []span

func (s *spans) add(r workload.Region) {
	next := span{r.First, r.First + r.Count}
	if n := len(*s); n > 0 && (*s)[n-1] == next {
		return // another rank needs the same
	}
	*s = append(*s, next)
}

// total returns the number of elements in the spans, each counted once.
func (s spans) total() int64 {
	slices.SortFunc(s, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	total, end := int64(0), int64(0)
	for _, r := range s {
		total += max(0, r.to-max(r.from, end))
		end = max(end, r.to)
	}
	return total
}

// moves returns the bounds of an operation. group returns the group of a rank, numbered from 0.
func (f Form) moves(e Extent, inPlace bool, group func(rank int) int) moves {
	var m moves
	groups := 1
	for r := range f.World {
		groups = max(groups, group(r)+1)
	}
	off := make([]spans, f.World)         // by rank: elements of its input that other groups need
	needed := make([]spans, groups)       // by group: elements of the reduction that it needs
	onto := make([]map[int]spans, groups) // by group and source rank: elements of the input that it needs
	for g := range onto {
		onto[g] = map[int]spans{}
	}
	own := make([]spans, f.World) // by rank: elements of its input that it copies to its own output
	for r := range f.World {
		if f.Idle(r) {
			continue
		}
		g := group(r)
		for _, region := range f.Outputs(e, r) {
			switch source := region.Source; {
			case f.World == 1 || source == r:
				if !inPlace {
					own[r].add(region)
				}
			case source == workload.AllRanks:
				needed[g].add(region)
			case group(source) != g:
				off[source].add(region)
				runs := onto[g][source]
				runs.add(region)
				onto[g][source] = runs
			}
		}
	}
	sent, received := make([]int64, groups), make([]int64, groups)
	for r, runs := range off {
		sent[group(r)] += runs.total()
	}
	for g := range groups {
		for _, runs := range onto[g] {
			received[g] += runs.total()
		}
	}
	if groups > 1 {
		reduction(needed, sent, received)
	}
	for g := range groups {
		m.Off, m.Onto = max(m.Off, sent[g]), max(m.Onto, received[g])
	}
	if groups == f.World {
		for r := range f.World {
			m.Memory = max(m.Memory, sent[group(r)]+received[group(r)]+own[r].total()+alsoRead(off[r], own[r]))
		}
	}
	return m
}

// alsoRead returns the number of elements of own that are not in off.
func alsoRead(off, own spans) int64 { return slices.Concat(off, own).total() - off.total() }

// reduction adds to sent and received the elements of a reduction over all ranks. Each group sends one
// partial result of the elements that other groups need.
func reduction(needed []spans, sent, received []int64) {
	for g := range needed {
		var elsewhere spans
		for other, runs := range needed {
			if other != g {
				elsewhere = append(elsewhere, runs...)
			}
		}
		sent[g] += elsewhere.total()
		received[g] += needed[g].total()
	}
}
