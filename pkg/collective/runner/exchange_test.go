package runner_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/accel"
	hostdev "github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// exchangeOf is the four lists of a call, or nil.
func exchangeOf(c runner.Call, world int) []int64 {
	if c.Exchange == 0 {
		return nil
	}
	bytes := hostdev.Bytes(accel.Ptr(c.Exchange), int64(4*world)*8)
	return unsafe.Slice((*int64)(unsafe.Pointer(&bytes[0])), 4*world)
}

// What a library could do wrong with parts of unequal sizes, each caught by the
// check of the timed buffers.
func TestWrongExchanges(t *testing.T) {
	need.Full(t)
	const world = 2
	for name, harm := range map[string]func(rank int, words []int64){
		"forgets one pair": func(rank int, words []int64) {
			if rank == 0 {
				words[1] = 0 // sent to rank 1
			} else {
				words[2*world] = 0 // received from rank 0
			}
		},
		"swaps what it received": func(rank int, words []int64) {
			if received := words[2*world:]; rank == 1 {
				words[3*world], words[3*world+1] = received[1], 0
			}
		},
		"sends the wrong part": func(rank int, words []int64) {
			if rank == 0 {
				words[world+1] = 0 // what goes to rank 1 begins where what goes to rank 0 does
			}
		},
		"nothing": nil,
	} {
		t.Run(name, func(t *testing.T) {
			d, _, err := run(t, aCase(func(c *plan.Case) {
				collective.Of(c).Op, collective.Of(c).RedOp = "alltoallv", ""
				collective.Of(c).Traffic = [][]int64{{8192, 4096}, {1024, 8}}
				collective.Of(c).Sizes = []int64{12288}
			}), false, func(c *comm, s accel.Stream, calls []runner.Call) error {
				for _, call := range calls {
					if words := exchangeOf(call, world); words != nil && harm != nil {
						harm(c.rank, words)
					}
				}
				return c.Comm.Enqueue(s, calls, 1)
			})
			require.NoError(t, err)
			if harm == nil {
				require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
				require.EqualValues(t, 12288, d.Measurement.Rows[0].Bytes)
				require.EqualValues(t, 3072, d.Measurement.Rows[0].Count)
				require.InDelta(t, d.Measurement.Rows[0].Pipelined.AlgBW/2, d.Measurement.Rows[0].Pipelined.BusBW, 1e-9)
				return
			}
			require.Equal(t, result.Invalid, d.Outcome.Status)
			require.Equal(t, result.Reasons{{Code: result.ReasonSemantics}}, d.Outcome.Reasons)
			require.False(t, d.Measurement.Rows[0].Check.Passed)
		})
	}
}

// Each ordered pair of three ranks has its row; its times are of the two, and the
// third enqueues none of its operations.
func TestPairs(t *testing.T) {
	runner.Untruncated(t)
	need.Full(t)
	for op, pairs := range map[string][][2]int{
		"p2p":       {{0, 1}, {0, 2}, {1, 0}, {1, 2}, {2, 0}, {2, 1}},
		"p2p_bidir": {{0, 1}, {0, 2}, {1, 2}},
	} {
		t.Run(op, func(t *testing.T) {
			d, comms, err := run(t, aCase(func(c *plan.Case) {
				collective.Of(c).Op, collective.Of(c).RedOp, c.World, c.RanksPerNode = op, "", 3, 3
				collective.Of(c).Sizes = []int64{8, 1 << 16}
				collective.Of(c).Placements = []string{vocab.OutOfPlace}
				collective.Of(c).Modes = append(collective.Of(c).Modes, vocab.Blocking)
				collective.Of(c).Measure = collective.Counts{Iterations: 3, Trials: 2, Aggregate: 1, Launches: 1, Checks: 4}
			}), false, nil)
			require.NoError(t, err)
			require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
			d.Topology.DeviceProduct = "test" // the shard's
			require.NoError(t, result.Validate(d))
			require.Len(t, d.Measurement.Rows, 2*len(pairs))
			received := int64(1)
			if op == "p2p_bidir" {
				received = 2
			}
			for i, row := range d.Measurement.Rows {
				at := [2]int{*row.Src, *row.Dst}
				require.Equal(t, pairs[i%len(pairs)], at)
				require.Len(t, row.Pipelined.RankP50, 2)
				require.Equal(t, 2, row.Graph.SampleCount)
				require.Equal(t, 6, row.Blocking.SampleCount)
				require.InDelta(t, row.Pipelined.AlgBW, row.Pipelined.BusBW, 1e-9)
				windows := int64(2 * len(collective.Of(&d.Identity.Case).Modes)) // of two trials
				require.Greater(t, row.Check.Checked, (windows+2)*received*row.Count, "with two untimed windows, and what has to stay as it was")
			}
			want := map[int]int{}
			for _, p := range pairs {
				want[p[0]]++
				want[p[1]]++
			}
			for r, c := range comms {
				settled := 0
				for _, g := range c.graphs {
					settled += len(g.calls)
				}
				require.Equal(t, 2*(3+max(collective.MinChecks, 4/len(pairs)))*want[r], settled, "captured for the pairs of rank %d alone", r)
			}
		})
	}
}

// A library that forgets one pair, or gives what was meant for another, is found
// in the row of that pair and in no other.
func TestWrongPairs(t *testing.T) {
	need.Full(t)
	const world = 3
	d, _, err := run(t, aCase(func(c *plan.Case) {
		collective.Of(c).Op, collective.Of(c).RedOp, c.World, c.RanksPerNode = "p2p", "", world, world
		collective.Of(c).Placements, collective.Of(c).Modes = []string{vocab.OutOfPlace}, []string{vocab.Pipelined}
	}), true, func(c *comm, s accel.Stream, calls []runner.Call) error {
		for _, call := range calls {
			words := exchangeOf(call, world)
			if words == nil {
				continue
			}
			if c.rank == 2 {
				words[1] = 0 // sent to rank 1
			}
			if c.rank == 1 {
				words[2*world+2] = 0 // received from rank 2
			}
		}
		return c.Comm.Enqueue(s, calls, 1)
	})
	require.NoError(t, err)
	require.Equal(t, result.Invalid, d.Outcome.Status)
	for _, row := range d.Measurement.Rows {
		require.Equal(t, *row.Src == 2 && *row.Dst == 1, !row.Check.Passed, "%d to %d", *row.Src, *row.Dst)
	}
}
