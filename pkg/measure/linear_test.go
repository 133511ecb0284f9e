package measure_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/measure"
)

// Exact data give their parameters back, in units that differ by many orders of magnitude.
// No parameter is negative, and columns that depend on each other are no fit.
func TestNonNegativeFit(t *testing.T) {
	rows := [][]float64{{1, 488, 9e6}, {1, 1952, 36e6}, {1, 122, 9e6}, {1, 488, 36e6}, {1, 64, 5e5}}
	y := make([]float64, len(rows))
	for i, r := range rows {
		y[i] = 20 + 0.8*r[1] + 1e-4*r[2]
	}
	p, ok := measure.NonNegativeFit(rows, y)
	require.True(t, ok)
	require.InDeltaSlice(t, []float64{20, 0.8, 1e-4}, p, 1e-6)

	for i, r := range rows { // fewer blocks take longer
		y[i] = 5000 - 0.5*r[1] + 1e-4*r[2]
	}
	p, ok = measure.NonNegativeFit(rows, y)
	require.True(t, ok)
	require.Zero(t, p[1])

	_, ok = measure.NonNegativeFit(rows[:3], y[:3])
	require.False(t, ok, "as many rows as parameters")
	for _, r := range rows {
		r[2] = 1000 * r[1]
	}
	_, ok = measure.NonNegativeFit(rows, y)
	require.False(t, ok, "bytes are blocks")
}
