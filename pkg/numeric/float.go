package numeric

import "math"

// BF16 rounds x to bfloat16, to nearest even. As in CUDA's conversion, values that are too
// large become an infinity, and every NaN becomes 0x7fff.
func BF16(x float32) uint16 {
	bits := math.Float32bits(x)
	if bits&^signBit > infBits {
		return 0x7fff
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// FromBF16 returns the exact value of a bfloat16.
func FromBF16(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// FP16 rounds x to IEEE half precision, to nearest even. As in CUDA's conversion, values
// that are too large become an infinity, and every NaN becomes 0x7fff.
func FP16(x float32) uint16 { return uint16(fp16.encode(x)) }

// FromFP16 returns the exact value of a half.
func FromFP16(b uint16) float32 { return fp16.decode(uint32(b)) }

// FP8 is an 8-bit floating point format.
type FP8 struct {
	format
	// Max is the largest finite value.
	Max    float32
	values [256]float32
}

// The formats. Like the conversions of CUDA (E4M3FN and E5M2, with __NV_SATFINITE) and HIP
// (E4M3FNUZ), they round to nearest even, and values that are too large become the largest
// finite value. So do infinities, except in E4M3FNUZ, where they become NaN.
var (
	// E4M3FN has 4 exponent and 3 mantissa bits, no infinities, largest value 448, NaN 0x7f.
	E4M3FN = newFP8(format{exponent: 4, mantissa: 3, bias: 7, max: 0x7e, inf: 0x7e, nan: 0x7f})
	// E4M3FNUZ is the format of gfx942: a bias larger by one, no infinities and no negative
	// zero, largest value 240; the only NaN is 0x80.
	E4M3FNUZ = newFP8(format{exponent: 4, mantissa: 3, bias: 8, max: 0x7f, inf: 0x80, nan: 0x80, unsignedZero: true})
	// E5M2 has 5 exponent and 2 mantissa bits; largest value 57344, canonical NaN 0x7f. It
	// has infinities, which the conversion does not produce.
	E5M2 = newFP8(format{exponent: 5, mantissa: 2, bias: 15, max: 0x7b, inf: 0x7b, nan: 0x7f, ieee: true})
)

func newFP8(f format) *FP8 {
	c := &FP8{format: f}
	for b := range c.values {
		c.values[b] = f.decode(uint32(b))
	}
	c.Max = c.values[f.max]
	return c
}

// Encode rounds x to the format.
func (c *FP8) Encode(x float32) byte { return byte(c.encode(x)) }

// Decode returns the exact value of b.
func (c *FP8) Decode(b byte) float32 { return c.values[b] }

const (
	signBit = 1 << 31
	infBits = 0xff << 23
)

// format is a small float: sign, exponent, mantissa.
type format struct {
	exponent, mantissa, bias int
	max                      uint32 // code of the largest finite value
	inf                      uint32 // code that an infinity is encoded as, without its sign
	nan                      uint32 // canonical NaN
	ieee                     bool   // the largest exponent encodes infinities and NaNs
	unsignedZero             bool   // the code of −0 is the only NaN
}

var fp16 = format{exponent: 5, mantissa: 10, bias: 15, max: 0x7bff, inf: 0x7c00, nan: 0x7fff, ieee: true}

// overflow returns the code of values that round beyond max: an infinity if the format
// produces them, otherwise max.
func (f *format) overflow() uint32 {
	if f.ieee && f.inf > f.max {
		return f.inf
	}
	return f.max
}

// encode rounds x to nearest even and returns its code.
func (f *format) encode(x float32) uint32 {
	bits := math.Float32bits(x)
	sign := bits & signBit >> (31 - f.exponent - f.mantissa)
	abs := bits &^ signBit
	var code uint32
	switch e := int(abs>>23) - 127 + f.bias; {
	case abs > infBits:
		return f.nan
	case abs == infBits:
		code = f.inf
	case e >= 1:
		code = roundShift(abs, 23-f.mantissa) - uint32(127-f.bias)<<f.mantissa
		if code > f.max {
			code = f.overflow()
		}
	default:
		// Subnormal: the significand with its hidden bit, shifted by one more place for each
		// exponent below the smallest. A shift by 25 places gives 0.
		code = roundShift(abs&(1<<23-1)|1<<23, min(23-f.mantissa+1-e, 25))
	}
	if f.unsignedZero && (code == 0 || code == f.nan) {
		return code
	}
	return code | sign
}

// roundShift shifts v right by a number of places, at least 1, and rounds to nearest even.
func roundShift(v uint32, places int) uint32 {
	return (v + 1<<(places-1) - 1 + v>>places&1) >> places
}

// decode returns the exact value of a code.
func (f *format) decode(code uint32) float32 {
	signAt := f.exponent + f.mantissa
	sign := code >> signAt << 31
	if f.unsignedZero && code == f.nan {
		return float32(math.NaN())
	}
	code &= 1<<signAt - 1
	e, m := int(code>>f.mantissa), code&(1<<f.mantissa-1)
	switch {
	case f.ieee && e == 1<<f.exponent-1:
		return math.Float32frombits(sign | infBits | m<<(23-f.mantissa))
	case !f.ieee && !f.unsignedZero && code == f.nan:
		return math.Float32frombits(sign | infBits | m<<(23-f.mantissa))
	case e == 0:
		subnormal := float32(math.Ldexp(float64(m), 1-f.bias-f.mantissa))
		return math.Float32frombits(sign | math.Float32bits(subnormal))
	}
	return math.Float32frombits(sign | uint32(e-f.bias+127)<<23 | m<<(23-f.mantissa))
}
