package runner

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/rank"
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

// Operations that are more than twice as fast with an input that they had before are invalid, and so
// is a combine that returns the sums of one dispatch faster than any combine of a chain.
func TestNothingIsFasterTheSecondTime(t *testing.T) {
	c := assembledCase()
	block := ep.Of(&c)
	block.Hidden = 1 << 20 // the minimum of inputs
	block.Timing = ep.Timing{ItersPerTrial: 40, TrialsPerPoint: 8, WarmupItersPerTrial: 1, ChainItersPerTrial: 34, ChainTrialsPerPoint: 2, ChainDrop: 1}
	inputs := block.TimedInputs(1)
	require.Equal(t, 4, inputs)
	times := func(n int, first, again float64) []float64 {
		us := slices.Repeat([]float64{again}, n)
		for i := range inputs {
			us[i] = first
		}
		return us
	}
	judged := func(slower string, by float64) []string {
		streams := left(t, c, plain, func(_ int, record any) any {
			switch r := record.(type) {
			case freshRecord:
				if r.Trial > 0 {
					return nil
				}
				r.Microseconds = times(block.Timing.ItersPerTrial, 10, 10)
				if r.Component == slower && slower != compCombine {
					r.Microseconds = times(block.Timing.ItersPerTrial, 10*by, 10)
				}
				return r
			case chainRecord:
				r.Dispatch, r.Combine = times(33, 10, 10), times(33, 10, 10)
				if slower == compCombine {
					r.Combine = times(33, 10*by, 10*by)
				}
				r.Pair, r.StartToStart = times(33, 30, 30), times(32, 30, 30)
				return r
			}
			return record
		})
		for i := range streams { // the other trials are like the first
			for _, r := range slices.Clone(streams[i].Records) {
				var f freshRecord
				if r.Kind != kindFresh {
					continue
				}
				require.NoError(t, json.Unmarshal(r.Data, &f))
				for f.Trial = 1; f.Trial < block.Timing.TrialsPerPoint; f.Trial++ {
					raw, err := json.Marshal(f)
					require.NoError(t, err)
					streams[i].Records = append(streams[i].Records, rank.Record{Kind: kindFresh, Data: raw})
				}
			}
		}
		row := assembleEP(t, c, streams).Measurement.Rows[0]
		require.Equal(t, len(row.Correctness.Reasons) == 0, row.Good())
		return strings.Split(row.Correctness.Reasons.String(), "; ")
	}
	for _, component := range plain.components() {
		require.Equal(t, []string{""}, judged(component, 1.9), component)
		require.Equal(t, []string{"implausible: " + component + " takes 10 us, with a new input at least 30 us"}, judged(component, 3), component)
	}
}
