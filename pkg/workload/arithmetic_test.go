package workload

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/numeric"
)

var floating = []numeric.Type{numeric.Half, numeric.Float, numeric.Double, numeric.BFloat16, numeric.F8E4M3, numeric.F8E5M2}

// library reduces as a library might: rank after rank from a place on, each
// partial result rounded to the element type or only the last one.
type library struct {
	from int
	wide bool // partial results in double
	// What is broken.
	truncates, flushes, losesNaN, propagates bool
	drops                                    int // rank whose input is lost; -1 for none
}

func (l library) round(t numeric.Type, x float64) float64 {
	var y float64
	switch t {
	case numeric.Double:
		return x
	case numeric.Float:
		y = float64(float32(x))
	case numeric.BFloat16:
		y = float64(numeric.FromBF16(numeric.BF16(odd(x))))
	case numeric.Half:
		y = float64(numeric.FromFP16(numeric.FP16(odd(x))))
	case numeric.F8E4M3:
		y = float64(numeric.E4M3FN.Decode(numeric.E4M3FN.Encode(odd(x))))
	case numeric.F8E5M2:
		y = float64(numeric.E5M2.Decode(numeric.E5M2.Encode(odd(x))))
	}
	if l.truncates && math.Abs(y) > math.Abs(x) {
		f := formats[t]
		ulp := math.Ldexp(1, int(math.Floor(math.Log2(math.Abs(y))))-int(f.mantissa))
		if math.Abs(y) == math.Ldexp(1, int(math.Floor(math.Log2(math.Abs(y))))) {
			ulp /= 2
		}
		y -= math.Copysign(ulp, y)
	}
	return y
}

// odd rounds to float so that a second rounding is as if it were the only one.
func odd(x float64) float32 {
	y := float32(x)
	if float64(y) != x && !math.IsNaN(x) && math.Float32bits(y)&1 == 0 {
		if math.Abs(float64(y)) > math.Abs(x) {
			return math.Float32frombits(math.Float32bits(y) - 1)
		}
		return math.Float32frombits(math.Float32bits(y) | 1)
	}
	return y
}

func (l library) reduce(a Arithmetic, i int64) float64 {
	t, op, world := a.p.Type(), RedOp(a.p.p.RedOp), int(a.p.p.World)
	acc, first := 0.0, true
	for k := range world {
		rank := (l.from + k) % world
		if rank == l.drops {
			continue
		}
		x := a.number(a.Value(rank, i))
		if f := formats[t]; l.flushes && math.Abs(x) < math.Ldexp(1, 1-int(f.bias)) {
			x = 0
		}
		if l.losesNaN && math.IsNaN(x) {
			x = 0
		}
		if op == MulSum {
			x *= float64(MulSumScalar(rank))
		}
		switch {
		case first:
			acc = x
		case op == Max && l.propagates:
			acc = math.Max(acc, x)
		case op == Min && l.propagates:
			acc = math.Min(acc, x)
		case op == Max && (x > acc || math.IsNaN(acc)), op == Min && (x < acc || math.IsNaN(acc)):
			acc = x
		case op == Prod:
			acc *= x
		case op == Sum || op == Avg || op == MulSum:
			acc += x
		}
		first = false
		if !l.wide && op != Max && op != Min {
			acc = l.round(t, acc)
		}
	}
	if op == Avg {
		acc /= float64(world)
	}
	return l.round(t, acc)
}

// judged is the verdict on n elements of a library's result.
func judged(t *testing.T, typ numeric.Type, op RedOp, world int, l library) ArithmeticVerdict {
	const n = 1200
	a, ok := NewArithmetic(typ, op, world, 7)
	require.True(t, ok)
	buf := make([]byte, n*int64(typ.Size()))
	for i := range int64(n) {
		x := l.reduce(a, i)
		var v uint64
		switch typ {
		case numeric.Double:
			v = math.Float64bits(x)
		case numeric.Float:
			v = uint64(math.Float32bits(float32(x)))
		case numeric.BFloat16:
			v = uint64(numeric.BF16(float32(x)))
		case numeric.Half:
			v = uint64(numeric.FP16(float32(x)))
		case numeric.F8E4M3:
			v = uint64(numeric.E4M3FN.Encode(float32(x)))
		case numeric.F8E5M2:
			v = uint64(numeric.E5M2.Encode(float32(x)))
		}
		a.p.store(buf, i, v)
	}
	v := a.Check(buf, []Region{{Count: n, Source: AllRanks}})
	require.EqualValues(t, n, v.Checked)
	return v
}

// Any order, and partial results in the element type or in a wider one, are as
// declared; so is either answer to a NaN among numbers in min and max.
func TestArithmeticAcceptsEveryOrderAndWidth(t *testing.T) {
	for _, typ := range floating {
		for _, op := range RedOps() {
			for _, world := range []int{1, 2, 3, 8} {
				for _, l := range []library{{from: 0}, {from: world - 1}, {wide: true}, {propagates: true}} {
					l.drops = -1
					v := judged(t, typ, op, world, l)
					require.Zero(t, v.Wrong, "%s %s of %d, %+v: %+v", typ, op, world, l, v)
					require.LessOrEqual(t, v.Error, v.Bound)
					if world > 2 && typ != numeric.Double && op != Min && op != Max && op != Avg {
						require.Positive(t, v.Error, "%s %s: a sum that is exact tells nothing", typ, op)
					}
				}
			}
		}
	}
}

func TestArithmeticFindsWhatIsNotAsDeclared(t *testing.T) {
	sums := []RedOp{Sum, MulSum, Prod}
	for _, tt := range []struct {
		name   string
		l      library
		ops    []RedOp
		worlds []int
		failed string
	}{
		{"truncates", library{truncates: true, wide: true, drops: -1}, sums, []int{2, 3, 8}, "rounding"},
		{"truncates at each step", library{truncates: true, drops: -1}, sums, []int{2, 3, 8}, "rounding"},
		{"flushes subnormal numbers", library{flushes: true, drops: -1}, []RedOp{Min, Max}, []int{1, 2, 8}, "subnormal"},
		{"loses NaN", library{losesNaN: true, drops: -1}, RedOps(), []int{1, 2, 8}, "nan"},
		{"drops an addend", library{drops: 1}, sums, []int{2, 3, 8}, "rounding"},
		{"drops an input", library{drops: 1}, []RedOp{Min, Max}, []int{2, 3, 8}, "finite"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, typ := range floating {
				for _, op := range tt.ops {
					for _, world := range tt.worlds {
						if tt.l.truncates && (typ == numeric.Double || typ == numeric.F8E5M2 && op == Prod) {
							continue // nothing wider to truncate; no product of two rounds up but ties
						}
						v := judged(t, typ, op, world, tt.l)
						require.Positive(t, v.Wrong, "%s %s of %d", typ, op, world)
						require.Contains(t, v.Failed, tt.failed, "%s %s of %d", typ, op, world)
					}
				}
			}
		})
	}
}

// A sum in the next narrower type is what a library that declares the wider one
// must not do.
func TestArithmeticFindsANarrowerType(t *testing.T) {
	a, ok := NewArithmetic(numeric.Float, Sum, 4, 3)
	require.True(t, ok)
	buf := make([]byte, 4*600)
	for i := range int64(600) {
		acc := float32(0)
		for r := range 4 {
			acc = numeric.FromBF16(numeric.BF16(acc + float32(a.number(a.Value(r, i)))))
		}
		a.p.store(buf, i, uint64(math.Float32bits(acc)))
	}
	v := a.Check(buf, []Region{{Count: 600, Source: AllRanks}})
	require.Equal(t, []string{"rounding"}, v.Failed)
	require.Greater(t, v.Error, 100*v.Bound)
}

func TestArithmeticOfIntegersIsExact(t *testing.T) {
	_, ok := NewArithmetic(numeric.Int32, Sum, 2, 1)
	require.False(t, ok)
	_, ok = NewArithmetic(numeric.Float, NoRedOp, 2, 1)
	require.False(t, ok)
}

func TestArithmeticVerdictsAdd(t *testing.T) {
	v := ArithmeticVerdict{Checked: 1}
	v.Add(ArithmeticVerdict{Checked: 2, Wrong: 1, Failed: []string{"nan"}, Error: 1, Bound: 4})
	v.Add(ArithmeticVerdict{Checked: 3, Wrong: 2, Failed: []string{"nan", "finite"}, Error: 1, Bound: 2, NonFinite: true})
	v.Add(ArithmeticVerdict{Error: 3, Bound: 12})
	require.Equal(t, ArithmeticVerdict{Checked: 6, Wrong: 3, Failed: []string{"finite", "nan"}, Error: 1, Bound: 2, NonFinite: true}, v)
}
