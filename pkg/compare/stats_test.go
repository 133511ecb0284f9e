package compare

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShiftIsTheMedianOfAllDifferences(t *testing.T) {
	require.Equal(t, 2.0, shift([]float64{0, 1, 2}, []float64{2, 3, 4}))
	require.Equal(t, 0.0, shift([]float64{0, 0, 0}, []float64{0, 0, 99}), "one slow run moves nothing")
	require.Equal(t, 1.5, shift([]float64{0, 1}, []float64{2}))
}

func TestIntervalIsExact(t *testing.T) {
	ascending := func(n int) (v []float64) {
		for i := range n {
			v = append(v, float64(i)*100)
		}
		return v
	}
	for _, tt := range []struct {
		n, first int // the interval begins at the first-th smallest difference
		coverage float64
	}{{4, 1, 0.971}, {5, 3, 0.968}} {
		a, b := ascending(tt.n), ascending(tt.n)
		for i := range b {
			b[i] += float64(i) + 7
		}
		d := differences(nil, a, b)
		low, high, coverage, ok := interval(a, b)
		require.True(t, ok)
		require.Equal(t, d[tt.first-1], low)
		require.Equal(t, d[len(d)-tt.first], high)
		require.InDelta(t, tt.coverage, coverage, 5e-4)
	}
	_, _, _, ok := interval(ascending(3), ascending(3))
	require.False(t, ok, "3+3 runs have no interval of 95 %")
}

// With many runs, the interval follows from the normal distribution.
func TestIntervalOfManyRuns(t *testing.T) {
	for _, n := range []int{60, 100} {
		exact, exactly := exactTail(n, n+7)
		normal, about := normalTail(n, n+7)
		require.InDelta(t, exact, normal, 2)
		require.InDelta(t, exactly, about, 2e-4)
	}
	c, _ := normalTail(200, 1)
	require.Zero(t, c, "one run has no interval")
	var v []float64
	for i := range 1000 {
		v = append(v, float64(i))
	}
	low, high, coverage, ok := interval(v, v)
	require.True(t, ok)
	require.InDelta(t, 0.95, coverage, 1e-4)
	require.Equal(t, -low, high)
	require.InDelta(t, 25, high, 1, "1.96 · 1000 / √12 · √(2/1000)")
}

// Values of Student's t are those of the usual table.
func TestWidening(t *testing.T) {
	for freedom, quantile := range map[int]float64{6: 2.4469, 8: 2.3060, 18: 2.1009, 100: 1.9840} {
		require.InEpsilon(t, quantile/1.959964, widening(freedom), 0.005)
	}
}

// Equal times differ with certainty by nothing.
func TestChanceOfEqualTimes(t *testing.T) {
	var z noise
	z.add("old", names(5), make([]float64, 5))
	z.add("new", names(5), make([]float64, 5))
	require.Equal(t, 1.0, z.chance(5, 5, 0, resampled))
}

// A floor is that of the noise: twice the noise has twice the floor, and four times the
// runs half of it.
func TestFloorFollowsTheNoise(t *testing.T) {
	floor := func(sigma float64, k int) float64 {
		m := machine{world: world{run: sigma}, rng: rng(3), all: 1}
		var z noise
		for i := range 40 {
			var v []float64
			for range 10 {
				v = append(v, m.measure(false, 0))
			}
			z.add(names(40)[i], names(10), v)
		}
		f, ok := z.floor(k, k, 0.05, resampled)
		require.True(t, ok)
		return f
	}
	one := floor(0.01, 5)
	require.InEpsilon(t, 0.01*1.96*math.Sqrt(2.0/5/0.95), one, 0.15)
	require.InEpsilon(t, 2*one, floor(0.02, 5), 0.01)
	require.InEpsilon(t, one/2, floor(0.01, 20), 0.1)
}

func TestWithoutRepeatsThereIsNoFloor(t *testing.T) {
	var z noise
	z.add("old", names(4), []float64{0, 1, 2, 3})
	z.add("new", names(1), []float64{0})
	_, ok := z.floor(5, 5, 0.05, resampled)
	require.False(t, ok)
	z.add("new", names(4), []float64{0, 1, 2, 3})
	_, ok = z.floor(5, 5, 0.05, resampled)
	require.True(t, ok)
	// More cases of the same runs tell no more about runs.
	freedom := z.freedom()
	z.add("new", names(4), []float64{3, 1, 2, 0})
	require.Equal(t, freedom, z.freedom())
}

// The same spread, seen in fewer runs, makes a wider floor.
func TestFewRunsWidenTheFloor(t *testing.T) {
	floor := func(sides int) float64 {
		var z noise
		for i := range sides {
			z.add(names(sides)[i], names(5), []float64{-0.02, -0.01, 0, 0.01, 0.02})
		}
		f, ok := z.floor(5, 5, 0.05, 20*resampled)
		require.True(t, ok)
		return f
	}
	require.InEpsilon(t, widening(8)/widening(80), floor(2)/floor(20), 0.04)
}
