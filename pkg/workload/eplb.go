package workload

import (
	"cmp"
	"crypto/sha256"
	"slices"
)

// redundantSlots is the number of expert slots that EPLB adds, before rounding up to a
// multiple of the world size.
const redundantSlots = 32

// eplb is the placement of an expert-parallel load balancer. Experts with much load have
// several expert slots. Each rank hosts the same number of slots, with about the same load. Slots
// are numbered rank by rank, as experts are without EPLB.
type eplb struct {
	logical  []int32   // expert of each slot
	replicas [][]int32 // slots of each expert, ascending
}

// planEPLB places replicas for the expert loads of t. Greedily, it gives one more slot to
// the expert with the highest load per slot. Then it places the slots, heaviest first, each
// on the rank with the least load that has room.
func planEPLB(t *Trace) *eplb {
	load := make([]int64, t.Experts)
	for _, e := range t.Expert {
		load[e]++
	}
	extra := (redundantSlots + t.World - 1) / t.World * t.World
	copies := slices.Repeat([]int64{1}, t.Experts)
	for range extra {
		hottest := 0
		for e := range load {
			if load[e]*copies[hottest] > load[hottest]*copies[e] {
				hottest = e
			}
		}
		copies[hottest]++
	}

	type slot struct {
		expert int32
		share  float64
	}
	var slots []slot
	for e, n := range copies {
		for range n {
			slots = append(slots, slot{int32(e), float64(load[e]) / float64(n)})
		}
	}
	slices.SortStableFunc(slots, func(a, b slot) int { return cmp.Compare(b.share, a.share) })

	perRank := len(slots) / t.World
	hosted := make([][]int32, t.World)
	loaded := make([]float64, t.World)
	for _, s := range slots {
		least := -1
		for r := range hosted {
			if len(hosted[r]) < perRank && (least < 0 || loaded[r] < loaded[least]) {
				least = r
			}
		}
		hosted[least] = append(hosted[least], s.expert)
		loaded[least] += s.share
	}

	p := &eplb{logical: slices.Concat(hosted...), replicas: make([][]int32, t.Experts)}
	for id, expert := range p.logical {
		p.replicas[expert] = append(p.replicas[expert], int32(id))
	}
	return p
}

// Placement describes the slots of an EPLB routing.
type Placement struct {
	Slots int // of all ranks
	// Before and After are the load of the rank with the most load, divided by the mean
	// over ranks, for the trace from which the placement was planned.
	Before, After float64
	// Digest is a SHA-256 over the expert of each slot (int64, little-endian).
	Digest [sha256.Size]byte
}

// Placement describes the slots of an EPLB routing; ok is false for any other.
func (r *Routing) Placement() (p Placement, ok bool) {
	if r.eplb == nil {
		return p, false
	}
	placed := r.Trace(r.shape.LargestRung)
	plain := *placed
	plain.Experts = r.shape.Experts
	plain.Expert = make([]int32, len(placed.Expert))
	for i, slot := range placed.Expert {
		plain.Expert[i] = r.eplb.logical[slot]
	}
	h := sha256.New()
	writeExperts(h, r.eplb.logical)
	return Placement{
		Slots: r.slots, Before: imbalance(&plain), After: imbalance(placed), Digest: [sha256.Size]byte(h.Sum(nil)),
	}, true
}

// imbalance returns the load of the rank with the most load, divided by the mean over
// ranks.
func imbalance(t *Trace) float64 {
	load := make([]int, t.World)
	for _, e := range t.Expert {
		load[t.ExpertRank(e)]++
	}
	return float64(slices.Max(load)) * float64(t.World) / float64(len(t.Expert))
}

// place replaces the experts of token by expert slots. Of an expert with n replicas it takes
// replica token mod n.
func (p *eplb) place(token int, experts []int32) {
	for i, e := range experts {
		slots := p.replicas[e]
		experts[i] = slots[token%len(slots)]
	}
}
