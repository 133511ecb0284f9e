package workload_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// largest returns the largest magnitude of each block of a row.
func largest(row []uint16, block int) []float64 {
	out := make([]float64, (len(row)+block-1)/block)
	for c, b := range row {
		out[c/block] = math.Max(out[c/block], math.Abs(float64(numeric.FromBF16(b))))
	}
	return out
}

// Scales are 2^-5 … 2^7, in no order and without a period.
func TestFillScaled(t *testing.T) {
	const tokens, hidden, block = 600, 1024, 128
	var scales [][]float64
	seen := map[float64]int{}
	row := make([]uint16, hidden)
	for token := range uint32(tokens) {
		workload.FillScaled(row, token, 67, block)
		source, err := workload.SourceToken(row)
		require.NoError(t, err)
		require.Equal(t, token, source)
		scale := largest(row, block)
		for b, s := range scale {
			fraction, _ := math.Frexp(s)
			require.Equal(t, 0.5, fraction, "a power of two")
			require.True(t, b > 0 || s >= 2, "source columns are never the largest")
			seen[s]++
		}
		scales = append(scales, scale)
	}
	require.Len(t, seen, 13)
	share := func(equal func(token, b int) bool, from int) float64 {
		n := 0
		for token := from; token < tokens; token++ {
			for b := 1; b < hidden/block; b++ {
				if equal(token, b) {
					n++
				}
			}
		}
		return float64(n) / float64((tokens-from)*(hidden/block-1))
	}
	require.Less(t, share(func(token, b int) bool { return scales[token][b] == scales[token][b-1] }, 0), 0.15)
	for period := 1; period < tokens/2; period++ {
		require.Less(t, share(func(token, b int) bool { return scales[token][b] == scales[token-period][b] }, period), 0.15, "%d tokens apart", period)
	}

	other, again := make([]uint16, hidden), make([]uint16, hidden)
	workload.FillScaled(other, 599, 68, block)
	workload.FillScaled(again, 599, 67, block)
	require.Equal(t, row, again)
	require.NotEqual(t, row, other)
	for _, n := range []int{32, 33, 130} { // a block without other columns, and blocks that are not full
		workload.FillScaled(row[:n], 5, 67, block)
		source, err := workload.SourceToken(row[:n])
		require.NoError(t, err)
		require.EqualValues(t, 5, source)
	}
}

func TestRotateWeights(t *testing.T) {
	trace := &workload.Trace{World: 1, TopK: 3, Experts: 3, First: []int{0, 2}, Expert: []int32{0, 1, 2, 2, 1, 0}, Weight: []float32{1, 2, 3, 4, 5, 6}}
	rotated := trace.RotateWeights()
	require.Equal(t, []float32{3, 1, 2, 6, 4, 5}, rotated.Weight)
	require.Equal(t, trace.Expert, rotated.Expert)
	require.Equal(t, []float32{1, 2, 3, 4, 5, 6}, trace.Weight)
}
