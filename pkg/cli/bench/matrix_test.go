package bench_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/benchtest"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/table"
)

// matrixOf returns the matrix of a world of ranks.
func matrixOf(world int, bothWays bool, gbps func(src, dst int) float64) bench.Matrix {
	s := table.NewSquare(512<<20, world)
	for src := range world {
		for dst := range world {
			if src != dst && (src < dst || !bothWays) {
				s.Set(src, dst, gbps(src, dst), bothWays)
			}
		}
	}
	return bench.NewMatrix(s)
}

func printed(m bench.Matrix) string {
	var out strings.Builder
	m.Print(&out, "p2p float, pipelined")
	return out.String()
}

// The table of eight devices fits a terminal, and a slow pair is named with how far below the median it is.
func TestSlowPairsAreNamed(t *testing.T) {
	m := matrixOf(8, false, func(src, dst int) float64 {
		if src == 2 && dst == 5 {
			return 1210.5
		}
		return 2421
	})
	text := printed(m)
	benchtest.Fits(t, text)
	require.Contains(t, text, "1210.50")
	require.Contains(t, text, "# median 2421.00 GB/s; 1 pair is more than 10 % below it:\n#   SLOW rank 2 to 5: 1210 GB/s, 50 % below the median\n")
	require.Equal(t, []table.Slow{{Src: 2, Dst: 5, GBps: 1210.5}}, m.Slow)

	m = matrixOf(4, false, func(src, dst int) float64 { return 91 + float64(src+dst) })
	require.Contains(t, printed(m), "no pair is more than 10 % below it\n")
	data, err := json.Marshal(m)
	require.NoError(t, err)
	require.Contains(t, string(data), `"slow_pairs":[]`)

	all := matrixOf(8, false, func(src, _ int) float64 { return 1 + 99*float64(src/3) })
	require.Contains(t, printed(all), "21 pairs are more than 10 % below it:\n")
	require.Contains(t, printed(all), "#   … and 13 more, in the table above\n")

	one := matrixOf(4, true, func(src, dst int) float64 { return 100 - 50*float64(min(src, 1)*min(1, dst/3)*min(1, 2-src)) })
	require.Equal(t, []table.Slow{{Src: 1, Dst: 3, GBps: 50}}, one.Slow, "a pair with one figure for both directions is named once")
	require.Contains(t, printed(bench.NewMatrix(table.NewSquare(8, 2))), "no pair was measured")
}
