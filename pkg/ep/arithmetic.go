package ep

import (
	"math"
	"slices"

	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// arithmetic is the backend's own arithmetic, as its description declares it:
// what the experts return and what combine makes of it.
type arithmetic struct {
	Description
	trace   *workload.Trace
	seed    uint64
	domain  int       // ranks in a scale-up domain
	pattern []float32 // of the experts, by column; its length is the hidden size
}

func newArithmetic(d Description, trace *workload.Trace, seed uint64, hidden, domain int) *arithmetic {
	a := &arithmetic{Description: d, trace: trace, seed: seed, domain: max(1, domain), pattern: make([]float32, hidden)}
	for c := range a.pattern {
		a.pattern[c] = workload.ExpertPattern(c)
	}
	return a
}

// source is the activation row of a token as an expert sees it: after the
// dispatch codec's round trip, in bf16.
func (a *arithmetic) source(row []uint16, token int) {
	workload.FillActivation(row, uint32(token), a.seed)
	a.Codec.roundTrip(row)
}

// weighted is the transform of several experts at once for one token: the
// three coefficients are summed first, in float32, in the order given.
func weighted(experts []int32, weights []float32) workload.Affine {
	var sum workload.Affine
	for i, e := range experts {
		t := workload.Expert(e)
		sum.Scale += float32(weights[i] * t.Scale)
		sum.A += float32(weights[i] * t.A)
		sum.B += float32(weights[i] * t.B)
	}
	return sum
}

// apply is what experts return for a row: x·Scale + A + B·p(c), in float32,
// rounded to bf16 once. The conversions forbid fused operations, which would
// round differently from machine to machine.
func (a *arithmetic) apply(dst, x []uint16, t workload.Affine) {
	for c, b := range x {
		dst[c] = numeric.BF16(float32(numeric.FromBF16(b)*t.Scale) + t.A + float32(t.B*a.pattern[c]))
	}
}

// combined is what combine must give for a token, in float32.
func (a *arithmetic) combined(token int) []float32 {
	x := make([]uint16, len(a.pattern))
	a.source(x, token)
	experts, weights := a.trace.Row(token)
	switch {
	case a.Combine == WeightedKernelSum:
		return a.weightedSum(x, experts, weights)
	case a.Reduction == TopKSlotTree:
		return a.slotTree(x, experts, weights)
	default:
		return a.domainSum(x, experts, weights)
	}
}

func (a *arithmetic) weightedSum(x []uint16, experts []int32, weights []float32) []float32 {
	sum, y := make([]float32, len(x)), make([]uint16, len(x))
	for slot, e := range experts {
		a.apply(y, x, workload.Expert(e))
		for c, b := range y {
			sum[c] += float32(numeric.FromBF16(b) * weights[slot])
		}
	}
	return sum
}

// rankMessage is the row that rank returns for a token.
func (a *arithmetic) rankMessage(dst, x []uint16, rank int, experts []int32, weights []float32) {
	var here []int32
	var parts []float32
	for slot, e := range experts {
		if a.trace.ExpertRank(e) == rank {
			here, parts = append(here, e), append(parts, weights[slot])
		}
	}
	a.apply(dst, x, weighted(here, parts))
}

// ranksOf returns the rank of each slot.
func (a *arithmetic) ranksOf(experts []int32) []int {
	ranks := make([]int, len(experts))
	for slot, e := range experts {
		ranks[slot] = a.trace.ExpertRank(e)
	}
	return ranks
}

func (a *arithmetic) domainSum(x []uint16, experts []int32, weights []float32) []float32 {
	ranks := a.ranksOf(experts)
	slices.Sort(ranks)
	ranks = slices.Compact(ranks)
	total, inDomain, message := make([]float32, len(x)), make([]float32, len(x)), make([]uint16, len(x))
	for i, rank := range ranks {
		a.rankMessage(message, x, rank, experts, weights)
		for c, b := range message {
			inDomain[c] += numeric.FromBF16(b)
		}
		if last := i == len(ranks)-1; last || ranks[i+1]/a.domain != rank/a.domain {
			for c, v := range inDomain {
				total[c] += numeric.FromBF16(numeric.BF16(v))
			}
			clear(inDomain)
		}
	}
	return total
}

func (a *arithmetic) slotTree(x []uint16, experts []int32, weights []float32) []float32 {
	ranks := a.ranksOf(experts)
	level := make([][]float32, len(experts))
	message := make([]uint16, len(x))
	for slot, rank := range ranks {
		level[slot] = make([]float32, len(x))
		if slices.Contains(ranks[:slot], rank) {
			continue
		}
		a.rankMessage(message, x, rank, experts, weights)
		for c, b := range message {
			level[slot][c] = numeric.FromBF16(b)
		}
	}
	for len(level) > 1 {
		var next [][]float32
		for i := 0; i < len(level); i += 2 {
			if i+1 < len(level) {
				for c, v := range level[i+1] {
					level[i][c] = numeric.FromBF16(numeric.BF16(level[i][c] + v))
				}
			}
			next = append(next, level[i])
		}
		level = next
	}
	return level[0]
}

// minReference is the smallest magnitude that an error is measured against.
const minReference = 0.02

// tolerance is 8 units of the last place of bf16; an error must be below it.
const tolerance = 8.0 / 256

// worse returns the larger of an error so far and that of got against want,
// |got−want| / max(|want|, 0.02). Once it is not a number it stays so.
func worse(sofar float64, got uint16, want float32) float64 {
	diff := math.Abs(float64(numeric.FromBF16(got)) - float64(want))
	return math.Max(sofar, diff/math.Max(math.Abs(float64(want)), minReference))
}

// within reports whether an error passes the gate, strictly.
func within(err float64) bool { return err < tolerance }

// finite returns a published error: null where there is no finite figure.
func finite(err float64) *float64 {
	if math.IsNaN(err) || math.IsInf(err, 0) {
		return nil
	}
	return &err
}
