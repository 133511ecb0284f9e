package measure_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/result"
)

// ramp returns 0 … n−1 shuffled, so that a percentile is its own index.
func ramp(n int) []float64 {
	samples := make([]float64, n)
	for i, v := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		samples[i] = float64(v)
	}
	return samples
}

func TestPercentilesAreNearestRank(t *testing.T) {
	for _, c := range []struct {
		n    int
		want result.Percentiles
	}{
		{2048, *result.PercentilesOf(1023, 1843, 1945, 2027)},
		{448, *result.PercentilesOf(223, 403, 425, 443)},
		{100, *result.PercentilesOf(49, 89, 94, 98)},
		{4, *result.PercentilesOf(1, 3, 3, 3)},
		{1, *result.PercentilesOf(0, 0, 0, 0)},
	} {
		samples := ramp(c.n)
		before := slices.Clone(samples)
		require.Equal(t, c.want, measure.Percentiles(samples), "n = %d", c.n)
		require.Equal(t, before, samples, "samples are left in their order")
	}
	require.Equal(t, 0.0, measure.Percentile(ramp(10), 0))
	require.Equal(t, 9.0, measure.Percentile(ramp(10), 100))
}

func TestReductions(t *testing.T) {
	for _, c := range []struct {
		name   string
		reduce measure.Reduction
		values []float64
		want   float64
	}{
		{"max", measure.Max, []float64{2, 7, 3}, 7},
		{"min", measure.Min, []float64{2, 7, 3}, 2},
		{"spread", measure.Spread, []float64{2, 7, 3}, 5},
		{"spread of one rank", measure.Spread, []float64{2}, 0},
		{"median of an odd world", measure.LowerMedian, []float64{9, 1, 5}, 5},
		{"median of an even world is the lower", measure.LowerMedian, []float64{9, 1, 5, 7}, 5},
		{"median of two", measure.LowerMedian, []float64{9, 1}, 1},
		{"middle of an odd world", measure.MiddleMean, []float64{9, 1, 5}, 5},
		{"middle of an even world", measure.MiddleMean, []float64{9, 1, 5, 8}, 6.5},
		{"middle of two", measure.MiddleMean, []float64{9, 1}, 5},
		{"middle of one", measure.MiddleMean, []float64{9}, 9},
		{"magnitude keeps the sign", measure.LargestMagnitude, []float64{2, -7, 3}, -7},
		{"magnitude takes the first of a tie", measure.LargestMagnitude, []float64{2, -7, 7}, -7},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, c.reduce(c.values)) })
	}
}

func TestOverRanks(t *testing.T) {
	perRank := [][]float64{{1, 5, 3}, {4, 2, 6}, {7, 8, 0}, {2, 2, 2}}
	got, err := measure.OverRanks(perRank, measure.LowerMedian)
	require.NoError(t, err)
	require.Equal(t, []float64{2, 2, 2}, got)
	got, err = measure.OverRanks(perRank, measure.Spread)
	require.NoError(t, err)
	require.Equal(t, []float64{6, 6, 6}, got)

	_, err = measure.OverRanks([][]float64{{1, 2}, {1}}, measure.Max)
	require.EqualError(t, err, "rank 1 has 1 samples, rank 0 has 2")
	_, err = measure.OverRanks(nil, measure.Max)
	require.Error(t, err)
}

// The tables of the measurement contract.
func TestRotation(t *testing.T) {
	for _, c := range []struct{ list, want string }{
		{"RDC", "RDC DCR CRD CDR DRC RCD RDC DCR"},
		{"RDCS", "RDCS DCSR CSRD SRDC SCDR CDRS DRSC RSCD RDCS"},
		{"A", "A A A"},
	} {
		for trial, want := range strings.Fields(c.want) {
			list := []byte(c.list)
			require.Equal(t, want, string(measure.Rotate(list, trial)), "trial %d", trial)
			require.Equal(t, c.list, string(list))
		}
	}
	require.Empty(t, measure.Rotate([]int(nil), 3))
}

func TestRotationIsBalanced(t *testing.T) {
	for n := 1; n <= 9; n++ {
		list := make([]int, n)
		for i := range list {
			list[i] = i
		}
		seen := make([][]int, n)
		for i := range seen {
			seen[i] = make([]int, n)
		}
		for trial := range 2 * n {
			for position, value := range measure.Rotate(list, trial) {
				seen[value][position]++
			}
		}
		for value, positions := range seen {
			for position, count := range positions {
				require.Equal(t, 2, count, "n %d value %d position %d", n, value, position)
			}
		}
	}
}

func TestCV(t *testing.T) {
	require.Equal(t, 0.0, measure.CV(nil))
	require.Equal(t, 0.0, measure.CV([]float64{0, 0}))
	require.Equal(t, 0.0, measure.CV([]float64{3, 3, 3}))
	require.InDelta(t, 2.0/5, measure.CV([]float64{2, 4, 4, 4, 5, 5, 7, 9}), 1e-15)
}

func TestHistogram(t *testing.T) {
	h := measure.Histogram([]float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 10}, 5)
	require.Equal(t, result.Histogram{Min: 0, Width: 2, Counts: []int{2, 2, 2, 2, 2}}, h)
	require.Equal(t, result.Histogram{Min: 4, Counts: []int{2}}, measure.Histogram([]float64{4, 4}, 40))
	// The largest sample belongs to the last bin whatever rounding does to its index.
	samples := []float64{0.1, 0.7}
	for bins := 2; bins < 100; bins++ {
		require.Equal(t, 1, measure.Histogram(samples, bins).Counts[bins-1], "%d bins", bins)
	}
}
