package data

import (
	"encoding/binary"
	"math/bits"

	"github.com/collectivex/collectivex/pkg/workload"
)

// sharedStream is the stream that all ranks share.
const sharedStream = ^uint32(0)

// Reference is the data of collectives in plain Go, which tests hold pattern.h to: the elements of a
// workload.Pattern, how they fill a buffer, and what a check finds.
type Reference struct{ workload.Params }

// Of returns the reference of a pattern.
func ReferenceOf(p workload.Pattern) Reference { return Reference{p.Params()} }

func (p Reference) inexact() bool {
	return workload.RedOp(p.RedOp) == workload.Avg && p.Mantissa > 0 && p.AvgShift < 0
}

func mix(x uint32) uint32 {
	x ^= x >> 16
	x *= 0x7feb352d
	x ^= x >> 15
	x *= 0x846ca68b
	return x ^ x>>16
}

func (p Reference) hash(rank uint32, i int64) uint32 {
	key := mix(p.Seed ^ mix(rank+0x9e3779b9))
	return mix(mix(key^uint32(i)) + uint32(uint64(i)>>32))
}

func wide(h uint32) uint64 { return uint64(h) | uint64(mix(h^0x5bd1e995))<<32 }

// first returns the first rank of the window of summands whose shared hash is g.
func (p Reference) first(g uint32) uint32 { return uint32(uint64(mix(g)) * uint64(p.World) >> 32) }

func (p Reference) truncate(v uint64) uint64 {
	if p.Size == 8 {
		return v
	}
	return v & (1<<(8*p.Size) - 1)
}

// contributes reports whether rank is in the window.
func (p Reference) contributes(rank, g uint32) bool {
	at := rank + p.World - p.first(g)
	if at >= p.World {
		at -= p.World
	}
	return at < p.Summands
}

// encode returns the bits of k·2^s, which must be normal and exact.
func (p Reference) encode(k int64, s int32) uint64 {
	if k == 0 {
		return 0
	}
	sign := uint64(0)
	if k < 0 {
		sign, k = 1, -k
	}
	top := uint32(bits.Len64(uint64(k)) - 1)
	exponent := uint64(int32(top) + s + p.Bias)
	m := p.Mantissa
	fraction := uint64(k)
	if top > m {
		fraction >>= top - m
	} else {
		fraction <<= m - top
	}
	fraction &= 1<<m - 1
	return sign<<(8*p.Size-1) | exponent<<m | fraction
}

// summand returns the signed k of a floating sum, mulsum or avg.
func (p Reference) summand(h uint32) int64 {
	k := int64(1 + h&p.Mask)
	if h>>31 != 0 {
		return -k
	}
	return k
}

func (p Reference) exponent(g uint32) int32 { return p.Exponent + int32(g&p.Wiggle) }

// power returns the signed power of two of a floating prod.
func (p Reference) power(h uint32) (negative bool, exponent int32) {
	return h>>31 != 0, int32(h&1) - int32(h>>1&1)
}

func (p Reference) signedPower(negative bool, s int32) uint64 {
	if negative {
		return p.encode(-1, s)
	}
	return p.encode(1, s)
}

// Value returns the bits of element i of rank's input.
func (p Reference) Value(rank int, i int64) uint64 {
	h := p.hash(uint32(rank), i)
	raw := p.truncate(wide(h))
	op := workload.RedOp(p.RedOp)
	if op == workload.NoRedOp {
		return raw
	}
	if p.Mantissa == 0 {
		return p.integer(uint32(rank), i, h, raw)
	}
	if op == workload.Min || op == workload.Max {
		return p.finite(raw)
	}
	g := p.hash(sharedStream, i)
	in := p.contributes(uint32(rank), g)
	switch {
	case op == workload.Prod && !in:
		return p.encode(1, 0)
	case op == workload.Prod:
		return p.signedPower(p.power(h))
	case !in:
		return 0
	case p.inexact():
		return p.signedPower(h>>31 != 0, p.Exponent+int32(h&p.Mask))
	default:
		return p.encode(p.summand(h), p.exponent(g))
	}
}

func (p Reference) integer(rank uint32, i int64, h uint32, raw uint64) uint64 {
	switch workload.RedOp(p.RedOp) {
	case workload.Prod:
		return raw | 1
	case workload.Avg:
		if !p.contributes(rank, p.hash(sharedStream, i)) {
			return 0
		}
		return uint64(h & p.Mask)
	}
	return raw
}

// finite moves the exponent field off all zeros and all ones.
func (p Reference) finite(raw uint64) uint64 {
	m := p.Mantissa
	ones := uint64(1)<<(8*p.Size-1-m) - 1
	switch raw >> m & ones {
	case 0:
		return raw | 1<<m
	case ones:
		return raw &^ (1 << m)
	}
	return raw
}

// Expected returns the bits of element i of the reduction over all ranks.
func (p Reference) Expected(i int64) uint64 {
	op := workload.RedOp(p.RedOp)
	switch {
	case op == workload.Min || op == workload.Max:
		return p.extreme(i)
	case p.Mantissa == 0 && op != workload.Avg:
		return p.modular(i)
	}
	g := p.hash(sharedStream, i)
	rank := p.first(g)
	sum, negative, exponent := int64(0), false, int32(0)
	for range p.Summands {
		h := p.hash(rank, i)
		switch {
		case p.Mantissa == 0:
			sum += int64(h & p.Mask)
		case op == workload.Prod:
			n, e := p.power(h)
			negative = negative != n
			exponent += e
		case p.inexact():
			bits := uint64(int32(h&p.Mask)+p.Exponent+p.InverseExponent+p.Bias)<<p.Mantissa | p.InverseMantissa
			return bits | uint64(h>>31)<<(8*p.Size-1)
		case op == workload.MulSum:
			sum += p.summand(h) * int64(workload.MulSumScalar(int(rank)))
		default:
			sum += p.summand(h)
		}
		if rank++; rank == p.World {
			rank = 0
		}
	}
	switch {
	case p.Mantissa == 0:
		return uint64(sum) / uint64(p.World)
	case op == workload.Prod:
		return p.signedPower(negative, exponent)
	case op == workload.Avg:
		return p.encode(sum, p.exponent(g)-p.AvgShift)
	default:
		return p.encode(sum, p.exponent(g))
	}
}

func (p Reference) modular(i int64) uint64 {
	acc := uint64(0)
	if workload.RedOp(p.RedOp) == workload.Prod {
		acc = 1
	}
	for r := range int(p.World) {
		v := p.Value(r, i)
		switch workload.RedOp(p.RedOp) {
		case workload.Prod:
			acc *= v
		case workload.MulSum:
			acc += v * uint64(workload.MulSumScalar(r))
		default:
			acc += v
		}
	}
	return p.truncate(acc)
}

func (p Reference) extreme(i int64) uint64 {
	best := p.Value(0, i)
	for r := 1; r < int(p.World); r++ {
		v := p.Value(r, i)
		if less := p.order(v) < p.order(best); less == (workload.RedOp(p.RedOp) == workload.Min) {
			best = v
		}
	}
	return best
}

// order maps the bits of an element to an unsigned number that increases with its value.
// Neighbouring values differ by one.
func (p Reference) order(v uint64) uint64 {
	sign := uint64(1) << (8*p.Size - 1)
	switch {
	case p.Mantissa == 0 && p.Signed == 0:
		return v
	case p.Mantissa == 0:
		return v ^ sign
	case v&sign != 0:
		return sign - v&^sign
	default:
		return v | sign
	}
}

// At returns the bits of element First + j of the region.
func (p Reference) At(r workload.Region, j int64) uint64 {
	if r.Source == workload.AllRanks {
		return p.Expected(r.First + j)
	}
	return p.Value(r.Source, r.First+j)
}

// Fill writes the regions' elements into buf.
func (p Reference) Fill(buf []byte, regions []workload.Region) { p.write(buf, regions, 0) }

// Poison writes the complement of each element, so that an element that an operation does
// not write fails the check.
func (p Reference) Poison(buf []byte, regions []workload.Region) { p.write(buf, regions, ^uint64(0)) }

func (p Reference) write(buf []byte, regions []workload.Region, flip uint64) {
	for _, r := range regions {
		for j := range r.Count {
			p.store(buf, r.Offset+j, p.At(r, j)^flip)
		}
	}
}

// Check compares the regions' elements in buf.
func (p Reference) Check(buf []byte, regions []workload.Region) workload.Verdict {
	v := workload.Verdict{First: -1}
	tolerance := uint64(0)
	if p.inexact() {
		tolerance = 1
	}
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

func (p Reference) distance(a, b uint64) uint64 {
	x, y := p.order(a), p.order(b)
	if x < y {
		return y - x
	}
	return x - y
}

func (p Reference) load(buf []byte, at int64) uint64 {
	var word [8]byte
	size := int64(p.Size)
	copy(word[:], buf[at*size:(at+1)*size])
	return binary.LittleEndian.Uint64(word[:])
}

func (p Reference) store(buf []byte, at int64, v uint64) {
	var word [8]byte
	size := int64(p.Size)
	binary.LittleEndian.PutUint64(word[:], v)
	copy(buf[at*size:(at+1)*size], word[:])
}
