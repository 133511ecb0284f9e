package numeric_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/collectivex/collectivex/pkg/numeric"
)

func TestTypes(t *testing.T) {
	names := []string{"int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"}
	sizes := []int{1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1}
	require.Len(t, numeric.Types(), len(names))
	for i, typ := range numeric.Types() {
		require.Equal(t, i, int(typ), "the enumerator of NCCL")
		require.Equal(t, names[i], typ.String())
		require.Equal(t, sizes[i], typ.Size())
		parsed, err := numeric.ParseType(names[i])
		require.NoError(t, err)
		require.Equal(t, typ, parsed)
	}
	_, err := numeric.ParseType("fp8_e4m3")
	require.EqualError(t, err, `unknown element type "fp8_e4m3"`)
	require.Equal(t, "type(12)", numeric.Type(12).String())
}

// spec is a format as its paper defines it, to test the codec against.
type spec struct {
	name           string
	encode         func(float32) uint32
	decode         func(uint32) float32
	exponent, mant int
	bias           int
	finite         func(code uint32) bool // of a code without its sign
	negativeZero   bool
	max            float64
	overflow       float64 // what twice the largest value becomes
	ofInf          float64 // what an infinity becomes; NaN is NaN
	nan            uint32
}

func (s spec) codes() uint32 { return 1 << (1 + s.exponent + s.mant) }

func (s spec) value(code uint32) float64 {
	e := int(code>>s.mant) & (1<<s.exponent - 1)
	m := float64(code & (1<<s.mant - 1))
	v := math.Ldexp(1+m/float64(int(1)<<s.mant), e-s.bias)
	if e == 0 {
		v = math.Ldexp(m, 1-s.bias-s.mant)
	}
	if code>>(s.exponent+s.mant) == 1 {
		return -v
	}
	return v
}

func fp8(name string, f *numeric.FP8, s spec) spec {
	s.name = name
	s.encode = func(x float32) uint32 { return uint32(f.Encode(x)) }
	s.decode = func(c uint32) float32 { return f.Decode(byte(c)) }
	return s
}

var inf = math.Inf(1)

var specs = []spec{
	{
		name:     "bf16",
		encode:   func(x float32) uint32 { return uint32(numeric.BF16(x)) },
		decode:   func(c uint32) float32 { return numeric.FromBF16(uint16(c)) },
		exponent: 8, mant: 7, bias: 127, negativeZero: true,
		finite: func(c uint32) bool { return c < 0x7f80 },
		max:    0x1.fep127, overflow: inf, ofInf: inf, nan: 0x7fff,
	},
	{
		name:     "fp16",
		encode:   func(x float32) uint32 { return uint32(numeric.FP16(x)) },
		decode:   func(c uint32) float32 { return numeric.FromFP16(uint16(c)) },
		exponent: 5, mant: 10, bias: 15, negativeZero: true,
		finite: func(c uint32) bool { return c < 0x7c00 },
		max:    65504, overflow: inf, ofInf: inf, nan: 0x7fff,
	},
	fp8("e4m3fn", numeric.E4M3FN, spec{
		exponent: 4, mant: 3, bias: 7, negativeZero: true,
		finite: func(c uint32) bool { return c < 0x7f },
		max:    448, overflow: 448, ofInf: 448, nan: 0x7f,
	}),
	fp8("e4m3fnuz", numeric.E4M3FNUZ, spec{
		exponent: 4, mant: 3, bias: 8,
		finite: func(uint32) bool { return true },
		max:    240, overflow: 240, ofInf: math.NaN(), nan: 0x80,
	}),
	fp8("e5m2", numeric.E5M2, spec{
		exponent: 5, mant: 2, bias: 15, negativeZero: true,
		finite: func(c uint32) bool { return c < 0x7c },
		max:    57344, overflow: 57344, ofInf: 57344, nan: 0x7f,
	}),
}

func each(t *testing.T, f func(t *testing.T, s spec)) {
	for _, s := range specs {
		t.Run(s.name, func(t *testing.T) { f(t, s) })
	}
}

// same is require.Equal, fast where there are many.
func same[T comparable](t *testing.T, want, got T, format string, args ...any) {
	t.Helper()
	if want != got {
		require.Equal(t, want, got, append([]any{format}, args...)...)
	}
}

// Every code decodes to the value its bits spell, and every number encodes
// back to its own code.
func TestAllCodes(t *testing.T) {
	each(t, func(t *testing.T, s spec) {
		sign := s.codes() / 2
		var largest float64
		for code := range s.codes() {
			got := s.decode(code)
			switch {
			case !s.negativeZero && code == sign:
				require.True(t, math.IsNaN(float64(got)), "code %#x", code)
			case s.finite(code &^ sign):
				same(t, math.Float64bits(s.value(code)), math.Float64bits(float64(got)), "code %#x", code)
				same(t, code, s.encode(got), "value %v", got)
				largest = max(largest, float64(got))
			case got == got: // an infinity: only the formats of IEEE have one, with an empty mantissa
				require.True(t, math.IsInf(float64(got), 0), "code %#x", code)
				require.Zero(t, code&(1<<s.mant-1))
			}
			if got != got {
				same(t, s.nan, s.encode(got), "code %#x", code)
			}
		}
		require.Equal(t, s.max, largest)
		for _, x := range []uint32{0x7f800001, 0x7fffffff, 0xff800001, 0xffc00000} {
			require.Equal(t, s.nan, s.encode(math.Float32frombits(x)), "every NaN becomes the canonical one")
		}
	})
}

// Between every two neighbours: the middle goes to the even code, whatever is
// nearer to one of them goes there, on both sides of zero.
func TestRounding(t *testing.T) {
	each(t, func(t *testing.T, s spec) {
		sign := s.codes() / 2
		for code := uint32(0); code+1 < sign && s.finite(code+1); code++ {
			low, high := float64(s.decode(code)), float64(s.decode(code+1))
			middle := float32((low + high) / 2)
			same(t, (low+high)/2, float64(middle), "the middle is a float32")
			even := code + code&1
			for _, side := range []uint32{0, sign} {
				flip := float32(1)
				if side != 0 {
					flip = -1
				}
				want := func(code uint32) uint32 {
					if code == 0 && !s.negativeZero {
						return 0
					}
					return code | side
				}
				same(t, want(even), s.encode(flip*middle), "middle above code %#x", code)
				same(t, want(code), s.encode(flip*math.Nextafter32(middle, 0)), "below the middle above code %#x", code)
				same(t, want(code+1), s.encode(flip*math.Nextafter32(middle, math.MaxFloat32)), "above the middle above code %#x", code)
			}
		}
	})
}

func TestTooLarge(t *testing.T) {
	each(t, func(t *testing.T, s spec) {
		// The last half step still rounds down to the largest value.
		step := s.max - float64(s.decode(s.encode(float32(s.max))-1))
		below := math.Nextafter32(float32(s.max+step/2), 0)
		require.Equal(t, s.max, float64(s.decode(s.encode(below))))
		for _, x := range []float32{float32(s.max + step/2 + step/8), float32(min(2*s.max, math.MaxFloat32)), math.MaxFloat32} {
			require.Equal(t, s.overflow, float64(s.decode(s.encode(x))), "%v", x)
			require.Equal(t, -s.overflow, float64(s.decode(s.encode(-x))), "%v", -x)
		}
		for _, sign := range []int{1, -1} {
			got := float64(s.decode(s.encode(float32(math.Inf(sign)))))
			if math.IsNaN(s.ofInf) {
				require.True(t, math.IsNaN(got))
				continue
			}
			require.Equal(t, float64(sign)*s.ofInf, got)
		}
	})
}

func TestFP16IsThatOfAnotherImplementation(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1_000_000 {
		x := math.Float32frombits(r.Uint32())
		if x != x {
			continue
		}
		same(t, float16.Fromfloat32(x).Bits(), numeric.FP16(x), "%v", x)
	}
}

// Values from the papers and from CUDA's header, by hand.
func TestKnownValues(t *testing.T) {
	require.Equal(t, uint16(0x3f80), numeric.BF16(1))
	require.Equal(t, uint16(0x3c00), numeric.FP16(1))
	require.Equal(t, byte(0x38), numeric.E4M3FN.Encode(1))
	require.Equal(t, byte(0x40), numeric.E4M3FNUZ.Encode(1))
	require.Equal(t, byte(0x3c), numeric.E5M2.Encode(1))
	require.Equal(t, byte(0x7e), numeric.E4M3FN.Encode(464), "the overflow threshold")
	require.Equal(t, byte(0x01), numeric.E4M3FN.Encode(0x1p-9))
	require.Equal(t, byte(0x00), numeric.E4M3FN.Encode(0x1p-10), "half the smallest rounds to even")
	require.Equal(t, byte(0x80), numeric.E4M3FN.Encode(-0x1p-10))
	require.Equal(t, byte(0x00), numeric.E4M3FNUZ.Encode(-0x1p-12))
	require.Equal(t, float32(448), numeric.E4M3FN.Max)
	require.Equal(t, float32(240), numeric.E4M3FNUZ.Max)
	require.Equal(t, float32(57344), numeric.E5M2.Max)
}
