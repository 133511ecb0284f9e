package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Four ranks of two experts each. Token 0 stays with rank 0; token 1 goes to two
// experts of rank 1; token 2 of rank 1 goes to ranks 2 and 3; token 3 of rank 2 goes
// to ranks 2 and 3.
func TestCrossings(t *testing.T) {
	trace := &workload.Trace{
		World: 4, TopK: 2, Experts: 8, First: []int{0, 2, 3, 4, 4},
		Expert: []int32{0, 1, 2, 3, 4, 6, 5, 7}, Weight: make([]float32, 8),
	}
	each := crossings(trace, func(rank int) int { return rank })
	require.Equal(t, []crossing{{1, 0}, {1, 1}, {1, 1}, {0, 2}}, each)
	pairs := crossings(trace, func(rank int) int { return rank / 2 })
	require.Equal(t, []crossing{{1, 0}, {0, 1}}, pairs, "token 2 enters the other domain once")
	require.Equal(t, int64(20), busiest(each, func(n crossing) crossing { return n.times(10) }))
	require.Equal(t, int64(12), busiest(each[:2], func(n crossing) crossing { return n.times(10).plus(n.back().times(2)) }))
	require.Zero(t, leastBusy(each), "rank 3 sends nothing")
}

// An operation that takes less time than its rows need on their way is invalid,
// whatever the oracle says.
func TestNothingIsFasterThanItsLink(t *testing.T) {
	c := assembledCase()
	judged := func(gbps float64, unknown int) *ep.Document {
		streams := left(t, c, plain, nil)
		for r := range streams {
			if r != unknown {
				streams[r].Device = &result.RankDevice{Rank: r, Limits: []result.Limit{{Of: result.LimitLink, GBps: gbps, Sum: "a link", Source: "nvml"}}}
			}
		}
		return assembleEP(t, c, streams)
	}
	d := judged(542, -1)
	require.Equal(t, result.Success, d.Outcome.Status)
	require.Len(t, d.Limits, 1)

	d = judged(0.1, -1)
	require.Equal(t, result.Invalid, d.Outcome.Status)
	require.Regexp(t, `^implausible: dispatch of 107 us for [0-9]+ bytes or more by link, [0-9.]+ of at most 0.1 GBps$`, d.Outcome.Reasons[0])
	for _, row := range d.Measurement.Rows {
		require.False(t, row.Correctness.Passed)
		require.NotNil(t, row.Components.Dispatch.Percentiles, "the figure stands beside the reason")
	}
	row := d.Measurement.Rows[1]
	require.Len(t, row.Correctness.Reasons, 4, "dispatch, combine, roundtrip and pair")

	d = judged(0.1, 2)
	require.Equal(t, result.Success, d.Outcome.Status, "one rank does not know its link")
	require.NotNil(t, d.Limits)
	require.Empty(t, d.Limits)
}
