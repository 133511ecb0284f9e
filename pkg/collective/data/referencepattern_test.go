package data

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// value returns what the bits of an element mean, exactly.
func (p Reference) value(v uint64) float64 {
	bits := uint(8 * p.Size)
	if p.Mantissa == 0 {
		if p.Signed != 0 {
			return float64(int64(v<<(64-bits)) >> (64 - bits))
		}
		return float64(v)
	}
	m := uint(p.Mantissa)
	fraction := float64(v&(1<<m-1)) / float64(uint64(1)<<m)
	e := int(v >> m & (1<<(bits-1-m) - 1))
	out := math.Ldexp(fraction, 1-int(p.Bias))
	if e > 0 {
		out = math.Ldexp(1+fraction, e-int(p.Bias))
	}
	if v>>(bits-1) != 0 {
		return -out
	}
	return out
}

// holds reports whether the floating type holds v exactly, as a normal number or zero.
func (p Reference) holds(v float64) bool {
	if v == 0 {
		return true
	}
	frac, exp := math.Frexp(math.Abs(v))
	scaled := math.Ldexp(frac, int(p.Mantissa)+1)
	top := 1<<(8*int(p.Size)-1-int(p.Mantissa)) - 1 // exponent field of all ones
	e := exp - 1 + int(p.Bias)
	return scaled == math.Trunc(scaled) && e >= 1 && e < top
}

func eachPattern(t *testing.T, worlds []int, check func(t *testing.T, p Reference, op workload.RedOp, world int)) {
	for _, dt := range numeric.Types() {
		for _, op := range workload.RedOps() {
			for _, world := range worlds {
				t.Run(fmt.Sprintf("%s/%s/%d", dt, op, world), func(t *testing.T) {
					p, err := workload.NewPattern(dt, op, world, 0xc0ffee)
					require.NoError(t, err)
					check(t, ReferenceOf(p), op, world)
				})
			}
		}
	}
}

// Every partial result, in a random order of the ranks, is exact in the type,
// and the whole is what Expected says.
func TestPatternIsExactInAnyOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	eachPattern(t, []int{1, 2, 3, 4, 6, 8, 72, 256, 1000, 1024}, func(t *testing.T, p Reference, op workload.RedOp, world int) {
		for n := range int64(2 + 120/world) {
			i := n * 0x3fffffd1 // beyond 32 bits too
			order := rng.Perm(world)
			if p.Mantissa > 0 {
				got := reduceFloats(t, p, op, order, i)
				if p.inexact() {
					require.LessOrEqual(t, math.Abs(got/p.value(p.Expected(i))-1), math.Ldexp(1, -int(p.Mantissa)-1), "index %d", i)
					continue
				}
				require.True(t, p.holds(got), "index %d: %v", i, got)
				require.Equal(t, got, p.value(p.Expected(i)), "index %d", i)
			} else {
				want := reduceIntegers(p, op, order, i)
				require.Equal(t, want, p.Expected(i), "index %d", i)
			}
		}
	})
}

func reduceFloats(t *testing.T, p Reference, op workload.RedOp, order []int, i int64) float64 {
	var acc float64
	for n, r := range order {
		v := p.value(p.Value(r, i))
		require.False(t, math.IsNaN(v) || math.IsInf(v, 0))
		require.True(t, p.holds(v))
		if op == workload.MulSum {
			v *= float64(workload.MulSumScalar(r))
		}
		if op == workload.Avg && !p.inexact() { // as libraries do that multiply first
			require.True(t, p.holds(v/float64(len(order))))
		}
		switch {
		case n == 0:
			acc = v
		case op == workload.Prod:
			acc *= v
		case op == workload.Min:
			acc = min(acc, v)
		case op == workload.Max:
			acc = max(acc, v)
		default:
			acc += v
		}
		require.True(t, p.holds(acc), "partial result %v of %d ranks at %d", acc, n+1, i)
	}
	if op == workload.Avg {
		acc /= float64(len(order))
	}
	return acc
}

// reduceIntegers works on unbounded integers; wrapping comes last.
func reduceIntegers(p Reference, op workload.RedOp, order []int, i int64) uint64 {
	number := func(r int) *big.Int {
		v := p.Value(r, i)
		n := new(big.Int).SetUint64(v)
		if p.Signed != 0 {
			bits := uint(8 * p.Size)
			n.SetInt64(int64(v<<(64-bits)) >> (64 - bits))
		}
		return n
	}
	acc := number(order[0])
	if op == workload.MulSum {
		acc.Mul(acc, big.NewInt(int64(workload.MulSumScalar(order[0]))))
	}
	for _, r := range order[1:] {
		v := number(r)
		switch op {
		case workload.Prod:
			acc.Mul(acc, v)
		case workload.Min:
			if v.Cmp(acc) < 0 {
				acc = v
			}
		case workload.Max:
			if v.Cmp(acc) > 0 {
				acc = v
			}
		case workload.MulSum:
			acc.Add(acc, v.Mul(v, big.NewInt(int64(workload.MulSumScalar(r)))))
		default:
			acc.Add(acc, v)
		}
	}
	if op == workload.Avg {
		acc.Div(acc, big.NewInt(int64(len(order))))
	}
	return acc.And(acc, new(big.Int).SetUint64(p.truncate(math.MaxUint64))).Uint64()
}

// A rank that is left out of the reduction is seen at some index.
func TestPatternShowsEveryRank(t *testing.T) {
	eachPattern(t, []int{2, 3, 8, 72}, func(t *testing.T, p Reference, op workload.RedOp, world int) {
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
func changesWithout(p Reference, op workload.RedOp, r int, i int64) bool {
	if op == workload.Min || op == workload.Max {
		return p.Value(r, i) == p.Expected(i)
	}
	left := (r + int(p.World) - 1) % int(p.World)
	return p.Value(r, i) != p.Value(left, i)
}

func TestPatternChecks(t *testing.T) {
	for _, dt := range numeric.Types() {
		for _, op := range append(workload.RedOps(), workload.NoRedOp) {
			t.Run(dt.String()+"/"+op.String(), func(t *testing.T) {
				pattern, err := workload.NewPattern(dt, op, 3, 7)
				require.NoError(t, err)
				p := ReferenceOf(pattern)
				source := workload.AllRanks
				if op == workload.NoRedOp {
					source = 2
				}
				const n = 1000
				regions := []workload.Region{{Offset: n / 2, Count: n / 2, First: 40, Source: source}, {Count: n / 2, First: 9, Source: source}}
				buf := make([]byte, n*dt.Size())

				p.Poison(buf, regions)
				require.Equal(t, workload.Verdict{Checked: n, Wrong: n, First: 0}, p.Check(buf, regions), "poison must never pass")
				p.Fill(buf, regions)
				require.Equal(t, workload.Verdict{Checked: n, First: -1}, p.Check(buf, regions))

				flipped := 700 * dt.Size()
				buf[flipped+dt.Size()-1] ^= 0x20
				require.Equal(t, workload.Verdict{Checked: n, Wrong: 1, First: 700}, p.Check(buf, regions))
			})
		}
	}
}

func TestPatternToleratesOneUlpWhereItSays(t *testing.T) {
	pattern, err := workload.NewPattern(numeric.Float, workload.Avg, 3, 7)
	require.NoError(t, err)
	require.Equal(t, 1, pattern.ToleranceULP())
	p := ReferenceOf(pattern)
	regions := []workload.Region{{Count: 3, Source: workload.AllRanks}}
	buf := make([]byte, 12)
	p.Fill(buf, regions)
	for at, delta := range []int64{1, -1, 2} {
		p.store(buf, int64(at), uint64(int64(p.load(buf, int64(at)))+delta))
	}
	require.Equal(t, workload.Verdict{Checked: 3, Wrong: 1, First: 2}, p.Check(buf, regions))

	exact, err := workload.NewPattern(numeric.Float, workload.Avg, 4, 7)
	require.NoError(t, err)
	require.Zero(t, exact.ToleranceULP())
}

// Other seeds, other data: a result left over from another window does not pass.
func TestPatternFollowsTheSeed(t *testing.T) {
	eachPattern(t, []int{2}, func(t *testing.T, p Reference, op workload.RedOp, world int) {
		q, err := workload.NewPattern(numeric.Type(p.Type), op, world, 0xc0ffef)
		require.NoError(t, err)
		regions := []workload.Region{{Count: 256, Source: workload.AllRanks}}
		buf := make([]byte, 256*int(p.Size))
		p.Fill(buf, regions)
		require.Greater(t, ReferenceOf(q).Check(buf, regions).Wrong, int64(100))
	})
}
