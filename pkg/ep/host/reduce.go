package host

import (
	"github.com/collectivex/collectivex/pkg/ep/runner"
)

// sums holds the accumulators of one token.
type sums struct {
	domain   int         // ranks of a scale-up domain
	total    []float32   // over domains, or over slots
	inDomain []float32   // over the ranks of a domain; zero between tokens
	tree     [][]float32 // by slot
}

func newSums(s shape, domain int) sums {
	sum := sums{domain: max(1, domain), total: make([]float32, s.hidden), inDomain: make([]float32, s.hidden)}
	for range s.topk {
		sum.tree = append(sum.tree, make([]float32, s.hidden))
	}
	return sum
}

// reduce reads the rows of this rank's tokens back and writes their sums.
func (a *adapter) reduce() {
	h := a.shape.hidden
	out := deviceSlice[uint16](a.out, a.p.Tokens*h)
	wrongly := a.sumsWrongly()
	for t := range a.p.Tokens {
		pulls := a.layout.pulls[a.layout.first[t]:a.layout.first[t+1]]
		dst := out[t*h : (t+1)*h]
		switch {
		case wrongly:
			a.wrongSum(dst, pulls, t)
		case a.d.Combine == runner.WeightedKernelSum:
			a.weightedSum(dst, pulls, t)
		case a.d.Reduction == runner.TopKSlotTree:
			a.slotTree(dst, pulls)
		default:
			a.domainSum(dst, pulls)
		}
	}
}

// row returns a row as its rank staged it.
func (a *adapter) row(p pull) []uint16 {
	from := &a.peers[p.rank]
	if from.control.region.Load() == inStaged {
		return a.shape.stagedRow(from.staged, a.place.Rank, p.row)
	}
	return a.shape.part(from.receive, a.place.Rank).bf16(p.row)
}

// domainSum adds the rows of each scale-up domain in float32, rounds each sum, and adds the
// domains.
func (a *adapter) domainSum(dst []uint16, pulls []pull) {
	total, inDomain := a.sums.total, a.sums.inDomain
	clear(total)
	for i, p := range pulls {
		addRow(inDomain, a.row(p))
		if i+1 == len(pulls) || pulls[i+1].rank/a.sums.domain != p.rank/a.sums.domain {
			flushRow(total, inDomain)
		}
	}
	roundRow(dst, total)
}

// weightedSum adds weight times row in slot order.
func (a *adapter) weightedSum(dst []uint16, pulls []pull, token int) {
	total := a.sums.total
	clear(total)
	weights := deviceSlice[float32](a.p.Weight, a.p.Tokens*a.p.TopK)[token*a.p.TopK:]
	for _, p := range pulls {
		addWeightedRow(total, a.row(p), weights[p.slot])
	}
	roundRow(dst, total)
}

// slotTree adds neighbouring slots level by level, each sum rounded.
func (a *adapter) slotTree(dst []uint16, pulls []pull) {
	level := a.sums.tree
	for _, slot := range level {
		clear(slot)
	}
	for _, p := range pulls {
		addRow(level[p.slot], a.row(p))
	}
	for step := 1; step < len(level); step *= 2 {
		for i := 0; i+step < len(level); i += 2 * step {
			addRoundedRow(level[i], level[i+step])
		}
	}
	roundRow(dst, level[0])
}
