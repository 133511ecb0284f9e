package runner_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/accel"
	hostdev "github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/data"
	"github.com/collectivex/collectivex/pkg/collective/host"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// device is the host device with graphs: while it captures, calls are kept.
type device struct {
	*hostdev.Device
	noGraphs bool
}

// Info has a small cache, since cold windows overwrite all of it: half a gigabyte on some hosts.
func (d *device) Info() accel.Info {
	info := d.Device.Info()
	info.L2Bytes = 8 << 20
	return info
}

func (d *device) NewStream() (accel.Stream, error) {
	inner, err := d.Device.NewStream()
	return &stream{Stream: inner, device: d}, err
}

type stream struct {
	accel.Stream
	device *device
	graph  *graph // while capturing
}

func (s *stream) BeginCapture() error {
	if s.device.noGraphs {
		return accel.ErrUnsupported
	}
	s.graph = new(graph)
	return nil
}

func (s *stream) EndCapture() (accel.Graph, error) {
	g := s.graph
	s.graph = nil
	return g, nil
}

type graph struct {
	comm     *comm
	calls    []runner.Call
	launches int
	closed   bool
}

func (g *graph) Launch(s accel.Stream) error {
	g.launches++
	if g.comm.replays != nil {
		g.comm.launches++
		if !g.comm.replays(g.comm.launches - 1) {
			return nil
		}
	}
	return g.comm.execute(s, g.calls)
}

func (g *graph) Close() error {
	g.closed = true
	return nil
}

// comm is the host library with a hook before every window of calls.
type comm struct {
	runner.Comm
	rank     int
	enqueued [][]runner.Call
	graphs   []*graph
	// spoil does something wrong with the calls before they run or after they ran,
	// or after they were captured.
	spoil func(c *comm, s accel.Stream, calls []runner.Call) error
	// skips says which operations the library does not do: the n-th of its life,
	// which is the i-th of so many at once.
	skips func(n, i, of int) bool
	done  int
	// replays says which launch since the last settling, from 0, runs.
	replays  func(n int) bool
	launches int
	// capped says whether the clock of the rank is capped; nil where nobody reads it.
	capped func() bool
}

// execute does the operations that the library does.
func (c *comm) execute(s accel.Stream, calls []runner.Call) error {
	var kept []runner.Call
	for i, call := range calls {
		if c.skips == nil || !c.skips(c.done, i, len(calls)) {
			kept = append(kept, call)
		}
		c.done++
	}
	return c.Comm.Enqueue(s, kept, 1)
}

func (c *comm) Enqueue(s accel.Stream, calls []runner.Call, _ int) error {
	if s.(*stream).graph != nil {
		return errors.New("captured on the communicator of the other modes")
	}
	c.enqueued = append(c.enqueued, slices.Clone(calls))
	if c.spoil != nil {
		return c.spoil(c, s, calls)
	}
	return c.execute(s, calls)
}

func (c *comm) Time(s accel.Stream, calls []runner.Call, group int) (runner.Elapsed, error) {
	return runner.Time(func() error { return c.Enqueue(s, calls, group) })
}

// another is a comm that is used as a second one: what it captures is the first's
// to tell.
type another struct{ *comm }

func (another) Close() error { return nil }

func (a another) Time(s accel.Stream, calls []runner.Call, group int) (runner.Elapsed, error) {
	return runner.Time(func() error { return a.Enqueue(s, calls, group) })
}

func (a another) Enqueue(s accel.Stream, calls []runner.Call, group int) error {
	g := s.(*stream).graph
	if g == nil {
		return a.comm.Enqueue(s, calls, group)
	}
	g.comm = a.comm
	g.calls = append(g.calls, calls...)
	a.graphs = append(a.graphs, g)
	if a.spoil != nil {
		return a.spoil(a.comm, s, calls)
	}
	return nil
}

func aCase(change ...func(*plan.Case)) plan.Case {
	return plantest.Collective(2, append([]func(*plan.Case){func(c *plan.Case) {
		b := collective.Of(c)
		b.Sizes, b.Modes = []int64{4096}, []string{vocab.Pipelined, vocab.PerIteration, vocab.Graph}
		b.Measure = collective.Counts{Warmup: 5, Iterations: 3, Trials: 2, Aggregate: 1, Launches: 1, Checks: 4}
	}}, change...)...)
}

// run does a case with its ranks as threads of this process.
func run(t *testing.T, c plan.Case, noGraphs bool, spoil func(c *comm, s accel.Stream, calls []runner.Call) error) (*collective.Document, []*comm, error) {
	t.Helper()
	return runOn(t, c, noGraphs, func(c *comm) { c.spoil = spoil })
}

// runOn does a case on a library that has been prepared.
func runOn(t *testing.T, c plan.Case, noGraphs bool, prepare func(*comm)) (*collective.Document, []*comm, error) {
	t.Helper()
	dir := t.TempDir()
	streams := make([]rank.Stream, c.World)
	comms := make([]*comm, c.World)
	errs := make([]error, c.World)
	var wg sync.WaitGroup
	for r := range c.World {
		comms[r] = &comm{rank: r}
		prepare(comms[r])
		streams[r].Rank = r
		wg.Go(func() {
			runtime.LockOSThread() // pinned: never unlocked, the thread ends here
			errs[r] = runRank(t.Context(), dir, r, c, noGraphs, comms[r], &streams[r])
			streams[r].Done = errs[r] == nil
		})
	}
	wg.Wait()
	doc, err := result.New(c, result.Attempt{Ordinal: 1, At: time.Now(), Vendor: "host", Generator: "test 0"})
	require.NoError(t, err)
	require.NoError(t, runner.Assemble(doc, streams))
	return doc.(*collective.Document), comms, errors.Join(errs...)
}

func runRank(ctx context.Context, dir string, r int, c plan.Case, noGraphs bool, wrapper *comm, out *rank.Stream) (err error) {
	store, err := rendezvous.OpenFile(dir)
	if err != nil {
		return err
	}
	defer store.Close()
	s := rank.NewSession(rank.Place{Rank: r, World: c.World, LocalRank: r}, store, "case", func(rec rank.Record) error {
		switch rec.Kind {
		case rank.KindFacts:
		case "trials":
			var v struct {
				Name   string
				Counts map[int]int
			}
			if out.Repeats == nil {
				out.Repeats = map[string]map[int]int{}
			}
			err := json.Unmarshal(rec.Data, &v)
			out.Repeats[v.Name] = v.Counts
			return err
		default:
			out.Records = append(out.Records, rec)
		}
		return nil
	})
	s.Between = wrapper.capped
	d, err := hostdev.Open(r, c.World)
	if err != nil {
		return err
	}
	inner, err := host.NewComm(ctx, s, d)
	if err != nil {
		return errors.Join(err, d.Close())
	}
	wrapper.Comm = inner
	runner, err := runner.NewRunner(runner.Parts{
		Data: data.Inline{}, Comm: wrapper, Device: &device{d, noGraphs},
		Another: func(context.Context, *rank.Session) (runner.Comm, error) { return another{wrapper}, nil },
	})
	if err != nil {
		return err
	}
	err = runner.Run(ctx, s, c)
	// A rank that leaves takes its heap with it: wait for the others.
	return errors.Join(err, store.Barrier(ctx, "end", r, c.World), runner.Close())
}

func TestRunWithGraphs(t *testing.T) {
	d, comms, err := run(t, aCase(), false, nil)
	require.NoError(t, err)
	require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
	require.Empty(t, d.Workload.Excluded)
	for _, row := range d.Measurement.Rows {
		require.Equal(t, 2, row.Graph.SampleCount)
		require.Equal(t, 2, row.Pipelined.SampleCount)
		require.Equal(t, 6, row.PerIteration.SampleCount)
	}
	for _, c := range comms {
		require.Len(t, c.graphs, 2*2+2, "two per rung, and one per untimed window")
		for i, g := range c.graphs {
			require.True(t, g.closed)
			switch {
			case i >= 4:
				require.Len(t, g.calls, 4, "the checks of the case")
				require.Equal(t, 1, g.launches)
			case len(g.calls) == 3:
				require.Equal(t, 3, g.launches, "one to upload and one that is timed in each trial")
			default:
				require.Less(t, len(g.calls), 3)
				require.Equal(t, 2, g.launches, "one to upload and one for the truncated window")
			}
		}
	}
}

func TestRunWithoutGraphs(t *testing.T) {
	d, _, err := run(t, aCase(), true, nil)
	require.NoError(t, err)
	require.Equal(t, result.Success, d.Outcome.Status)
	require.Equal(t, "graph", d.Workload.Excluded[0].What)

	_, _, err = run(t, aCase(func(c *plan.Case) { collective.Of(c).Modes = []string{vocab.Graph} }), true, nil)
	require.ErrorContains(t, err, "the device supports none of the timing modes")
}

// What was captured before the library failed is given back.
func TestFailureWhileCapturing(t *testing.T) {
	_, comms, err := run(t, aCase(), false, func(c *comm, s accel.Stream, calls []runner.Call) error {
		if s.(*stream).graph != nil {
			return errors.New("no capture of this")
		}
		return c.Comm.Enqueue(s, calls, 1)
	})
	require.ErrorContains(t, err, "no capture of this")
	for _, c := range comms {
		require.Len(t, c.graphs, 1)
		require.True(t, c.graphs[0].closed)
	}
}

// A trial goes over all sizes before the next one begins.
func TestTrialsAreSpreadOverTheCase(t *testing.T) {
	runner.Untruncated(t)
	_, comms, err := run(t, aCase(func(c *plan.Case) {
		collective.Of(c).Sizes, collective.Of(c).Placements, collective.Of(c).Modes = []int64{4096, 8192}, []string{vocab.OutOfPlace}, []string{vocab.Pipelined}
		collective.Of(c).Measure = collective.Counts{Iterations: 3, Trials: 2, Aggregate: 1, Launches: 1, Checks: 4}
	}), true, nil)
	require.NoError(t, err)
	var counts []int64
	for _, calls := range comms[0].enqueued {
		counts = append(counts, calls[0].Count)
	}
	require.Equal(t, []int64{1024, 2048, 1024, 1024, 2048, 2048}, counts[:6], "the last trial with its untimed windows")
	require.Equal(t, []int64{1024, 2048}, counts[6:], "the arithmetic pass, once for all trials")
}

// Several operations in a group, and several launches of a graph: the last launch
// leaves its results elsewhere, and in place its last operation alone has input
// that no other has touched.
func TestGroupsAndLaunches(t *testing.T) {
	runner.Untruncated(t)
	d, comms, err := run(t, aCase(func(c *plan.Case) {
		collective.Of(c).Modes = append(collective.Of(c).Modes, vocab.Blocking)
		collective.Of(c).Measure = collective.Counts{Warmup: 1, Iterations: 3, Trials: 1, Aggregate: 2, Launches: 4, Checks: 4}
	}), false, nil)
	require.NoError(t, err)
	require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
	for _, row := range d.Measurement.Rows {
		require.Equal(t, 3, row.Blocking.SampleCount)
		require.Equal(t, 3, row.PerIteration.SampleCount)
		require.Positive(t, row.Pipelined.Enqueue)
		require.Zero(t, row.Blocking.Enqueue)
	}
	require.NotNil(t, d.Measurement.FirstWindowAt)
	for _, c := range comms {
		require.Len(t, c.graphs, 2*2+2)
		var launches []int
		for _, g := range c.graphs[:4] {
			require.Len(t, g.calls, 6)
			require.True(t, g.closed)
			launches = append(launches, g.launches)
		}
		require.Equal(t, []int{1 + 1, 1 + 3, 1 + 1, 1 + 3}, launches, "for each rung, one to upload, and the timed ones")
		for _, last := range c.graphs[0].calls {
			require.NotContains(t, c.graphs[1].calls, last)
		}
		require.NotContains(t, c.graphs[3].calls, c.graphs[2].calls[5])
	}
}

// A graph of one operation, launched more than once: in place too, the last
// launch has input that no other has touched.
func TestLaunchesOfOneOperation(t *testing.T) {
	runner.Untruncated(t)
	d, comms, err := run(t, aCase(func(c *plan.Case) {
		collective.Of(c).Placements, collective.Of(c).Modes = []string{vocab.InPlace}, []string{vocab.Graph}
		collective.Of(c).Measure = collective.Counts{Iterations: 1, Trials: 2, Aggregate: 1, Launches: 3, Checks: 4}
	}), false, nil)
	require.NoError(t, err)
	require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
	for _, c := range comms {
		require.Len(t, c.graphs, 3)
		require.NotEqual(t, c.graphs[0].calls, c.graphs[1].calls)
	}
}

// The operations of a rung: warm-up; what settles the pipeline and brings the
// ranks together; the window in one crossing or, per iteration, one by one.
func TestWhatIsEnqueued(t *testing.T) {
	runner.Untruncated(t)
	_, comms, err := run(t, aCase(func(c *plan.Case) {
		collective.Of(c).Placements = []string{vocab.InPlace}
		collective.Of(c).Modes = []string{vocab.Pipelined, vocab.PerIteration}
		collective.Of(c).Measure.Trials = 1
	}), true, nil)
	require.NoError(t, err)
	var lengths []int
	for _, calls := range comms[0].enqueued {
		lengths = append(lengths, len(calls))
	}
	const warm, rest, settle, untimed, arithmetic = 3, 2, 5, 4, 1 // 5 of warm-up, 3 calls at a time, 4 checks
	require.Equal(t, []int{warm, rest, settle, 3, settle, 1, 1, 1, untimed, arithmetic}, lengths)
	window := comms[0].enqueued[3]
	_, apart, err := run(t, aCase(func(c *plan.Case) {
		c.Nodes, collective.Of(c).Placements, collective.Of(c).Modes, collective.Of(c).Measure.Trials = 2, []string{vocab.InPlace}, []string{vocab.Blocking}, 1
	}), true, nil)
	require.NoError(t, err)
	lengths = nil
	for _, calls := range apart[0].enqueued {
		lengths = append(lengths, len(calls))
	}
	const sync = 1
	require.Equal(t, []int{warm, rest, settle, sync, sync, sync, 1, sync, 1, sync, 1, untimed, arithmetic}, lengths, "ranks without common memory meet in the library, twice before a window")
	for _, call := range comms[0].enqueued[2] {
		require.NotContains(t, []accel.Ptr{window[0].Recv, window[2].Recv}, call.Recv, "timed buffers hold no result of what settles")
	}
	require.Equal(t, window[0], window[1])
	require.NotEqual(t, window[0].Send, window[2].Send, "the last operation has input that no other has overwritten")
	for _, call := range window {
		require.Equal(t, call.Send, call.Recv)
		require.EqualValues(t, 1024, call.Count)
	}
}

// Fresh input is that of the window before each operation. Warm input in place is the result of the
// operation before.
func TestFreshInput(t *testing.T) {
	runner.Untruncated(t)
	for buffers, same := range map[string]bool{vocab.Fresh: true, vocab.Warm: false} {
		var mu sync.Mutex
		inputs := map[accel.Ptr][]uint32{} // of rank 0, by address
		c := aCase(func(c *plan.Case) {
			b := collective.Of(c)
			c.Precision = "uint32"
			b.Buffers, b.Placements, b.Modes = buffers, []string{vocab.InPlace}, []string{vocab.Blocking}
			b.Measure = collective.Counts{Iterations: 4, Trials: 1, Aggregate: 1, Launches: 1, Checks: 4}
		})
		d, _, err := run(t, c, true, func(c *comm, s accel.Stream, calls []runner.Call) error {
			if c.rank == 0 && len(calls) == 1 {
				mu.Lock()
				inputs[calls[0].Send] = append(inputs[calls[0].Send], binary.NativeEndian.Uint32(hostdev.Bytes(calls[0].Send, 4)))
				mu.Unlock()
			}
			return c.execute(s, calls)
		})
		require.NoError(t, err)
		require.Equal(t, result.Success, d.Outcome.Status)
		repeated := slices.MaxFunc(slices.Collect(maps.Values(inputs)), func(a, b []uint32) int { return len(a) - len(b) })
		require.GreaterOrEqual(t, len(repeated), 3)
		require.Equal(t, same, len(slices.Compact(slices.Clone(repeated))) == 1, "%s: %v", buffers, repeated)
	}
}

// With fresh-cold buffers each operation has a slot of its own, whose input is written just before
// it: what the slot had before does not matter. With cold ones it does.
func TestFreshColdInput(t *testing.T) {
	runner.Untruncated(t)
	for buffers, status := range map[string]string{vocab.FreshCold: result.Success, vocab.Cold: result.Invalid} {
		var order []accel.Ptr // of rank 0, in the first trial
		at := 0
		c := aCase(func(c *plan.Case) {
			b := collective.Of(c)
			c.Precision = "uint32"
			b.Buffers, b.Placements, b.Modes = buffers, []string{vocab.OutOfPlace}, []string{vocab.Blocking}
			b.Sizes = b.Sizes[:1]
			b.Measure = collective.Counts{Iterations: 4, Trials: 2, Aggregate: 1, Launches: 1, Checks: 4}
		})
		d, _, err := run(t, c, true, func(c *comm, s accel.Stream, calls []runner.Call) error {
			if c.rank != 0 || len(calls) != 1 {
				return c.execute(s, calls)
			}
			if !slices.Contains(order, calls[0].Send) {
				order = append(order, calls[0].Send)
			} else if at = slices.Index(order, calls[0].Send) + 1; at < len(order) {
				binary.NativeEndian.PutUint32(hostdev.Bytes(order[at], 4), 12345)
			}
			return c.execute(s, calls)
		})
		require.NoError(t, err)
		require.Positive(t, at)
		require.Equal(t, status, d.Outcome.Status, buffers)
	}
}

// Documents say how far apart the ranks entered their windows: exactly where they read one
// clock, else a bound, which a rank that leaves the last meeting late raises.
func TestEntrySkew(t *testing.T) {
	const windows = 2 * 2 * 2 // placements, modes, trials
	d, _, err := run(t, aCase(), true, nil)
	require.NoError(t, err)
	require.Equal(t, windows, d.EntrySkew.Windows)
	require.False(t, d.EntrySkew.Bound)

	apart := func(spoil func(c *comm, s accel.Stream, calls []runner.Call) error) *result.EntrySkew {
		d, _, err := run(t, aCase(func(c *plan.Case) { c.Nodes = 2 }), true, spoil)
		require.NoError(t, err)
		require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
		return d.EntrySkew
	}
	s := apart(nil)
	require.Equal(t, windows, s.Windows)
	require.True(t, s.Bound)
	require.Positive(t, s.P50)

	const late = 20 * time.Millisecond
	s = apart(func(c *comm, s accel.Stream, calls []runner.Call) error {
		err := c.execute(s, calls)
		if c.rank == 1 && len(calls) == 1 && calls[0].Count == 4 {
			time.Sleep(late)
		}
		return err
	})
	require.GreaterOrEqual(t, s.P50, float64(late.Microseconds()))
}

func TestRunRefusesWhatDoesNotFit(t *testing.T) {
	_, _, err := run(t, aCase(func(c *plan.Case) { collective.Of(c).Sizes = []int64{1 << 50} }), true, nil)
	require.ErrorContains(t, err, "1125899906842624 bytes: ")
	var coded *rank.Error
	require.ErrorAs(t, err, &coded)
	require.Equal(t, result.ReasonMemoryForSize, coded.Reason.Code)
	_, _, err = run(t, aCase(func(c *plan.Case) { collective.Of(c).Sizes = []int64{1} }), true, nil)
	require.ErrorContains(t, err, "no size can be measured (the last one, 1 bytes: 2 ranks of float take at least 4 bytes")
	require.ErrorAs(t, err, &coded)
	require.Equal(t, result.ReasonSizeTooSmall, coded.Reason.Code)
	_, _, err = run(t, aCase(func(c *plan.Case) {
		collective.Of(c).Op, collective.Of(c).RedOp, collective.Of(c).Placements = "alltoall", "", []string{vocab.InPlace}
	}), true, nil)
	require.ErrorContains(t, err, "none of the placements")
	_, _, err = run(t, aCase(func(c *plan.Case) { collective.Of(c).Registration = "symmetric" }), true, nil)
	require.ErrorContains(t, err, "registration")
}

// What a wrong library could do, each caught by the check of the timed buffers.
func TestWrongLibraries(t *testing.T) {
	need.Full(t)
	bytesAt := func(c runner.Call) []byte {
		return hostdev.Bytes(c.Recv, c.Count*int64(c.Type.Size()))
	}
	after := func(harm func(calls []runner.Call)) func(c *comm, s accel.Stream, calls []runner.Call) error {
		return func(c *comm, s accel.Stream, calls []runner.Call) error {
			if err := c.Comm.Enqueue(s, calls, 1); err != nil {
				return err
			}
			if c.rank == 1 {
				harm(calls)
			}
			return nil
		}
	}
	stale := map[int][]byte{}
	for name, spoil := range map[string]func(c *comm, s accel.Stream, calls []runner.Call) error{
		"flips a bit": after(func(calls []runner.Call) { bytesAt(calls[len(calls)-1])[3] ^= 1 }),
		"swaps the halves": after(func(calls []runner.Call) {
			b := bytesAt(calls[len(calls)-1])
			for i := range len(b) / 2 {
				b[i], b[len(b)/2+i] = b[len(b)/2+i], b[i]
			}
		}),
		"returns the result of the window before": after(func(calls []runner.Call) {
			b := bytesAt(calls[len(calls)-1])
			now := slices.Clone(b)
			if old := stale[len(b)]; old != nil {
				copy(b, old)
			}
			stale[len(b)] = now
		}),
		"forgets one rank": func(c *comm, s accel.Stream, calls []runner.Call) error {
			if c.rank == 1 {
				for _, call := range calls {
					clear(unsafe.Slice((*byte)(unsafe.Pointer(&hostdev.Bytes(call.Send, 1)[0])), call.Count*4))
				}
			}
			return c.Comm.Enqueue(s, calls, 1)
		},
		"does nothing": func(c *comm, s accel.Stream, calls []runner.Call) error {
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, buffers := range []string{vocab.Warm, vocab.Cold} {
				clear(stale)
				d, _, err := run(t, aCase(func(c *plan.Case) {
					collective.Of(c).Buffers, collective.Of(c).Modes = buffers, []string{vocab.Pipelined}
				}), true, spoil)
				require.NoError(t, err)
				require.Equal(t, result.Invalid, d.Outcome.Status)
				require.Equal(t, result.Reasons{{Code: result.ReasonSemantics}}, d.Outcome.Reasons)
				for _, row := range d.Measurement.Rows {
					require.False(t, row.Check.Passed, fmt.Sprint(buffers, row.Placement))
				}
			}
		})
	}
}
