package compare

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The quantiles are those of the printed tables, and the probability beyond each is the remaining one.
func TestStudent(t *testing.T) {
	for _, tt := range []struct {
		freedom int
		p, want float64
	}{
		{1, 0.975, 12.706}, {6, 0.95, 1.943}, {6, 0.975, 2.447}, {30, 0.975, 2.042}, {30, 0.9995, 3.646}, {1000, 0.975, 1.962},
	} {
		x := student(tt.freedom).quantile(tt.p)
		require.InDelta(t, tt.want, x, 0.0006, "%v", tt)
		require.InDelta(t, 2*(1-tt.p), student(tt.freedom).twoSided(x), 1e-9, "%v", tt)
	}
	require.InDelta(t, 1.0, student(6).twoSided(0), 0)
}
