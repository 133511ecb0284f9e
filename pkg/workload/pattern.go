package workload

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/collectivex/collectivex/pkg/numeric"
)

// Pattern says what every element of a collective's buffers is. An element is
// a pure function of (seed, reduction, type, world, rank, index), built so that
// its reduction over the ranks is exact, whatever the order and at every
// partial result in the element type itself: results are compared bit for bit.
//
// pattern.h is the same function as C that CUDA and HIP compile too; this file
// is the reference it is tested against. Both work on [Params] and unsigned
// 32-bit arithmetic (64-bit only to hold an index or an element):
//
//	mix(x)     x ^= x>>16; x *= 0x7feb352d; x ^= x>>15; x *= 0x846ca68b; x ^= x>>16
//	key(r)     mix(seed ^ mix(r + 0x9e3779b9))
//	hash(r,i)  mix(mix(key(r) ^ low32(i)) + high32(i))
//	shared(i)  hash(0xffffffff, i): the same on all ranks
//	wide(h)    h | mix(h ^ 0x5bd1e995) << 32: raw bits for elements up to 64 bits
//	pick(h,n)  high 32 bits of h·n: a number below n
//
// Below h = hash(rank, i), g = shared(i), and an element's raw bits are the low
// bits of wide(h).
//
//   - Copies: the raw bits.
//   - Min, max: the raw bits; of floating types the exponent field is moved off
//     all zeros (to 1) and off all ones (to one less), so that there is no NaN,
//     infinity, zero or subnormal.
//   - Integer sum, mulsum: the raw bits; arithmetic modulo 2^bits is exact in any
//     order. Integer prod: the raw bits with the lowest one set, so that no rank's
//     factor is lost.
//   - Integer avg: rank contributes h & Mask, so that the sum fits the type; the
//     expected value is sum / world rounded down (nothing is negative).
//   - Floating sum, mulsum, avg: ranks in a window of Summands ranks that starts at
//     pick(mix(g), world) and wraps contribute k·2^s; the others hold +0.
//     |k| = 1 + (h & Mask), negative where bit 31 of h is set; s = Exponent +
//     (g & Wiggle). Mask is such that no sum of k (of k·scalar in a mulsum)
//     exceeds what the type holds exactly. An avg over a power of two expects
//     Σk·2^(s−log2 world), normal too.
//   - Floating avg of another world: one rank, the window's first, holds
//     ±2^(Exponent + (h & 3)), sign by bit 31; the others hold +0. The expected value is that
//     times 1/world rounded once to nearest: dividing the sum and multiplying by
//     the rounded reciprocal agree. Only here is 1 ulp allowed, since an
//     implementation may round twice.
//   - Floating prod: ranks in a window of at most 4 hold ±2^((h&1) − (h>>1&1)), sign by
//     bit 31; the others hold 1.
//
// Each rank contributes at some indices of every type, and every index has a
// contribution.
type Pattern struct{ p Params }

// Params is a Pattern as kernels take it: every derived number, flat, in this
// order, each field 32 bits wide but the last.
type Params struct {
	Seed  uint32
	World uint32
	Type  uint32 // NCCL's value
	RedOp uint32 // NCCL's value; 5 mulsum, 6 copy
	// Size is bytes per element; Mantissa and Bias are 0 for integers.
	Size     uint32
	Mantissa uint32
	Bias     int32
	Signed   uint32 // 1 for signed integers
	// Summands is the ranks that contribute to an element of a floating sum, prod
	// or avg and of an integer avg; World elsewhere.
	Summands uint32
	Mask     uint32
	Wiggle   uint32
	Exponent int32
	// AvgShift is log2 World of a floating avg whose world is a power of two; else −1.
	AvgShift int32
	// InverseExponent and InverseMantissa are 1/World rounded to the type, for a
	// floating avg of another world.
	InverseExponent int32
	InverseMantissa uint64
}

const (
	sharedStream = ^uint32(0)
	prodSummands = 4
	// maxWorld bounds what the exponent ranges of fp8 leave room for in an avg.
	maxWorld = 1024
)

// NewPattern returns the pattern of a reduction (or of a copy, with NoRedOp).
func NewPattern(t numeric.Type, op RedOp, world int, seed uint32) (Pattern, error) {
	if t < 0 || int(t) >= len(formats) || int(op) >= len(redOpNames) {
		return Pattern{}, fmt.Errorf("pattern: no such element type or reduction: %d, %d", t, op)
	}
	if world < 1 || world > maxWorld && op == Avg {
		return Pattern{}, fmt.Errorf("pattern: world %d of %s %s: want 1 … %d", world, t, op, maxWorld)
	}
	f := formats[t]
	p := Params{
		Seed: seed, World: uint32(world), Type: uint32(t), RedOp: uint32(op),
		Size: uint32(t.Size()), Mantissa: f.mantissa, Bias: f.bias,
		Summands: uint32(world), AvgShift: -1,
	}
	if f.signed {
		p.Signed = 1
	}
	if f.mantissa == 0 {
		if op == Avg {
			p.Summands = min(p.Summands, f.summands)
			p.Mask = uint32(1)<<(min(8*p.Size, 32)-1) - 1
			p.Mask >>= ceilLog2(p.Summands)
		}
		return Pattern{p}, nil
	}
	switch op {
	case Sum, MulSum, Avg:
		p.Summands = min(p.Summands, f.summands)
		room := f.exact - ceilLog2(p.Summands)
		if op == MulSum {
			room--
		}
		p.Mask = 1<<room - 1
		p.Wiggle, p.Exponent = 3, -2
		if op == Avg {
			p.average()
		}
	case Prod:
		p.Summands = min(p.Summands, prodSummands)
	}
	return Pattern{p}, nil
}

// average sets what a floating avg needs on top of a sum.
func (p *Params) average() {
	log := ceilLog2(p.World)
	p.Wiggle = 0
	if p.World == 1<<log {
		p.AvgShift = int32(log)
		p.Exponent = int32(min(log/2, 4))
		return
	}
	// 1/World = 1.f · 2^-log with f of Mantissa bits; no tie can occur, since
	// World has an odd factor.
	p.Summands, p.Mask, p.Exponent = 1, 3, 4
	q := (uint64(1)<<(log+p.Mantissa+1)/uint64(p.World) + 1) >> 1
	p.InverseExponent = -int32(log)
	if q == 1<<(p.Mantissa+1) {
		q >>= 1
		p.InverseExponent++
	}
	p.InverseMantissa = q &^ (1 << p.Mantissa)
}

// ceilLog2 is the least b with 2^b ≥ n.
func ceilLog2(n uint32) uint32 { return uint32(bits.Len32(n - 1)) }

// Seeded returns the pattern with another seed.
func (p Pattern) Seeded(seed uint32) Pattern {
	p.p.Seed = seed
	return p
}

// Params returns the pattern as kernels take it.
func (p Pattern) Params() Params { return p.p }

// Type is the element type.
func (p Pattern) Type() numeric.Type { return numeric.Type(p.p.Type) }

// ToleranceULP returns the largest distance allowed between a result and its expected
// value, in units in the last place; 0 if results are compared bit for bit.
func (p Pattern) ToleranceULP() int {
	if p.inexact() {
		return 1
	}
	return 0
}

func (p Pattern) inexact() bool {
	return RedOp(p.p.RedOp) == Avg && p.p.Mantissa > 0 && p.p.AvgShift < 0
}

func mix(x uint32) uint32 {
	x ^= x >> 16
	x *= 0x7feb352d
	x ^= x >> 15
	x *= 0x846ca68b
	return x ^ x>>16
}

func (p Pattern) hash(rank uint32, i int64) uint32 {
	key := mix(p.p.Seed ^ mix(rank+0x9e3779b9))
	return mix(mix(key^uint32(i)) + uint32(uint64(i)>>32))
}

func wide(h uint32) uint64 { return uint64(h) | uint64(mix(h^0x5bd1e995))<<32 }

func pick(h, n uint32) uint32 { return uint32(uint64(h) * uint64(n) >> 32) }

// first returns the first rank of the window of summands whose shared hash is g.
func (p Pattern) first(g uint32) uint32 { return pick(mix(g), p.p.World) }

// contributes reports whether rank is in the window.
func (p Pattern) contributes(rank, g uint32) bool {
	at := rank + p.p.World - p.first(g)
	if at >= p.p.World {
		at -= p.p.World
	}
	return at < p.p.Summands
}

// encode returns the bits of k·2^s, which must be normal and exact.
func (p Pattern) encode(k int64, s int32) uint64 {
	if k == 0 {
		return 0
	}
	sign := uint64(0)
	if k < 0 {
		sign, k = 1, -k
	}
	top := uint32(bits.Len64(uint64(k)) - 1)
	exponent := uint64(int32(top) + s + p.p.Bias)
	m := p.p.Mantissa
	fraction := uint64(k)
	if top > m {
		fraction >>= top - m
	} else {
		fraction <<= m - top
	}
	fraction &= 1<<m - 1
	return sign<<(8*p.p.Size-1) | exponent<<m | fraction
}

func (p Pattern) truncate(v uint64) uint64 {
	if p.p.Size == 8 {
		return v
	}
	return v & (1<<(8*p.p.Size) - 1)
}

// summand returns the signed k of a floating sum, mulsum or avg.
func (p Pattern) summand(h uint32) int64 {
	k := int64(1 + h&p.p.Mask)
	if h>>31 != 0 {
		return -k
	}
	return k
}

func (p Pattern) exponent(g uint32) int32 { return p.p.Exponent + int32(g&p.p.Wiggle) }

// power returns the signed power of two of a floating prod.
func (p Pattern) power(h uint32) (negative bool, exponent int32) {
	return h>>31 != 0, int32(h&1) - int32(h>>1&1)
}

func (p Pattern) signedPower(negative bool, s int32) uint64 {
	if negative {
		return p.encode(-1, s)
	}
	return p.encode(1, s)
}

// Value returns the bits of element i of rank's input.
func (p Pattern) Value(rank int, i int64) uint64 {
	h := p.hash(uint32(rank), i)
	raw := p.truncate(wide(h))
	op := RedOp(p.p.RedOp)
	if op == NoRedOp {
		return raw
	}
	if p.p.Mantissa == 0 {
		return p.integer(uint32(rank), i, h, raw)
	}
	if op == Min || op == Max {
		return p.finite(raw)
	}
	g := p.hash(sharedStream, i)
	in := p.contributes(uint32(rank), g)
	switch {
	case op == Prod && !in:
		return p.encode(1, 0)
	case op == Prod:
		return p.signedPower(p.power(h))
	case !in:
		return 0
	case p.inexact():
		return p.signedPower(h>>31 != 0, p.p.Exponent+int32(h&p.p.Mask))
	default:
		return p.encode(p.summand(h), p.exponent(g))
	}
}

func (p Pattern) integer(rank uint32, i int64, h uint32, raw uint64) uint64 {
	switch RedOp(p.p.RedOp) {
	case Prod:
		return raw | 1
	case Avg:
		if !p.contributes(rank, p.hash(sharedStream, i)) {
			return 0
		}
		return uint64(h & p.p.Mask)
	}
	return raw
}

// finite moves the exponent field off all zeros and all ones.
func (p Pattern) finite(raw uint64) uint64 {
	m := p.p.Mantissa
	ones := uint64(1)<<(8*p.p.Size-1-m) - 1
	switch raw >> m & ones {
	case 0:
		return raw | 1<<m
	case ones:
		return raw &^ (1 << m)
	}
	return raw
}

// Expected returns the bits of element i of the reduction over all ranks.
func (p Pattern) Expected(i int64) uint64 {
	op := RedOp(p.p.RedOp)
	switch {
	case op == Min || op == Max:
		return p.extreme(i)
	case p.p.Mantissa == 0 && op != Avg:
		return p.modular(i)
	}
	g := p.hash(sharedStream, i)
	rank := p.first(g)
	sum, negative, exponent := int64(0), false, int32(0)
	for range p.p.Summands {
		h := p.hash(rank, i)
		switch {
		case p.p.Mantissa == 0:
			sum += int64(h & p.p.Mask)
		case op == Prod:
			n, e := p.power(h)
			negative = negative != n
			exponent += e
		case p.inexact():
			bits := uint64(int32(h&p.p.Mask)+p.p.Exponent+p.p.InverseExponent+p.p.Bias)<<p.p.Mantissa | p.p.InverseMantissa
			return bits | uint64(h>>31)<<(8*p.p.Size-1)
		case op == MulSum:
			sum += p.summand(h) * int64(MulSumScalar(int(rank)))
		default:
			sum += p.summand(h)
		}
		if rank++; rank == p.p.World {
			rank = 0
		}
	}
	switch {
	case p.p.Mantissa == 0:
		return uint64(sum) / uint64(p.p.World)
	case op == Prod:
		return p.signedPower(negative, exponent)
	case op == Avg:
		return p.encode(sum, p.exponent(g)-p.p.AvgShift)
	default:
		return p.encode(sum, p.exponent(g))
	}
}

func (p Pattern) modular(i int64) uint64 {
	acc := uint64(0)
	if RedOp(p.p.RedOp) == Prod {
		acc = 1
	}
	for r := range int(p.p.World) {
		v := p.Value(r, i)
		switch RedOp(p.p.RedOp) {
		case Prod:
			acc *= v
		case MulSum:
			acc += v * uint64(MulSumScalar(r))
		default:
			acc += v
		}
	}
	return p.truncate(acc)
}

func (p Pattern) extreme(i int64) uint64 {
	best := p.Value(0, i)
	for r := 1; r < int(p.p.World); r++ {
		v := p.Value(r, i)
		if less := p.order(v) < p.order(best); less == (RedOp(p.p.RedOp) == Min) {
			best = v
		}
	}
	return best
}

// order maps the bits of an element to an unsigned number that increases with its value.
// Neighbouring values differ by one.
func (p Pattern) order(v uint64) uint64 {
	sign := uint64(1) << (8*p.p.Size - 1)
	switch {
	case p.p.Mantissa == 0 && p.p.Signed == 0:
		return v
	case p.p.Mantissa == 0:
		return v ^ sign
	case v&sign != 0:
		return sign - v&^sign
	default:
		return v | sign
	}
}

// AllRanks is the source of a region whose elements are reductions over all ranks.
const AllRanks = -1

// Region is Count consecutive elements of a buffer, from element Offset on. They are the
// elements from First on of the input of rank Source or, if Source is AllRanks, of the
// reduction.
type Region struct {
	Offset, Count, First int64
	Source               int
}

// At returns the bits of element First + j of the region.
func (p Pattern) At(r Region, j int64) uint64 {
	if r.Source == AllRanks {
		return p.Expected(r.First + j)
	}
	return p.Value(r.Source, r.First+j)
}

// Fill writes the regions' elements into buf.
func (p Pattern) Fill(buf []byte, regions []Region) { p.write(buf, regions, 0) }

// Poison writes the complement of each element, so that an element that an operation does
// not write fails the check.
func (p Pattern) Poison(buf []byte, regions []Region) { p.write(buf, regions, ^uint64(0)) }

func (p Pattern) write(buf []byte, regions []Region, flip uint64) {
	for _, r := range regions {
		for j := range r.Count {
			p.store(buf, r.Offset+j, p.At(r, j)^flip)
		}
	}
}

// Verdict is the result of a check.
type Verdict struct {
	Checked int64 `json:"checked"` // elements compared
	Wrong   int64 `json:"wrong"`   // elements that differ by more than the tolerance
	First   int64 `json:"first"`   // offset of the first wrong element in the buffer, in elements; −1 if there is none
}

// Check compares the regions' elements in buf.
func (p Pattern) Check(buf []byte, regions []Region) Verdict {
	v := Verdict{First: -1}
	tolerance := uint64(p.ToleranceULP())
	for _, r := range regions {
		for j := range r.Count {
			got, want := p.load(buf, r.Offset+j), p.At(r, j)
			v.Checked++
			if got == want || tolerance > 0 && p.distance(got, want) <= tolerance {
				continue
			}
			if v.Wrong == 0 || r.Offset+j < v.First {
				v.First = r.Offset + j
			}
			v.Wrong++
		}
	}
	return v
}

func (p Pattern) distance(a, b uint64) uint64 {
	x, y := p.order(a), p.order(b)
	if x < y {
		return y - x
	}
	return x - y
}

func (p Pattern) load(buf []byte, at int64) uint64 {
	at *= int64(p.p.Size)
	switch p.p.Size {
	case 1:
		return uint64(buf[at])
	case 2:
		return uint64(binary.LittleEndian.Uint16(buf[at:]))
	case 4:
		return uint64(binary.LittleEndian.Uint32(buf[at:]))
	}
	return binary.LittleEndian.Uint64(buf[at:])
}

func (p Pattern) store(buf []byte, at int64, v uint64) {
	at *= int64(p.p.Size)
	switch p.p.Size {
	case 1:
		buf[at] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(buf[at:], uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(buf[at:], uint32(v))
	default:
		binary.LittleEndian.PutUint64(buf[at:], v)
	}
}
