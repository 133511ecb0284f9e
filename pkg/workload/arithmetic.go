package workload

import (
	"math"
	"math/bits"
	"slices"

	"github.com/collectivex/collectivex/pkg/numeric"
)

// Arithmetic defines inputs of a floating-point reduction whose results are not exact or not
// finite, which Pattern leaves out. The element type determines which results are correct: any
// partial result may be rounded to it, in any order.
// As in Pattern, an element is a pure function of seed, rank and index.
//
// Elements take turns:
//
//   - Two: two ranks contribute numbers, and the other ranks the neutral element (+0; 1 in a
//     prod). There is one rounding in any order, so a sum or product must be rounded
//     to nearest. Truncation is found at every world size.
//   - Many: the maximum number of ranks for which the bound is useful contribute numbers.
//   - NaN, infinity: one rank contributes it to a sum or product, which is then NaN or
//     infinite. An infinity needs a type of 16 bits or more, since conversions to fp8
//     saturate.
//   - In min and max: all finite bits; subnormal numbers alone, which must not be
//     flushed; zeros of both signs, either of which is right; infinities of both signs;
//     NaN on all ranks, which must remain NaN; and NaN on one rank among equal numbers.
//     For the last, IEEE 754 has two answers (minimum, minimumNumber), and NCCL
//     specifies neither (its kernels use fminf, which returns the number).
//
// Subnormal sums are not judged: reductions in memory and in switches may flush them (PTX
// atom.add.f32).
//
// The error of a sum of k numbers x with c roundings, in any order, is at most γ·Σ|x|. γ is
// c·u/(1-c·u), and u is half a unit in the last place of 1 (Higham, Accuracy and Stability
// of Numerical Algorithms, 2nd edition, section 4.2, and lemma 3.1; the same γ bounds the
// error of a product relative to it). c is k-1. An avg over a world size that is not a
// power of two adds one rounding for the division, or two for a factor 1/world that is
// rounded as NCCL's is. The error of a single rounding is at most half a unit in the last
// place of the result. A library that computes in a wider type and then rounds makes both
// errors in each rounding. A subnormal result adds half of the smallest positive number.
type Arithmetic struct {
	p     Pattern
	kinds []kind
	many  uint32  // ranks that contribute a number to an element of kind many
	unit  float64 // u
	tiny  float64 // smallest positive number
}

type kind int

const (
	kindTwo kind = iota
	kindMany
	kindNaN
	kindInfinity
	kindFinite
	kindSubnormal
	kindZero
	kindNaNs
)

var kindNames = [...]string{kindTwo: "rounding", kindMany: "rounding", kindNaN: "nan", kindInfinity: "infinity", kindFinite: "finite", kindSubnormal: "subnormal", kindZero: "zero", kindNaNs: "nan"}

// NewArithmetic returns the inputs of a reduction. ok is false for integers and for
// operations that reduce nothing, since all their results are exact.
func NewArithmetic(t numeric.Type, op RedOp, world int, seed uint32) (a Arithmetic, ok bool) {
	p, err := NewPattern(t, op, world, seed)
	if err != nil || p.p.Mantissa == 0 || op == NoRedOp {
		return a, false
	}
	m := int(p.p.Mantissa)
	a.p = p
	a.unit = math.Ldexp(1, -m-1) + wider(t)
	a.tiny = math.Ldexp(1, 1-int(p.p.Bias)-m)
	a.kinds = []kind{kindTwo, kindMany, kindNaN, kindInfinity, kindTwo, kindMany}
	a.many = min(p.p.World, 1+uint32(min(1024, 0.5/a.unit)))
	switch op {
	case Min, Max:
		a.kinds = []kind{kindFinite, kindSubnormal, kindNaN, kindInfinity, kindZero, kindNaNs}
	case Prod:
		a.many = min(a.many, prodSummands)
	}
	if p.p.Size == 1 {
		a.kinds = slices.DeleteFunc(a.kinds, func(k kind) bool { return k == kindInfinity })
	}
	return a, true
}

// wider returns the unit roundoff of the type that libraries may compute in before they
// round to t: float, or half for fp8.
func wider(t numeric.Type) float64 {
	switch t {
	case numeric.F8E4M3, numeric.F8E5M2:
		return 0x1p-11
	case numeric.Half, numeric.BFloat16:
		return 0x1p-24
	default:
		return 0
	}
}

func (a Arithmetic) kind(i int64) kind { return a.kinds[i%int64(len(a.kinds))] }

// holds reports whether rank contributes a number to element i.
func (a Arithmetic) holds(k kind, rank, g uint32) bool {
	world := a.p.p.World
	at := (rank + world - a.p.first(g)) % world
	if k == kindTwo {
		return at == 0 || at == 1+pick(mix(g^0x51ed270b), world-1)
	}
	return at < a.many
}

// Value returns the bits of element i of rank's input.
func (a Arithmetic) Value(rank int, i int64) uint64 {
	p := a.p.p
	r, op, k := uint32(rank), RedOp(p.RedOp), a.kind(i)
	h, g := a.p.hash(r, i), a.p.hash(sharedStream, i)
	sign := uint64(h>>31) << (8*p.Size - 1)
	chosen := r == pick(g, p.World)
	switch {
	case k == kindNaNs, k == kindNaN && chosen:
		return a.nan()
	case k == kindInfinity && chosen:
		return sign | a.infinity()
	case k == kindInfinity && (op == Min || op == Max) && r == (pick(g, p.World)+1)%p.World:
		return sign ^ a.signBit() | a.infinity()
	case k == kindZero:
		return sign
	case k == kindSubnormal:
		return sign | wide(h)&(1<<p.Mantissa-1)
	case k == kindNaN && (op == Min || op == Max):
		return a.finite(wide(g))
	case op == Min || op == Max:
		return a.finite(wide(h))
	case op == Prod && (k == kindNaN || k == kindInfinity || !a.holds(k, r, g)):
		return uint64(p.Bias) << p.Mantissa // 1
	case (k == kindTwo || k == kindMany) && !a.holds(k, r, g):
		return 0
	}
	exponent := uint64(p.Bias) - 3 + uint64(pick(mix(h), 7))
	if op == Prod { // with four factors no result is subnormal or too large
		exponent = uint64(p.Bias) - 1 + uint64(mix(h)&1)
	}
	return sign | exponent<<p.Mantissa | wide(h)&(1<<p.Mantissa-1)
}

func (a Arithmetic) signBit() uint64 { return 1 << (8*a.p.p.Size - 1) }

// nan returns the bits of a quiet NaN, which is a NaN in every format.
func (a Arithmetic) nan() uint64 { return a.signBit() - 1 }

func (a Arithmetic) infinity() uint64 { return a.signBit() - 1<<a.p.p.Mantissa }

// finite clears the lowest exponent bit of a value whose exponent is all ones.
func (a Arithmetic) finite(raw uint64) uint64 {
	raw = a.p.truncate(raw)
	if raw&a.infinity() == a.infinity() {
		return raw &^ (1 << a.p.p.Mantissa)
	}
	return raw
}

// number returns the exact value of an element's bits.
func (a Arithmetic) number(v uint64) float64 {
	switch a.p.Type() {
	case numeric.Double:
		return math.Float64frombits(v)
	case numeric.Float:
		return float64(math.Float32frombits(uint32(v)))
	case numeric.BFloat16:
		return float64(numeric.FromBF16(uint16(v)))
	case numeric.Half:
		return float64(numeric.FromFP16(uint16(v)))
	case numeric.F8E4M3:
		return float64(numeric.E4M3FN.Decode(byte(v)))
	default:
		return float64(numeric.E5M2.Decode(byte(v)))
	}
}

// Fill writes count elements of rank's input.
func (a Arithmetic) Fill(buf []byte, rank int, count int64) {
	for i := range count {
		a.p.store(buf, i, a.Value(rank, i))
	}
}

// Inexact fills buf with elements of rank's input whose sum depends on the order of the ranks: numbers of
// either sign from 1/16 to 2 or, of integers, all bits. An element is a pure function of seed, rank and index.
func (p Pattern) Inexact(buf []byte, rank int) {
	for i := range int64(len(buf)) / int64(p.p.Size) {
		h := p.hash(uint32(rank), i)
		v := p.truncate(wide(h))
		if m := p.p.Mantissa; m > 0 {
			exponent := uint64(p.p.Bias) - 4 + uint64(pick(mix(h), 5))
			v = v&(1<<(8*p.p.Size-1)|1<<m-1) | exponent<<m
		}
		p.store(buf, i, v)
	}
}

// ArithmeticVerdict is the result of checking results.
type ArithmeticVerdict struct {
	Checked int64    `json:"checked"`
	Wrong   int64    `json:"wrong"`
	Failed  []string `json:"failed,omitempty"` // what was wrong: rounding, nan, infinity, finite, subnormal, zero
	// Error and Bound belong to the element with the largest ratio of error to bound. Both are
	// relative to the sum of magnitudes or to the product, and 0 if no element has an error.
	Error float64 `json:"error"`
	Bound float64 `json:"bound"`
	// NonFinite reports that a result with a bound was not a number, so that there is no
	// largest error.
	NonFinite bool `json:"non_finite,omitempty"`
}

// Add merges o into v.
func (v *ArithmeticVerdict) Add(o ArithmeticVerdict) {
	v.Checked += o.Checked
	v.Wrong += o.Wrong
	v.Failed = slices.Compact(slices.Sorted(slices.Values(slices.Concat(v.Failed, o.Failed))))
	v.NonFinite = v.NonFinite || o.NonFinite
	v.worst(o.Error, o.Bound)
}

func (v *ArithmeticVerdict) worst(err, bound float64) {
	if v.Bound == 0 && v.Error == 0 || err*v.Bound > v.Error*bound {
		v.Error, v.Bound = err, bound
	}
}

// Check judges the elements of the regions in buf, which are results over all ranks.
func (a Arithmetic) Check(buf []byte, regions []Region) ArithmeticVerdict {
	var v ArithmeticVerdict
	in := make([]float64, a.p.p.World)
	for _, r := range regions {
		for j := range r.Count {
			i := r.First + j
			for rank := range in {
				in[rank] = a.number(a.Value(rank, i))
			}
			v.Checked++
			if k := a.kind(i); !a.right(&v, k, in, a.number(a.p.load(buf, r.Offset+j))) {
				v.Wrong++
				if name := kindNames[k]; !slices.Contains(v.Failed, name) {
					v.Failed = append(v.Failed, name)
				}
			}
		}
	}
	slices.Sort(v.Failed)
	return v
}

// right reports whether got is a correct result of the inputs in, and records its error in
// v.
func (a Arithmetic) right(v *ArithmeticVerdict, k kind, in []float64, got float64) bool {
	op := RedOp(a.p.p.RedOp)
	switch {
	case k == kindNaNs, k == kindNaN && op != Min && op != Max:
		return math.IsNaN(got)
	case op == Min || op == Max:
		want := math.NaN()
		for _, x := range in {
			if math.IsNaN(want) || op == Min && x < want || op == Max && x > want {
				want = x
			}
		}
		return got == want || k == kindNaN && math.IsNaN(got)
	case k == kindInfinity:
		want := 1.0
		for _, x := range in {
			if op == Prod || math.IsInf(x, 0) {
				want = math.Copysign(want, want*x)
			}
		}
		return math.IsInf(got, int(want))
	}
	err, bound := a.error(in, got)
	if math.IsNaN(err) || math.IsInf(err, 0) {
		v.NonFinite = true
		return false
	}
	v.worst(err, bound)
	return err <= bound
}

// error returns the error of a sum or product and its bound, both relative to the sum of
// magnitudes or to the product.
func (a Arithmetic) error(in []float64, got float64) (err, bound float64) {
	op, world := RedOp(a.p.p.RedOp), float64(len(in))
	c, scale := -1, 1.0
	var exact double
	magnitude := 0.0
	if op == Prod {
		exact.hi = 1
		for _, x := range in {
			if x != 1 {
				c++
			}
			exact = exact.times(x)
		}
		magnitude = math.Abs(exact.hi)
	} else {
		for rank, x := range in {
			if op == MulSum {
				x *= float64(MulSumScalar(rank))
			}
			if x != 0 {
				c++
			}
			exact = exact.plus(x)
			magnitude += math.Abs(x)
		}
	}
	if op == Avg {
		scale = world
		if bits.OnesCount(uint(len(in))) != 1 {
			c += 2
		}
	}
	c = max(0, c)
	err = math.Abs(math.FMA(got, scale, -exact.hi)-exact.lo) / magnitude
	if c != 1 {
		return err, float64(c) * (a.unit/(1-float64(c)*a.unit) + a.tiny*scale/magnitude)
	}
	// A single rounding to nearest errs by at most half a unit in the last place of the result.
	_, exponent := math.Frexp(exact.hi)
	half := max(math.Ldexp(1, exponent-2-int(a.p.p.Mantissa)), a.tiny*scale/2)
	return err, (half + wider(a.p.Type())*math.Abs(exact.hi)) / magnitude
}

// double is an unevaluated sum of two numbers, which has twice the precision of one.
type double struct{ hi, lo float64 }

// plus adds x exactly (Knuth's TwoSum).
func (d double) plus(x float64) double {
	s := d.hi + x
	t := s - d.hi
	return double{s, d.lo + (d.hi - (s - t)) + (x - t)}
}

func (d double) times(x float64) double {
	p := d.hi * x
	return double{p, math.FMA(d.hi, x, -p) + d.lo*x}
}
