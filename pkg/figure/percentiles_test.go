package figure_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/result"
)

// There is no figure of a percentile that its samples cannot give, such as the 99th of three windows.
func TestPercentilesOfFewSamples(t *testing.T) {
	full := *result.PercentilesOf(1, 2, 3, 4)
	for n, want := range map[int][]string{
		3: {"p50"}, 10: {"p50", "p90"}, 19: {"p50", "p90"}, 20: {"p50", "p90", "p95"}, 99: {"p50", "p90", "p95"},
		100: {"p50", "p90", "p95", "p99"}, 0: {"p50", "p90", "p95", "p99"}, // unknown
	} {
		var got []string
		for _, f := range figure.Percentiles(figure.Latency, figure.Microseconds, "", full, n) {
			got = append(got, f.Stat)
		}
		require.Equal(t, want, got, "%d samples", n)
		series := figure.SeriesOf(nil, []figure.Row{{Lines: []figure.Line{{Point: figure.Point{Time: full, Samples: n}}}}})
		require.Equal(t, len(want) == 4, series[0].Points[0].Time.P99 != nil, "%d samples", n)
	}
	require.NotNil(t, full.P99, "the document keeps its own")
	for n, want := range map[int]int{3: 3, 20: 4} {
		require.Len(t, figure.Burst(figure.Latency, result.Burst{P50: 1, P95: 2, Min: 1, Max: 2, N: n}, 1, true), want)
	}
}
