package nccl

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// reported runs a case as every rank of a group and returns what the ranks left,
// without their facts, and their errors. begun is called when one has set up its
// windows.
func reported(ctx context.Context, t *testing.T, kind nccl.Kind, c plan.Case, begun func()) ([]rank.Stream, []error) {
	t.Helper()
	return reportedOn(ctx, t, kind, c, begun, func(c runner.Comm) runner.Comm { return c })
}

// reportedOn is reported on communicators that around returns.
func reportedOn(ctx context.Context, t *testing.T, kind nccl.Kind, c plan.Case, begun func(), around func(runner.Comm) runner.Comm) ([]rank.Stream, []error) {
	t.Helper()
	dir := t.TempDir()
	streams := make([]rank.Stream, c.World)
	errs := together(t, kind, c.World, func(e *end) error {
		store, err := rendezvous.OpenFile(dir)
		if err != nil {
			return err
		}
		defer store.Close()
		out := &streams[e.Rank]
		out.Rank = e.Rank
		s := rank.NewSession(e.Place, store, "case", func(r rank.Record) error {
			if r.Kind == rank.KindFacts {
				return nil
			}
			if out.Records = append(out.Records, r); len(out.Records) == 1 {
				begun()
			}
			return nil
		})
		e.Parts.Comm = around(e.Parts.Comm)
		r, err := runner.NewRunner(e.Parts)
		if err != nil {
			return err
		}
		err = r.Run(ctx, s, c)
		out.Done = err == nil
		return err
	})
	return streams, errs
}

// caseOf is a case of an operation on floats, in every timing mode.
func caseOf(kind nccl.Kind, op runner.Op, world int) plan.Case {
	return plantest.Collective(world, func(c *plan.Case) {
		c.Backend = string(kind)
		b := collective.Of(c)
		b.Op, b.RedOp, b.Sizes, b.Placements = op.String(), "", []int64{8, 1 << 16}, []string{vocab.OutOfPlace}
		b.Modes, b.Buffers = []string{vocab.Pipelined, vocab.Blocking, vocab.PerIteration, vocab.Graph}, vocab.Shifted
		b.Measure = collective.Counts{Warmup: 1, Iterations: 3, Trials: 2, Aggregate: 1, Launches: 2, Checks: 4}
	})
}

// Operations of which ranks have unequal parts, or none, in every timing mode.
func TestExchangesInEveryMode(t *testing.T) {
	need.Full(t)
	setUp(t)
	for _, op := range []runner.Op{runner.P2P, runner.AllToAllV} {
		for _, v := range vendors {
			t.Run(fmt.Sprint(op, v.kind), func(t *testing.T) {
				c := caseOf(v.kind, op, 3)
				if f := form(op, numeric.Float, c.World); f.Traffic != nil {
					collective.Of(&c).Traffic, collective.Of(&c).Sizes = f.Traffic, []int64{collective.TrafficSize(f.Traffic)}
				}
				streams, errs := reported(t.Context(), t, v.kind, c, func() {})
				for _, err := range errs {
					require.NoError(t, err)
				}
				doc, err := result.New(c, result.Attempt{Ordinal: 1, At: time.Now(), Vendor: "nvidia", Generator: "test 0"})
				require.NoError(t, err)
				require.NoError(t, runner.Assemble(doc, streams))
				d := doc.(*collective.Document)
				require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
				require.Len(t, d.Measurement.Rows, len(collective.Of(&c).Sizes)*max(1, collective.Of(&c).Pairs(c.World)))
				for _, row := range d.Measurement.Rows {
					require.NotNil(t, row.Graph)
					require.NotNil(t, row.Blocking)
				}
			})
		}
	}
}

// onStreams notes on which streams operations run.
type onStreams struct {
	runner.Comm
	note func(handle uintptr)
}

func (o onStreams) Enqueue(s accel.Stream, calls []runner.Call, group int) error {
	o.note(s.Handle())
	return o.Comm.Enqueue(s, calls, group)
}

func (o onStreams) Time(s accel.Stream, calls []runner.Call, group int) (runner.Elapsed, error) {
	o.note(s.Handle())
	return o.Comm.Time(s, calls, group)
}

// On request, all operations of a case run on the device's default stream. The document has the memory of the device
// that the case took.
func TestNullStream(t *testing.T) {
	setUp(t)
	for _, v := range vendors {
		for _, null := range []bool{true, false} {
			c := caseOf(v.kind, runner.AllGather, 2)
			b := collective.Of(&c)
			b.NullStream, b.Modes = null, []string{vocab.Pipelined, vocab.Blocking, vocab.PerIteration}
			var mu sync.Mutex
			seen := map[bool]int{}
			streams, errs := reportedOn(t.Context(), t, v.kind, c, func() {}, func(c runner.Comm) runner.Comm {
				return onStreams{c, func(handle uintptr) {
					mu.Lock()
					defer mu.Unlock()
					seen[handle == 0]++
				}}
			})
			for _, err := range errs {
				require.NoError(t, err)
			}
			require.Zero(t, seen[!null])
			require.Positive(t, seen[null])
			doc, err := result.New(c, result.Attempt{Ordinal: 1, At: time.Now(), Vendor: "nvidia", Generator: "test 0"})
			require.NoError(t, err)
			require.NoError(t, runner.Assemble(doc, streams))
			d := doc.(*collective.Document)
			require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
			require.NotNil(t, d.Measurement.Memory)
			require.GreaterOrEqual(t, d.Measurement.Memory.Buffers, int64(2<<16), "a send and a receive buffer")
			require.Less(t, d.Measurement.Memory.Buffers, int64(1<<30))
		}
	}
}

// Operations that a cancelled rank aborted end with anything in their buffers.
// Nobody may take that for a wrong result.
func TestCancelledIsNotWrong(t *testing.T) {
	setUp(t)
	t.Setenv("CX_FAKE_NCCL_HANG", "0:3") // after one of warm-up and one that settles, the second of the window
	for _, v := range vendors {
		c := caseOf(v.kind, runner.AllGather, 2)
		collective.Of(&c).Sizes, collective.Of(&c).Modes = []int64{1 << 16}, []string{vocab.Pipelined}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // should a rank not begin
		var begun atomic.Int32
		streams, errs := reported(ctx, t, v.kind, c, func() {
			if int(begun.Add(1)) == c.World {
				time.AfterFunc(500*time.Millisecond, cancel)
			}
		})
		for r, err := range errs {
			require.Error(t, err)
			require.Len(t, streams[r].Records, 1, "its setup, and no window")
		}
	}
}

// Groups have communicators of their own, also for graphs. All of them run at once.
func TestGroups(t *testing.T) {
	need.Full(t)
	setUp(t)
	for _, v := range vendors {
		c := caseOf(v.kind, runner.AllReduce, 4)
		b := collective.Of(&c)
		b.RedOp, b.Groups = "sum", [][]int{{0, 1}, {2, 3}}
		streams, errs := reported(t.Context(), t, v.kind, c, func() {})
		for _, err := range errs {
			require.NoError(t, err)
		}
		doc, err := result.New(c, result.Attempt{Ordinal: 1, At: time.Now(), Vendor: "nvidia", Generator: "test 0"})
		require.NoError(t, err)
		require.NoError(t, runner.Assemble(doc, streams))
		d := doc.(*collective.Document)
		require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
		require.Len(t, d.Measurement.Rows, 2*len(b.Sizes))
		for i, row := range d.Measurement.Rows {
			require.Equal(t, b.Groups[i%2], row.Group)
			require.Len(t, row.Graph.RankP50, 2)
		}
	}
}
