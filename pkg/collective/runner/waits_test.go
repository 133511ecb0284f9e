package runner_test

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/accel"
	hostdev "github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Operations that the host waits for are issued one by one, with a barrier of all ranks after each if the
// case says so. Ranks without common memory meet in the library.
func TestWaitsBetweenOperations(t *testing.T) {
	runner.Untruncated(t)
	const operation, barrier = 1024, 4 // elements
	for wait, window := range map[string][]int64{
		vocab.WaitOperation: {operation, operation, operation},
		vocab.WaitBarrier:   {operation, barrier, operation, barrier, operation, barrier},
	} {
		d, comms, err := run(t, aCase(func(c *plan.Case) {
			b := collective.Of(c)
			c.Nodes, b.Placements, b.Modes, b.Measure.Trials, b.Measure.Wait = 2, []string{vocab.InPlace}, []string{vocab.Pipelined}, 1, wait
		}), true, nil)
		require.NoError(t, err)
		require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
		require.Equal(t, 1, d.Measurement.Rows[0].Pipelined.SampleCount)
		require.Zero(t, d.Measurement.Rows[0].Pipelined.Enqueue)
		var counts []int64
		for _, calls := range comms[0].enqueued[5:] { // after the warm-up, what settles, and two barriers
			require.NotEmpty(t, calls)
			counts = append(counts, calls[0].Count)
		}
		require.Equal(t, append(window, operation, operation), counts, "the window, the checks and the arithmetic pass")
	}
}

// recorded does a case, and returns what its ranks left beside its document.
func recorded(t *testing.T, c plan.Case) (*collective.Document, []rank.Stream) {
	t.Helper()
	dir, streams, errs := t.TempDir(), make([]rank.Stream, c.World), make([]error, c.World)
	var group sync.WaitGroup
	for r := range c.World {
		streams[r].Rank = r
		group.Go(func() {
			runtime.LockOSThread()
			errs[r] = runRank(t.Context(), dir, r, c, true, &comm{rank: r}, &streams[r])
			streams[r].Done = errs[r] == nil
		})
	}
	group.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	doc, err := result.New(c, result.Attempt{Ordinal: 1, At: time.Now(), Vendor: "host", Generator: "test 0"})
	require.NoError(t, err)
	require.NoError(t, runner.Assemble(doc, streams))
	return doc.(*collective.Document), streams
}

// The first iterations of each window stay in the samples, and are not in the figures.
func TestSkippedIterations(t *testing.T) {
	c := aCase(func(c *plan.Case) {
		b := collective.Of(c)
		b.Placements, b.Modes, b.Measure.Iterations, b.Measure.Skip = []string{vocab.OutOfPlace}, []string{vocab.Pipelined, vocab.PerIteration}, 5, 3
	})
	d, streams := recorded(t, c)
	require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
	var kept []float64 // the slowest rank of each sample
	for trial := range collective.Of(&c).Measure.Trials {
		slowest := make([]float64, 2)
		for _, s := range streams {
			for _, r := range s.Records {
				if w := windowOf(t, r); w.Mode == vocab.PerIteration && w.Trial == trial && len(w.US) > 0 {
					require.Len(t, w.US, 5)
					for i := range slowest {
						slowest[i] = max(slowest[i], w.US[3+i])
					}
				}
			}
		}
		kept = append(kept, slowest...)
	}
	row := d.Measurement.Rows[0].PerIteration
	require.Equal(t, 4, row.SampleCount)
	require.InEpsilon(t, slices.Max(kept), row.Max, 1e-9)
	require.InEpsilon(t, slices.Min(kept), row.Min, 1e-9)

	at, err := time.Parse(time.RFC3339, d.Measurement.Rows[0].EndedAt)
	require.NoError(t, err)
	first, err := time.Parse(time.RFC3339, *d.Measurement.FirstWindowAt)
	require.NoError(t, err)
	require.True(t, at.After(first), "the row ended when its windows had")
}

// A number of checks that was asked for is done at every size.
func TestRequestedChecksAreDone(t *testing.T) {
	const size = 8 << 20 // of which the host checks two without a request
	for checks, want := range map[int]int{0: 2, 5: 5} {
		_, comms, err := run(t, aCase(func(c *plan.Case) {
			b := collective.Of(c)
			b.Sizes, b.Placements, b.Modes = []int64{size}, []string{vocab.OutOfPlace}, []string{vocab.Pipelined}
			b.Measure = collective.Counts{Iterations: 1, Trials: 1, Aggregate: 1, Launches: 1, Checks: checks}
		}), true, nil)
		require.NoError(t, err)
		done := -1 // the timed one
		for _, calls := range comms[0].enqueued {
			for _, call := range calls {
				if call.Count == size/4 {
					done++
				}
			}
		}
		require.Equal(t, want, done)
	}
}

// An operation of 0 bytes is timed like others. Out of place, it must write nothing.
func TestNoBytes(t *testing.T) {
	c := aCase(func(c *plan.Case) {
		collective.Of(c).Sizes, collective.Of(c).Modes = []int64{0, 4096}, []string{vocab.Pipelined, vocab.PerIteration}
	})
	d, _, err := run(t, c, true, nil)
	require.NoError(t, err)
	require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
	require.Equal(t, []int64{0, 4096}, d.Workload.SizesMeasured)
	for _, row := range d.Measurement.Rows[:2] {
		require.Zero(t, row.Requested+row.Bytes+row.Count)
		require.True(t, row.Good())
		require.Positive(t, row.Pipelined.Percentiles.P50)
		require.Zero(t, row.Pipelined.BusBW)
	}
	d.Topology.DeviceProduct = "test" // the shard's
	require.NoError(t, result.Validate(d))

	d, _, err = run(t, c, true, func(c *comm, s accel.Stream, calls []runner.Call) error {
		err := c.execute(s, calls)
		if c.rank == 1 && calls[0].Count == 0 {
			hostdev.Bytes(calls[0].Recv, 1)[0] ^= 1
		}
		return err
	})
	require.NoError(t, err)
	require.False(t, d.Measurement.Rows[0].Check.Passed)
	require.True(t, d.Measurement.Rows[2].Check.Passed)

	d, _, err = run(t, aCase(func(c *plan.Case) {
		collective.Of(c).Sizes, collective.Of(c).Modes = []int64{0}, []string{vocab.Pipelined}
	}), true, nil)
	require.NoError(t, err)
	require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
}

func TestNoNullStreamOnAHost(t *testing.T) {
	_, _, err := run(t, aCase(func(c *plan.Case) {
		collective.Of(c).NullStream, collective.Of(c).Modes = true, []string{vocab.Pipelined}
	}), true, nil)
	require.ErrorContains(t, err, "the device has no null stream")
}
