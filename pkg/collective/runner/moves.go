package runner

import (
	"cmp"
	"slices"

	"github.com/collectivex/collectivex/pkg/workload"
)

// moves is the fewest elements that an operation has to move, whatever the
// algorithm. A bound is of the group of ranks (one rank, or a scale-up domain)
// that has to move the most in one direction.
//
// The bounds follow from what the operation is, not from how it is done. Two
// runs with equal inputs outside of a group and other inputs in it must differ in
// what is outside: each element of the group's inputs that an output outside
// depends on has to leave the group. Likewise each element of the group's outputs
// that depends on an input outside has to come in, at least as a partial result.
// An element counts once, however many ranks need it: a switch can multicast, and
// it can reduce on the way (NVLS, SHARP). So of S bytes an all_reduce has to move
// S in each direction, not the 2(n-1)/n S of a ring, and all_gather, whose ranks
// receive (n-1)/n S, has to send only S/n. A library that compresses what it sends
// could stay below these bounds; none does without being told to.
type moves struct {
	// Off and Onto are what leaves and what enters a group.
	Off, Onto int64
	// Memory is what a rank reads from and writes to its own buffers: what leaves,
	// what enters and, out of place, its own part, which is both read and written.
	Memory int64
}

// span is a run of elements.
type span struct{ from, to int64 }

// spans are runs of elements that may overlap.
type spans []span

func (s *spans) add(r workload.Region) {
	next := span{r.First, r.First + r.Count}
	if n := len(*s); n > 0 && (*s)[n-1] == next {
		return // another rank needs the same
	}
	*s = append(*s, next)
}

// total is the number of elements in the spans, each counted once.
func (s spans) total() int64 {
	slices.SortFunc(s, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	total, end := int64(0), int64(0)
	for _, r := range s {
		total += max(0, r.to-max(r.from, end))
		end = max(end, r.to)
	}
	return total
}

// moves returns the bounds of an operation for ranks in groups.
func (f Form) moves(e Extent, inPlace bool, group func(rank int) int) moves {
	var m moves
	groups := 1
	for r := range f.World {
		groups = max(groups, group(r)+1)
	}
	off := make([]spans, f.World)         // of each rank's input, what another group needs
	needed := make([]spans, groups)       // of the reduction, what each group needs
	onto := make([]map[int]spans, groups) // of each rank's input, what another group needs, by source
	for g := range onto {
		onto[g] = map[int]spans{}
	}
	own := make([]spans, f.World) // of each rank's input, what it copies within its memory
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

// reduction adds to sent and received what groups need of a reduction over all ranks. A group's share
// of it leaves as one partial result.
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
