package workload

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/numeric"
)

// value is what the bits of an element mean, exactly.
func value(t numeric.Type, v uint64) float64 {
	f := formats[t]
	bits := uint(8 * t.Size())
	if !(f.mantissa > 0) {
		if f.signed {
			return float64(int64(v<<(64-bits)) >> (64 - bits))
		}
		return float64(v)
	}
	m := uint(f.mantissa)
	fraction := float64(v&(1<<m-1)) / float64(uint64(1)<<m)
	e := int(v >> m & (1<<(bits-1-m) - 1))
	out := math.Ldexp(fraction, 1-int(f.bias))
	if e > 0 {
		out = math.Ldexp(1+fraction, e-int(f.bias))
	}
	if v>>(bits-1) != 0 {
		return -out
	}
	return out
}

// holds reports whether a floating type holds v exactly, as a normal number or zero.
func holds(t numeric.Type, v float64) bool {
	if v == 0 {
		return true
	}
	f := formats[t]
	frac, exp := math.Frexp(math.Abs(v))
	scaled := math.Ldexp(frac, int(f.mantissa)+1)
	top := 1<<(8*t.Size()-1-int(f.mantissa)) - 1 // exponent field of all ones
	e := exp - 1 + int(f.bias)
	return scaled == math.Trunc(scaled) && e >= 1 && e < top
}

func eachPattern(t *testing.T, worlds []int, check func(t *testing.T, p Pattern, op RedOp, world int)) {
	for _, dt := range numeric.Types() {
		for _, op := range RedOps() {
			for _, world := range worlds {
				t.Run(fmt.Sprintf("%s/%s/%d", dt, op, world), func(t *testing.T) {
					p, err := NewPattern(dt, op, world, 0xc0ffee)
					require.NoError(t, err)
					check(t, p, op, world)
				})
			}
		}
	}
}

// Every partial result, in a random order of the ranks, is exact in the type,
// and the whole is what Expected says.
func TestPatternIsExactInAnyOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	eachPattern(t, []int{1, 2, 3, 4, 6, 8, 72, 256, 1000, 1024}, func(t *testing.T, p Pattern, op RedOp, world int) {
		dt := p.Type()
		for n := range int64(2 + 120/world) {
			i := n * 0x3fffffd1 // beyond 32 bits too
			order := rng.Perm(world)
			if formats[dt].mantissa > 0 {
				got := reduceFloats(t, p, op, order, i)
				if p.inexact() {
					require.LessOrEqual(t, math.Abs(got/value(dt, p.Expected(i))-1), math.Ldexp(1, -int(p.p.Mantissa)-1), "index %d", i)
					continue
				}
				require.True(t, holds(dt, got), "index %d: %v", i, got)
				require.Equal(t, got, value(dt, p.Expected(i)), "index %d", i)
			} else {
				want := reduceIntegers(p, op, order, i)
				require.Equal(t, want, p.Expected(i), "index %d", i)
			}
		}
	})
}

func reduceFloats(t *testing.T, p Pattern, op RedOp, order []int, i int64) float64 {
	dt := p.Type()
	var acc float64
	for n, r := range order {
		v := value(dt, p.Value(r, i))
		require.False(t, math.IsNaN(v) || math.IsInf(v, 0))
		require.True(t, holds(dt, v))
		if op == MulSum {
			v *= float64(MulSumScalar(r))
		}
		if op == Avg && !p.inexact() { // as libraries do that multiply first
			require.True(t, holds(dt, v/float64(len(order))))
		}
		switch {
		case n == 0:
			acc = v
		case op == Prod:
			acc *= v
		case op == Min:
			acc = min(acc, v)
		case op == Max:
			acc = max(acc, v)
		default:
			acc += v
		}
		require.True(t, holds(dt, acc), "partial result %v of %d ranks at %d", acc, n+1, i)
	}
	if op == Avg {
		acc /= float64(len(order))
	}
	return acc
}

// reduceIntegers works on unbounded integers; wrapping comes last.
func reduceIntegers(p Pattern, op RedOp, order []int, i int64) uint64 {
	dt := p.Type()
	number := func(r int) *big.Int {
		v := p.Value(r, i)
		n := new(big.Int).SetUint64(v)
		if formats[dt].signed {
			bits := uint(8 * dt.Size())
			n.SetInt64(int64(v<<(64-bits)) >> (64 - bits))
		}
		return n
	}
	acc := number(order[0])
	if op == MulSum {
		acc.Mul(acc, big.NewInt(int64(MulSumScalar(order[0]))))
	}
	for _, r := range order[1:] {
		v := number(r)
		switch op {
		case Prod:
			acc.Mul(acc, v)
		case Min:
			if v.Cmp(acc) < 0 {
				acc = v
			}
		case Max:
			if v.Cmp(acc) > 0 {
				acc = v
			}
		case MulSum:
			acc.Add(acc, v.Mul(v, big.NewInt(int64(MulSumScalar(r)))))
		default:
			acc.Add(acc, v)
		}
	}
	if op == Avg {
		acc.Div(acc, big.NewInt(int64(len(order))))
	}
	return acc.And(acc, new(big.Int).SetUint64(p.truncate(math.MaxUint64))).Uint64()
}

// A rank that is left out of the reduction is seen at some index.
func TestPatternShowsEveryRank(t *testing.T) {
	eachPattern(t, []int{2, 3, 8, 72}, func(t *testing.T, p Pattern, op RedOp, world int) {
		for r := range world {
			seen := false
			for i := int64(0); i < 4096 && !seen; i++ {
				seen = changesWithout(p, op, r, i)
			}
			require.True(t, seen, "rank %d", r)
		}
	})
}

// changesWithout reports whether the reduction of index i changes when rank r
// takes its left neighbour's input instead of its own.
func changesWithout(p Pattern, op RedOp, r int, i int64) bool {
	if op == Min || op == Max {
		return p.Value(r, i) == p.Expected(i)
	}
	left := (r + int(p.p.World) - 1) % int(p.p.World)
	return p.Value(r, i) != p.Value(left, i)
}

func TestPatternChecks(t *testing.T) {
	for _, dt := range numeric.Types() {
		for _, op := range append(RedOps(), NoRedOp) {
			t.Run(dt.String()+"/"+op.String(), func(t *testing.T) {
				p, err := NewPattern(dt, op, 3, 7)
				require.NoError(t, err)
				source := AllRanks
				if op == NoRedOp {
					source = 2
				}
				const n = 1000
				regions := []Region{{Offset: n / 2, Count: n / 2, First: 40, Source: source}, {Count: n / 2, First: 9, Source: source}}
				buf := make([]byte, n*dt.Size())

				p.Poison(buf, regions)
				require.Equal(t, Verdict{Checked: n, Wrong: n, First: 0}, p.Check(buf, regions), "poison must never pass")
				p.Fill(buf, regions)
				require.Equal(t, Verdict{Checked: n, First: -1}, p.Check(buf, regions))

				flipped := 700 * dt.Size()
				buf[flipped+dt.Size()-1] ^= 0x20
				require.Equal(t, Verdict{Checked: n, Wrong: 1, First: 700}, p.Check(buf, regions))
			})
		}
	}
}

func TestPatternToleratesOneUlpWhereItSays(t *testing.T) {
	p, err := NewPattern(numeric.Float, Avg, 3, 7)
	require.NoError(t, err)
	require.Equal(t, 1, p.ToleranceULP())
	regions := []Region{{Count: 3, Source: AllRanks}}
	buf := make([]byte, 12)
	p.Fill(buf, regions)
	for at, delta := range []int64{1, -1, 2} {
		p.store(buf, int64(at), uint64(int64(p.load(buf, int64(at)))+delta))
	}
	require.Equal(t, Verdict{Checked: 3, Wrong: 1, First: 2}, p.Check(buf, regions))

	exact, err := NewPattern(numeric.Float, Avg, 4, 7)
	require.NoError(t, err)
	require.Zero(t, exact.ToleranceULP())
}

// Other seeds, other data: a result left over from another window does not pass.
func TestPatternFollowsTheSeed(t *testing.T) {
	eachPattern(t, []int{2}, func(t *testing.T, p Pattern, op RedOp, world int) {
		q, err := NewPattern(p.Type(), op, world, 0xc0ffef)
		require.NoError(t, err)
		regions := []Region{{Count: 256, Source: AllRanks}}
		buf := make([]byte, 256*p.Type().Size())
		p.Fill(buf, regions)
		require.Greater(t, q.Check(buf, regions).Wrong, int64(100))
	})
}

func TestNewPatternRefuses(t *testing.T) {
	for _, c := range []struct {
		t     numeric.Type
		op    RedOp
		world int
	}{{12, Sum, 2}, {-1, Sum, 2}, {numeric.Float, 7, 2}, {numeric.Float, Sum, 0}, {numeric.F8E4M3, Avg, 1025}} {
		_, err := NewPattern(c.t, c.op, c.world, 0)
		require.Error(t, err)
	}
}

func TestRedOpNames(t *testing.T) {
	for _, op := range append(RedOps(), NoRedOp) {
		got, err := ParseRedOp(op.String())
		require.NoError(t, err)
		require.Equal(t, op, got)
	}
	_, err := ParseRedOp("xor")
	require.Error(t, err)
}
