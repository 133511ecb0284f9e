package runner

import (
	"math"
	"slices"

	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// The check of the declared arithmetic sends chosen rows back to combine. Their terms differ much in
// size, and some cancel, so that every result reveals the type and the order of the sum. The result of
// the declared order is known exactly before the final rounding to bf16, so the error may be at most
// half a unit in the last place.

// Exponents of the terms. A large term makes a float32 sum lose the last bits of
// the small ones that are added before it is cancelled.
const (
	largeExponent = 20
	smallSpread   = 4 // small terms have magnitudes in [2^-3, 2)
)

// chosen returns the messages of the check.
func (a *arithmetic) chosen() message {
	if a.Combine == WeightedKernelSum {
		return a.chosenWeighted()
	}
	return a.chosenRows()
}

// chosenRows returns the terms of an unweighted sum. In three columns of four, one rank of a token
// sends a large value and a later one its opposite. With two terms order does not matter and
// opposites cancel completely, so both are small.
func (a *arithmetic) chosenRows() message {
	var ranks []int
	of := -1
	return func(dst []uint16, token, rank int) {
		if token != of {
			ranks, of = a.ranksOf(token), token
		}
		part, triples := slices.Index(ranks, rank), triplesOf(len(ranks))
		key := workload.SplitMix(chosenStream, uint64(token))
		for c := range dst {
			h := workload.SplitMix(key, uint64(c))
			p, ok := places(h, triples)
			switch {
			case ok && part == p[0]:
				dst[c] = bf16(h, largeExponent)
			case ok && part == p[1]:
				dst[c] = bf16(h, largeExponent) ^ signBit
			default:
				dst[c] = small(h, part)
			}
		}
	}
}

// chosenWeighted returns the terms of a weighted sum. In three columns of four, three slots of a
// token carry a large value, a value that cancels its product up to the rounding of bf16, and a
// value that cancels the remainder.
func (a *arithmetic) chosenWeighted() message {
	return func(dst []uint16, token, slot int) {
		_, weights := a.trace.Row(token)
		triples := triplesOf(len(weights))
		key := workload.SplitMix(chosenStream, uint64(token))
		for c := range dst {
			h := workload.SplitMix(key, uint64(c))
			p, ok := places(h, triples)
			if !ok || slot != p[0] && slot != p[1] && slot != p[2] {
				dst[c] = small(h, slot)
				continue
			}
			dst[c] = bf16(h, largeExponent)
			rest := 0.0
			for i := 1; slot != p[i-1]; i++ {
				rest += product(dst[c], weights[p[i-1]])
				dst[c] = numeric.BF16(float32(-rest / float64(weights[p[i]])))
			}
		}
	}
}

// chosenStream is the seed of the chosen terms.
const chosenStream = 0x636f6d62696e65

const signBit = 0x8000

// product returns the exact product of a row's value and a weight; the conversion prevents fusing
// it with a sum.
func product(b uint16, w float32) float64 { return float64(float64(numeric.FromBF16(b)) * float64(w)) }

// small returns the small term of a part.
func small(h uint64, part int) uint16 {
	h = workload.SplitMix(h, uint64(part))
	return bf16(h, int(h>>32%smallSpread)-smallSpread+1)
}

// bf16 returns a value of the given exponent, with sign and mantissa from h.
func bf16(h uint64, exponent int) uint16 {
	return uint16(h)&signBit | uint16(exponent+127)<<7 | uint16(h)&0x7f
}

// triplesOf returns all sets of three numbers below n, each in ascending order.
func triplesOf(n int) (all [][3]int) {
	for a := range n {
		for b := a + 1; b < n; b++ {
			for c := b + 1; c < n; c++ {
				all = append(all, [3]int{a, b, c})
			}
		}
	}
	return all
}

// places draws one of the triples in three columns of four. ok is false in the fourth, or if there
// are none.
func places(h uint64, triples [][3]int) (p [3]int, ok bool) {
	if len(triples) == 0 || h>>62 == 0 {
		return p, false
	}
	return triples[h<<2>>32*uint64(len(triples))>>32], true
}

// declaredSums returns the float32 sums that the declared arithmetic may give for a token, before
// they are rounded to bf16. A weighted sum has two, with and without fused multiply-adds, because
// declarations do not distinguish them. Any other sum has one.
func (a *arithmetic) declaredSums(token int, m message) [][]float32 {
	if a.Combine == WeightedKernelSum {
		return a.weightedSums(token, m, addRounded, addFused)
	}
	return [][]float32{a.combined(token, m)}
}

// addFused adds w·y to sum and rounds once.
func addFused(sum, y, w float32) float32 {
	p, s := float64(y)*float64(w), float64(sum) // p is exact
	total := p + s
	// If total is half way between two float32 values, its rounding error decides.
	low := total - p
	if lost := (p - (total - low)) + (s - low); lost != 0 {
		if bits := math.Float64bits(total); bits&1 == 0 {
			total = math.Nextafter(total, math.Inf(int(math.Copysign(1, lost))))
		}
	}
	return float32(total)
}

// ulps returns the distance of got from the nearest of wants, in units in the last place of bf16;
// infinity if got is not finite.
func ulps(got uint16, wants ...float32) float64 {
	v := float64(numeric.FromBF16(got))
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return math.Inf(1)
	}
	least := math.Inf(1)
	for _, want := range wants {
		unit := float64(want)
		if want == 0 {
			unit = v
		}
		if diff := math.Abs(v - float64(want)); diff == 0 {
			return 0
		} else if d := diff / ulp(unit); d < least {
			least = d
		}
	}
	return least
}

// ulp returns the unit in the last place of bf16 at v.
func ulp(v float64) float64 {
	const mantissa, minExponent = 7, -126
	_, exponent := math.Frexp(v) // v = [½, 1)·2^exponent
	return math.Ldexp(1, max(exponent-1, minExponent)-mantissa)
}

// declared returns the largest error of combine's results for the chosen rows of this rank's
// tokens, in units in the last place of bf16, and how many results exceed the bound.
func (o *oracle) declared(out []uint16) (worst float64, wrong int) {
	hidden := len(o.pattern)
	m := o.chosen()
	for i := range o.trace.RankTokens(o.rank) {
		sums := o.declaredSums(o.trace.First[o.rank]+i, m)
		wants := make([]float32, len(sums))
		for c := range hidden {
			for k := range sums {
				wants[k] = sums[k][c]
			}
			e := ulps(out[i*hidden+c], wants...)
			worst = max(worst, e)
			if e > ep.ArithmeticBound {
				wrong++
			}
		}
	}
	return worst, wrong
}

// chosenFor returns the chosen row for each received row. A row that names no source, or a token
// that has no expert on this rank, gets zeros.
func (o *oracle) chosenFor(rx *Received, tokens []int64) []choice {
	rows := make([]choice, len(tokens))
	for i, token := range tokens {
		r := choice{int(token), -1}
		if token >= 0 && r.token < o.trace.Tokens() {
			if o.Receive == TokenExpert {
				experts, _ := o.trace.Row(r.token)
				r.part = slices.Index(experts, rx.Expert[i])
			} else if slices.Contains(o.ranksOf(r.token), o.rank) {
				r.part = o.rank
			}
		}
		rows[i] = r
	}
	return rows
}
