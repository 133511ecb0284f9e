package runner_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"
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

// A library that skips operations is found at every size, also where a window has
// fewer buffers than operations.
func TestLibrariesThatSkip(t *testing.T) {
	need.Full(t)
	const every = 23 // fewer than the operations of a timed window and an untimed one
	lies := []struct {
		name  string
		skips func(n, i, of int) bool
		rows  bool // every row shows it, not only one of each size
	}{
		{"the last operation", func(_, i, of int) bool { return of > 1 && i == of-1 }, true},
		{"the middle", func(_, i, of int) bool { return of > 1 && i == of/2 }, false},
		{"all but the first", func(_, i, _ int) bool { return i > 0 }, true},
		{"all from the tenth on", func(_, i, _ int) bool { return i >= 9 }, true},
		{"every 23rd of its life", func(n, _, _ int) bool { return n%every == every-1 }, false},
	}
	for _, lie := range lies {
		for i, c := range []struct {
			buffers, mode   string
			group, launches int
		}{
			{vocab.Warm, vocab.Pipelined, 1, 1},
			{vocab.Cold, vocab.Graph, 1, 1},
			{vocab.Shifted, vocab.Graph, 2, 3},
			{vocab.Fresh, vocab.Blocking, 1, 1},
			{vocab.FreshCold, vocab.Blocking, 1, 1},
		} {
			if i > 0 && lie.rows && lie.name != "all but the first" {
				continue // what shows in one state shows in all
			}
			t.Run(fmt.Sprint(lie.name, c), func(t *testing.T) {
				d, _, err := runOn(t, aCase(func(p *plan.Case) {
					collective.Of(p).Buffers, collective.Of(p).Modes, collective.Of(p).Sizes = c.buffers, []string{c.mode}, []int64{8, 2 << 20}
					collective.Of(p).Measure = collective.Counts{Warmup: 1, Iterations: 20 / c.group, Trials: 1, Aggregate: c.group, Launches: c.launches}
				}), false, func(k *comm) { k.skips = lie.skips })
				require.NoError(t, err)
				require.Equal(t, result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonSemantics}}}, d.Outcome)
				found := map[int64]bool{}
				for _, row := range d.Measurement.Rows {
					found[row.Requested] = found[row.Requested] || row.Check.Wrong > 0
					if lie.rows {
						require.Positive(t, row.Check.Wrong, "%d bytes %s", row.Requested, row.Placement)
					}
				}
				require.Equal(t, map[int64]bool{8: true, 2 << 20: true}, found)
			})
		}
	}
}

// A library that skips one operation late in its life passes the few checks of a quick profile,
// and not the default number of them.
func TestChecksOfACase(t *testing.T) {
	for checks, want := range map[int]string{4: result.Success, 0: result.Invalid} {
		d, comms, err := runOn(t, aCase(func(p *plan.Case) {
			collective.Of(p).Modes, collective.Of(p).Placements, collective.Of(p).Sizes = []string{vocab.Pipelined}, []string{vocab.OutOfPlace}, []int64{4096}
			collective.Of(p).Measure = collective.Counts{Iterations: 4, Trials: 1, Aggregate: 1, Launches: 1, Checks: checks}
		}), true, func(k *comm) { k.skips = func(n, _, _ int) bool { return n == 60 } })
		require.NoError(t, err)
		require.Equal(t, want, d.Outcome.Status, "%d checks", checks)
		require.Equal(t, checks == 0, comms[0].done > 60)
	}
}

// Of a window in place too, whose operations overwrite their input: each has a buffer of its own where
// there is room.
func TestEachOperationInPlace(t *testing.T) {
	runner.Untruncated(t)
	const operations = 4
	for n := range operations {
		d, _, err := run(t, aCase(func(p *plan.Case) {
			b := collective.Of(p)
			b.Buffers, b.Modes, b.Placements, b.Sizes = vocab.Shifted, []string{vocab.Pipelined}, []string{vocab.InPlace}, []int64{1024, 4096}
			b.Measure = collective.Counts{Warmup: 1, Iterations: operations, Trials: 1, Aggregate: 1, Launches: 1, Checks: collective.MinChecks}
		}), true, func(c *comm, s accel.Stream, calls []runner.Call) error {
			if err := c.execute(s, calls); err != nil {
				return err
			}
			if c.rank == 1 && len(calls) == operations && calls[0].Count == 1024/4 {
				hostdev.Bytes(calls[n].Recv, 1)[0] ^= 1
			}
			return nil
		})
		require.NoError(t, err)
		require.EqualValues(t, 1, d.Measurement.Rows[0].Check.Wrong, "operation %d", n)
		require.Zero(t, d.Measurement.Rows[1].Check.Wrong, "operation %d", n)
	}
}

// A library that moves half of each operation, except of the last of a window.
func TestHalfOfAnOperation(t *testing.T) {
	d, _, err := run(t, aCase(func(c *plan.Case) {
		collective.Of(c).Modes, collective.Of(c).Sizes = []string{vocab.Pipelined}, []int64{4096, 2 << 20}
		collective.Of(c).Measure = collective.Counts{Iterations: 20, Trials: 1, Aggregate: 1, Launches: 1}
	}), true, func(c *comm, s accel.Stream, calls []runner.Call) error {
		for i, call := range calls {
			if i < len(calls)-1 {
				call.Count /= 2
			}
			if err := c.Comm.Enqueue(s, []runner.Call{call}, 1); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	for _, row := range d.Measurement.Rows {
		require.Positive(t, row.Check.Wrong, "%d bytes %s", row.Requested, row.Placement)
	}
}

// What an operation may not write is found changed: its input out of place, and
// what belongs to ranks that receive nothing.
func TestWritesWhereItMayNot(t *testing.T) {
	type buffer func(c runner.Call) accel.Ptr
	send := func(c runner.Call) accel.Ptr { return c.Send }
	recv := func(c runner.Call) accel.Ptr { return c.Recv }
	for _, c := range []struct {
		op, redop, placement string
		rank                 int
		where                buffer
	}{
		{"all_reduce", "sum", vocab.OutOfPlace, 1, send},
		{"all_gather", "", vocab.OutOfPlace, 0, send},
		{"alltoall", "", vocab.OutOfPlace, 0, send},
		{"broadcast", "", vocab.OutOfPlace, 0, send},
		{"broadcast", "", vocab.OutOfPlace, 1, send},
		{"scatter", "", vocab.OutOfPlace, 1, send},
		{"reduce", "sum", vocab.OutOfPlace, 1, recv},
		{"gather", "", vocab.OutOfPlace, 1, recv},
		{"reduce", "sum", vocab.InPlace, 1, recv},
		{"gather", "", vocab.InPlace, 1, send},
	} {
		t.Run(fmt.Sprint(c.op, c.placement, c.rank), func(t *testing.T) {
			d, _, err := run(t, aCase(func(p *plan.Case) {
				collective.Of(p).Op, collective.Of(p).RedOp, collective.Of(p).Placements, collective.Of(p).Modes = c.op, c.redop, []string{c.placement}, []string{vocab.Pipelined}
			}), true, func(k *comm, s accel.Stream, calls []runner.Call) error {
				if err := k.Comm.Enqueue(s, calls, 1); err != nil {
					return err
				}
				if k.rank == c.rank {
					at := hostdev.Bytes(c.where(calls[len(calls)-1]), 4)
					*(*uint32)(unsafe.Pointer(&at[0])) ^= 1
				}
				return nil
			})
			require.NoError(t, err)
			require.Equal(t, result.Invalid, d.Outcome.Status)
			require.Equal(t, result.Reasons{{Code: result.ReasonSemantics}}, d.Outcome.Reasons)
		})
	}
}

// liar is a library that does less where it believes that nobody looks. It sees its calls one by one, and
// a window begins with what settles it, on buffers that no other call has.
type liar struct {
	window []runner.Call // calls since
	cache  map[accel.Ptr]cached
}

// cached is the input of an operation with its result.
type cached struct{ in, out []byte }

// does says how much of a call the liar does, as the i-th of a window.
type does func(l *liar, c *comm, s accel.Stream, i int, call runner.Call) error

func (l *liar) enqueue(do does) func(c *comm, s accel.Stream, calls []runner.Call) error {
	return func(c *comm, s accel.Stream, calls []runner.Call) error {
		for _, call := range calls {
			if len(calls) == warmup {
				l.window, c.launches = nil, 0
				if err := c.Comm.Enqueue(s, []runner.Call{call}, 1); err != nil {
					return err
				}
				continue
			}
			if len(l.window) == timed {
				l.window = nil
			}
			if err := do(l, c, s, len(l.window), call); err != nil {
				return err
			}
			l.window = append(l.window, call)
		}
		return nil
	}
}

// The operations that settle a window, unlike any other number of calls, and those of a timed window.
const warmup, timed = 23, 20

func all(c *comm, s accel.Stream, call runner.Call) error {
	return c.Comm.Enqueue(s, []runner.Call{call}, 1)
}

func bytesOf(at accel.Ptr, call runner.Call) []byte {
	return hostdev.Bytes(at, call.Count*int64(call.Type.Size()))
}

// caching keeps the results of its inputs. A result that it does not have takes 60 ms.
func caching(l *liar, c *comm, s accel.Stream, _ int, call runner.Call) error {
	in := bytesOf(call.Send, call)
	if known, ok := l.cache[call.Send]; ok && bytes.Equal(known.in, in) {
		copy(bytesOf(call.Recv, call), known.out)
		return nil
	}
	time.Sleep(60 * time.Millisecond)
	in = slices.Clone(in)
	err := all(c, s, call)
	l.cache[call.Send] = cached{in, slices.Clone(bytesOf(call.Recv, call))}
	return err
}

// On a busy machine, all operations that follow new data may wait for a processor. Graphs are not judged by their times.
func TestNewDataOnABusyMachine(t *testing.T) {
	d, _, err := run(t, aCase(func(p *plan.Case) {
		b := collective.Of(p)
		b.Sizes, b.Modes, b.Placements = []int64{1 << 16}, []string{vocab.Pipelined, vocab.Graph}, []string{vocab.OutOfPlace}
		b.Measure = collective.Counts{Warmup: warmup, Iterations: timed, Trials: 2, Aggregate: 1, Launches: 1, Checks: 8}
	}), false, func(c *comm, s accel.Stream, calls []runner.Call) error {
		if s.(*stream).graph != nil {
			return nil
		}
		if len(calls) != warmup && len(calls) != timed {
			time.Sleep(100 * time.Millisecond)
		}
		return c.Comm.Enqueue(s, calls, 1)
	})
	require.NoError(t, err)
	require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
}

// Times of graphs are compared with those of operations outside of graphs. Load on the machine that ends before the
// graphs fails none, a library whose graphs are too fast fails.
func TestGraphsAndNewData(t *testing.T) {
	need.Full(t)
	for name, slow := range map[string]struct {
		is     func(c *comm) bool
		status string
	}{
		"before graphs":     {func(c *comm) bool { return len(c.graphs) == 0 }, result.Success},
		"outside of graphs": {func(*comm) bool { return true }, result.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			d, _, err := run(t, aCase(func(p *plan.Case) {
				b := collective.Of(p)
				b.Sizes, b.Placements, b.Modes = []int64{1 << 16}, []string{vocab.OutOfPlace}, []string{vocab.Pipelined, vocab.Graph}
				b.Measure = collective.Counts{Iterations: 2, Trials: 5, Aggregate: 1, Launches: 1, Checks: 4}
			}), false, func(c *comm, s accel.Stream, calls []runner.Call) error {
				if s.(*stream).graph != nil {
					return nil
				}
				if slow.is(c) {
					time.Sleep(time.Duration(len(calls)) * 100 * time.Millisecond)
				}
				return c.Comm.Enqueue(s, calls, 1)
			})
			require.NoError(t, err)
			require.Equal(t, slow.status, d.Outcome.Status, "%v", d.Outcome.Reasons)
			if slow.status == result.Invalid {
				reasons := d.Measurement.Rows[0].Check.Reasons
				require.Len(t, reasons, 1)
				require.Equal(t, result.ReasonImplausible, reasons[0].Code)
				require.Regexp(t, "^graph, an operation takes .* with new data$", reasons[0].Detail)
			}
		})
	}
}

// Libraries that do unchecked operations in part, or not at all, and those that are checked in full.
func TestUncheckedWork(t *testing.T) {
	const launches, marked = 4, 512
	for name, lie := range map[string]struct {
		do      does
		code    result.Code
		edit    func(*collective.Block)
		replays func(n int) bool // whether the n-th launch of a window runs
	}{
		"writes only what is marked": {func(l *liar, c *comm, s accel.Stream, i int, call runner.Call) error {
			if 0 < i && i < timed-1 && call.Send == l.window[0].Send {
				call.Count = min(call.Count, marked/int64(call.Type.Size()))
			}
			return all(c, s, call)
		}, result.ReasonSemantics, func(b *collective.Block) { b.Placements = []string{vocab.OutOfPlace} }, nil},
		"skips repeats in place": {func(l *liar, c *comm, s accel.Stream, i int, call runner.Call) error {
			if slices.Contains(l.window, call) {
				return nil
			}
			return all(c, s, call)
		}, result.ReasonSemantics, func(b *collective.Block) { b.Placements = []string{vocab.InPlace} }, nil},
		"repeats the first result of its arguments": {func(l *liar, c *comm, s accel.Stream, _ int, call runner.Call) error {
			known := slices.IndexFunc(l.window, func(o runner.Call) bool { return o.Send == call.Send })
			if known < 0 {
				return all(c, s, call)
			}
			copy(bytesOf(call.Recv, call), slices.Clone(bytesOf(l.window[known].Recv, call)))
			return nil
		}, result.ReasonSemantics, func(b *collective.Block) { b.Placements, b.Sizes = []string{vocab.OutOfPlace}, []int64{256} }, nil},
		"caches the results of equal inputs": {caching, result.ReasonImplausible, func(b *collective.Block) { b.Placements, b.Measure.Checks = []string{vocab.OutOfPlace}, 8 }, nil},
		"replays the last of four launches": {func(_ *liar, c *comm, s accel.Stream, _ int, call runner.Call) error {
			return all(c, s, call)
		}, result.ReasonSemantics, func(b *collective.Block) {
			b.Modes, b.Measure.Launches = []string{vocab.Graph}, launches
		}, func(n int) bool { return n == launches-1 || n >= launches }},
	} {
		t.Run(name, func(t *testing.T) {
			d, _, err := runOn(t, aCase(func(p *plan.Case) {
				b := collective.Of(p)
				b.Sizes, b.Modes = []int64{1 << 16}, []string{vocab.Pipelined}
				b.Measure = collective.Counts{Warmup: warmup, Iterations: timed, Trials: 2, Aggregate: 1, Launches: 1}
				lie.edit(b)
			}), false, func(c *comm) {
				c.spoil = (&liar{cache: map[accel.Ptr]cached{}}).enqueue(lie.do)
				c.replays = lie.replays
			})
			require.NoError(t, err)
			require.Equal(t, result.Invalid, d.Outcome.Status, "%+v", d.Measurement.Rows)
			require.Equal(t, lie.code, d.Outcome.Reasons[0].Code, "%v", d.Outcome.Reasons)
			for _, row := range d.Measurement.Rows {
				require.False(t, row.Check.Passed, row.Placement)
			}
		})
	}
}
