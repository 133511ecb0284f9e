package runner

import (
	"math"
	"slices"

	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// arithmetic computes what a backend must return under its declaration: the outputs of the experts
// and the sums of combine.
type arithmetic struct {
	Description
	trace   *workload.Trace
	fill    activations
	domain  int       // ranks in a scale-up domain
	pattern []float32 // added by the experts, by column; its length is the hidden size
	packed  [2][]byte // cache of allTerms: for transformed and constant messages
}

// activations are the input that the contract names or, if scaled, the second input.
type activations struct {
	seed   uint64
	scaled bool
}

// row writes the activation row of a token in bf16.
func (a activations) row(row []uint16, token int) {
	if a.scaled {
		workload.FillScaled(row, uint32(token), a.seed, BlockColumns)
	} else {
		workload.FillActivation(row, uint32(token), a.seed)
	}
}

func newArithmetic(d Description, trace *workload.Trace, f activations, hidden, domain int) *arithmetic {
	a := &arithmetic{Description: d, trace: trace, fill: f, domain: max(1, domain), pattern: make([]float32, hidden)}
	for c := range a.pattern {
		a.pattern[c] = workload.ExpertPattern(c)
	}
	return a
}

// of returns the same arithmetic for another trace and activations.
func (a *arithmetic) of(trace *workload.Trace, f activations) *arithmetic {
	b := *a
	b.trace, b.fill, b.packed = trace, f, [2][]byte{}
	return &b
}

// source writes the activation row of a token as an expert sees it: in bf16, after the round trip
// through the dispatch codec.
func (a *arithmetic) source(row []uint16, token int) {
	a.fill.row(row, token)
	a.Codec.roundTrip(row)
}

// weighted returns the combined transform of several experts for one token. Each of the three
// coefficients is summed first, in float32, in the order given.
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

// apply computes the experts' output for a row: x·Scale + A + B·p(c), in float32, rounded to bf16
// once. The conversions prevent fused operations, whose rounding differs between machines.
func (a *arithmetic) apply(dst, x []uint16, t workload.Affine) {
	for c, b := range x {
		dst[c] = numeric.BF16(float32(numeric.FromBF16(b)*t.Scale) + t.A + float32(t.B*a.pattern[c]))
	}
}

// message writes a row that comes back for a token. part is the returning rank in an
// unweighted-rank-sum and the token's top-k slot in a weighted-kernel-sum.
type message func(dst []uint16, token, part int)

// messages selects the rows that come back. The kernels use the same numbers.
type messages int32

const (
	asReceived  messages = iota // each row unchanged
	transformed                 // the experts' outputs
	constant                    // the same row for all tokens of an expert, or of a rank
)

func (m messages) String() string { return [...]string{"as received", "transformed", "constant"}[m] }

// messages returns the messages of a kind.
func (a *arithmetic) messages(kind messages) message {
	switch kind {
	case transformed:
		return a.returned(a.rowTransform)
	case constant:
		return a.returned(a.rowConstant)
	default:
		return a.asReceived()
	}
}

// combined returns the expected result of combine for a token, in float32.
func (a *arithmetic) combined(token int, m message) []float32 {
	switch {
	case a.Combine == WeightedKernelSum:
		return a.weightedSums(token, m, addRounded)[0]
	case a.Reduction == TopKSlotTree:
		return a.slotTree(token, m)
	case a.Reduction == RankFP32:
		return a.rankSum(token, m)
	default:
		return a.domainSum(token, m)
	}
}

// asReceived returns the messages of a stage that leaves rows unchanged.
func (a *arithmetic) asReceived() message {
	x, of := make([]uint16, len(a.pattern)), -1
	return func(dst []uint16, token, _ int) {
		if token != of {
			a.source(x, token)
			of = token
		}
		copy(dst, x)
	}
}

// returned returns the messages of received rows. by returns the transform of each row.
func (a *arithmetic) returned(by func(token, part int) workload.Affine) message {
	received, x := a.asReceived(), make([]uint16, len(a.pattern))
	return func(dst []uint16, token, part int) {
		received(x, token, part)
		a.apply(dst, x, by(token, part))
	}
}

// rowTransform returns the experts' transform for the row of a part (see message) of a token.
func (a *arithmetic) rowTransform(token, part int) workload.Affine {
	experts, weights := a.trace.Row(token)
	if a.Combine == WeightedKernelSum {
		return workload.Expert(experts[part])
	}
	return a.rankTransform(part, experts, weights)
}

// rowConstant returns a transform to the constant row of the part's expert or rank.
func (a *arithmetic) rowConstant(token, part int) workload.Affine {
	if a.Combine == WeightedKernelSum {
		experts, _ := a.trace.Row(token)
		return constantOf(experts[part])
	}
	return constantOf(int32(part))
}

// constantOf returns a transform that maps every finite row to one row that depends only on n, the
// number of an expert or rank.
func constantOf(n int32) workload.Affine {
	t := workload.Expert(n)
	t.Scale = 0
	return t
}

// addRounded adds w·y to sum and rounds the product and the sum to float32. The
// conversion forbids a fused operation.
func addRounded(sum, y, w float32) float32 { return sum + float32(y*w) }

// weightedSums sums the token's slots in order, once with each function of adders. Under
// RankPartialFP32 it first sums the slots of each rank, then the ranks, ascending.
func (a *arithmetic) weightedSums(token int, m message, adders ...func(sum, y, w float32) float32) [][]float32 {
	groups := [][]int{slots(a.trace.TopK)}
	if a.Reduction == RankPartialFP32 {
		groups = a.slotsByRank(token)
	}
	_, weights := a.trace.Row(token)
	sums, y, part := make([][]float32, len(adders)), make([]uint16, len(a.pattern)), make([]float32, len(a.pattern))
	for i, add := range adders {
		sums[i] = make([]float32, len(a.pattern))
		for _, group := range groups {
			clear(part)
			for _, slot := range group {
				m(y, token, slot)
				for c, b := range y {
					part[c] = add(part[c], numeric.FromBF16(b), weights[slot])
				}
			}
			for c, v := range part {
				sums[i][c] += v
			}
		}
	}
	return sums
}

// slots returns 0 to n-1.
func slots(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// slotsByRank groups the slots of a token by rank, ascending.
func (a *arithmetic) slotsByRank(token int) (groups [][]int) {
	ranks := a.slotRanks(token)
	for _, rank := range a.ranksOf(token) {
		var group []int
		for slot, r := range ranks {
			if r == rank {
				group = append(group, slot)
			}
		}
		groups = append(groups, group)
	}
	return groups
}

// rankTransform returns the combined transform of a rank's experts for a token.
func (a *arithmetic) rankTransform(rank int, experts []int32, weights []float32) workload.Affine {
	var here []int32
	var parts []float32
	for slot, e := range experts {
		if a.trace.ExpertRank(e) == rank {
			here, parts = append(here, e), append(parts, weights[slot])
		}
	}
	return weighted(here, parts)
}

// slotRanks returns the rank of each slot of a token.
func (a *arithmetic) slotRanks(token int) []int {
	experts, _ := a.trace.Row(token)
	ranks := make([]int, len(experts))
	for slot, e := range experts {
		ranks[slot] = a.trace.ExpertRank(e)
	}
	return ranks
}

// ranksOf returns the ranks that return a row for a token, ascending.
func (a *arithmetic) ranksOf(token int) []int {
	ranks := a.slotRanks(token)
	slices.Sort(ranks)
	return slices.Compact(ranks)
}

// ranksInSlots returns the ranks that return a row for a token, in the order of their first
// slots.
func (a *arithmetic) ranksInSlots(token int) (ranks []int) {
	for _, rank := range a.slotRanks(token) {
		if !slices.Contains(ranks, rank) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

func (a *arithmetic) rankSum(token int, m message) []float32 {
	total, row := make([]float32, len(a.pattern)), make([]uint16, len(a.pattern))
	for _, rank := range a.ranksInSlots(token) {
		m(row, token, rank)
		for c, b := range row {
			total[c] += numeric.FromBF16(b)
		}
	}
	return total
}

func (a *arithmetic) domainSum(token int, m message) []float32 {
	hidden := len(a.pattern)
	ranks := a.ranksOf(token)
	total, inDomain, row := make([]float32, hidden), make([]float32, hidden), make([]uint16, hidden)
	for i, rank := range ranks {
		m(row, token, rank)
		for c, b := range row {
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

func (a *arithmetic) slotTree(token int, m message) []float32 {
	hidden := len(a.pattern)
	ranks := a.slotRanks(token)
	level := make([][]float32, len(ranks))
	row := make([]uint16, hidden)
	for slot, rank := range ranks {
		level[slot] = make([]float32, hidden)
		if slices.Contains(ranks[:slot], rank) {
			continue
		}
		m(row, token, rank)
		for c, b := range row {
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

// minReference is the smallest denominator of a relative error.
const minReference = 0.02

// worse returns the larger of sofar and the error of got against want, |got−want| / max(|want|,
// 0.02). NaN is sticky.
func worse(sofar float64, got uint16, want float32) float64 {
	diff := math.Abs(float64(numeric.FromBF16(got)) - float64(want))
	return math.Max(sofar, diff/math.Max(math.Abs(float64(want)), minReference))
}

// within reports whether an error is below the tolerance.
func within(err float64) bool { return err < ep.Tolerance }

// finite returns an error as published: null if it is not finite.
func finite(err float64) *float64 {
	if math.IsNaN(err) || math.IsInf(err, 0) {
		return nil
	}
	return &err
}
