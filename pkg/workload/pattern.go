package workload

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/collectivex/collectivex/pkg/numeric"
)

// Pattern defines every element of a collective's buffers. An element is a pure
// function of (seed, reduction, type, world, rank, index). Its reduction over the
// ranks is exact in any order, with every partial result in the element type.
// Results are therefore compared bit for bit.
//
// pattern.h implements the function in C, for CUDA and HIP too. Tests compare it with
// internal/reference. Both use [Params] and unsigned 32-bit arithmetic (64-bit
// only to hold an index or an element):
//
//	mix(x)     x ^= x>>16; x *= 0x7feb352d; x ^= x>>15; x *= 0x846ca68b; x ^= x>>16
//	key(r)     mix(seed ^ mix(r + 0x9e3779b9))
//	hash(r,i)  mix(mix(key(r) ^ low32(i)) + high32(i))
//	shared(i)  hash(0xffffffff, i): the same on all ranks
//	wide(h)    h | mix(h ^ 0x5bd1e995) << 32: raw bits for elements up to 64 bits
//	pick(h,n)  high 32 bits of h·n: a number below n
//
// Below, h = hash(rank, i) and g = shared(i). The raw bits of an element are the low
// bits of wide(h).
//
//   - Copies: the raw bits.
//   - Min, max: the raw bits. In floating types an exponent field of all zeros
//     becomes 1, and one of all ones becomes one less, so that there is no NaN,
//     infinity, zero or subnormal.
//   - Integer sum, mulsum: the raw bits; arithmetic modulo 2^bits is exact in any
//     order. Integer prod: the raw bits with the lowest bit set, so that every
//     factor is odd and affects the result.
//   - Integer avg: rank contributes h & Mask, so that the sum fits the type; the
//     expected value is sum / world rounded down (nothing is negative).
//   - Floating sum, mulsum, avg: ranks in a window of Summands ranks that starts at
//     pick(mix(g), world) and wraps contribute k·2^s; the others hold +0.
//     |k| = 1 + (h & Mask), negative if bit 31 of h is set; s = Exponent +
//     (g & Wiggle). Mask keeps every sum of k (of k·scalar in a mulsum) within
//     the integers that the type represents exactly. The expected value of an avg
//     over a power of two is Σk·2^(s−log2 world), which is also normal.
//   - Floating avg over a world that is not a power of two: the first rank of the window
//     holds ±2^(Exponent + (h & 3)), sign by bit 31; the others hold +0. The expected value
//     is this number times 1/world, rounded once to nearest. Dividing the sum and
//     multiplying by the rounded reciprocal give the same. Only here is 1 ulp allowed,
//     since an implementation may round twice.
//   - Floating prod: ranks in a window of at most 4 hold ±2^((h&1) − (h>>1&1)), sign by
//     bit 31; the others hold 1.
//
// For every type, each rank contributes at some indices, and every index has a
// contribution.
type Pattern struct{ p Params }

// Params is the argument of kernels that compute a Pattern. Its fields have the order of
// cx_pattern in pattern.h. Each field has 32 bits, except the last.
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
	// Summands is the number of ranks that contribute to an element: of a floating sum,
	// prod or avg and of an integer avg. It is World for everything else.
	Summands uint32
	Mask     uint32
	Wiggle   uint32
	Exponent int32
	// AvgShift is log2 World for a floating avg if World is a power of two, otherwise −1.
	AvgShift int32
	// InverseExponent and InverseMantissa are 1/World rounded to the type, for a
	// floating avg if World is not a power of two.
	InverseExponent int32
	InverseMantissa uint64
}

const (
	sharedStream = ^uint32(0)
	prodSummands = 4
	// maxWorld is the maximum world size of an avg, limited by the exponent range of fp8.
	maxWorld = 1024
)

// NewPattern returns the pattern of a reduction, or of a copy if op is NoRedOp. It fails for an
// unknown type or reduction, and for a world size that the pattern does not support.
func NewPattern(t numeric.Type, op RedOp, world int, seed uint32) (Pattern, error) {
	if t < 0 || int(t) >= len(formats) || int(op) >= len(redOpNames) {
		return Pattern{}, fmt.Errorf("pattern: unknown element type %d or reduction %d", t, op)
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

// average sets the fields that a floating avg needs in addition to a sum's.
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

// ceilLog2 returns the smallest b with 2^b ≥ n.
func ceilLog2(n uint32) uint32 { return uint32(bits.Len32(n - 1)) }

// Seeded returns a copy of the pattern with this seed.
func (p Pattern) Seeded(seed uint32) Pattern {
	p.p.Seed = seed
	return p
}

// Params returns the argument of kernels.
func (p Pattern) Params() Params { return p.p }

// Type returns the element type.
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

func (p Pattern) truncate(v uint64) uint64 {
	if p.p.Size == 8 {
		return v
	}
	return v & (1<<(8*p.p.Size) - 1)
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

// Verdict is the result of a check.
type Verdict struct {
	Checked int64 `json:"checked"` // elements compared
	Wrong   int64 `json:"wrong"`   // elements that differ by more than the tolerance
	First   int64 `json:"first"`   // offset of the first wrong element in the buffer, in elements; −1 if there is none
}

// Add adds the verdict of a later check.
func (v *Verdict) Add(other Verdict) {
	if v.Wrong == 0 {
		v.First = other.First
	}
	v.Checked += other.Checked
	v.Wrong += other.Wrong
}

func (p Pattern) load(buf []byte, at int64) uint64 {
	var word [8]byte
	size := int64(p.p.Size)
	copy(word[:], buf[at*size:(at+1)*size])
	return binary.LittleEndian.Uint64(word[:])
}

func (p Pattern) store(buf []byte, at int64, v uint64) {
	var word [8]byte
	size := int64(p.p.Size)
	binary.LittleEndian.PutUint64(word[:], v)
	copy(buf[at*size:(at+1)*size], word[:])
}
