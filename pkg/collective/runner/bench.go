package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
	"github.com/collectivex/collectivex/pkg/workload"
)

// bench measures timing modes of one case on one rank. It creates everything that windows need before
// the first window.
type bench struct {
	backend Parts
	spec    spec
	session *rank.Session
	ladder  ladder
	modes   []string
	stream  accel.Stream
	meet    *rendezvous.Spin // barrier in shared memory; nil if ranks share no memory
	came    time.Time        // when this rank entered the last barrier, if ranks share no memory

	memory   Memory
	flushAt  accel.Ptr
	settleAt accel.Ptr
	syncAt   accel.Ptr
	events   *accel.Scope
	starts   []accel.Event
	ends     []accel.Event
	us       []float64
	pins     runtime.Pinner // of the exchanges
	garbage  *rank.Garbage

	truncated []truncated // by rung
	draw      *rand.Rand  // the same on all ranks

	// For the current rung:
	rung    rung
	calls   []Call // of a window
	settles []Call
	graphs  graphs
}

// graphs are launched in a window in graph mode; none in other modes.
type graphs struct {
	last accel.Graph
	// again is for all launches of a window except the last; nil if there is one launch. It writes its
	// results elsewhere, and in place it preserves the input of the last operation.
	again accel.Graph
	// short has the first operations of last; see bench.short. It is nil if no window is truncated.
	short      accel.Graph
	operations int  // of short
	refilled   bool // short itself writes new data before its last operations
}

// The untimed operation that synchronises ranks that share no memory: an all_reduce of four floats,
// which every library supports.
const (
	syncCount = 4
	syncBytes = 2 * slotAlign
)

// run measures trial by trial, each over all rungs, so that a temporary disturbance affects one trial
// of many sizes instead of all trials of a few sizes. Truncated windows are beside timed windows. The
// untimed window of a rung follows its last timed window. Trials with capped clocks are repeated with their timed
// windows only.
func (b *bench) run(ctx context.Context) (err error) {
	if err := b.warmUp(ctx); err != nil {
		return err
	}
	captured := make([]graphs, len(b.ladder.rungs))
	if slices.Contains(b.modes, vocab.Graph) {
		defer func() {
			for _, g := range captured {
				err = errors.Join(err, g.close())
			}
		}()
		for i, r := range b.ladder.rungs {
			if b.enter(r); b.idle() {
				continue
			}
			if captured[i], err = b.capture(ctx, &b.truncated[i]); err != nil {
				return b.at(err)
			}
		}
	}
	if err := b.session.Trials(ctx, trialsOf(b.modes[0]), b.spec.block.Measure.Trials, func(trial rank.Trial) error {
		b.garbage.Check()
		for i, r := range b.ladder.rungs {
			b.enter(r)
			b.graphs = captured[i]
			if err := b.trial(ctx, &b.truncated[i], trial); err != nil {
				return b.at(err)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return b.conclude(ctx)
}

// trialsOf returns the name of the trials of a timing mode for rank.Session.Trials.
func trialsOf(mode string) string {
	if mode == vocab.Graph {
		return mode
	}
	return "enqueued"
}

// trial runs the windows of the current rung in one trial.
func (b *bench) trial(ctx context.Context, t *truncated, trial rank.Trial) error {
	first := trial.Repeat == 0
	for _, mode := range b.modes {
		if first {
			if err := b.truncate(ctx, t, mode, trial.Number, false); err != nil {
				return err
			}
		}
		us, err := b.window(ctx, mode, trial)
		if err != nil {
			return fmt.Errorf("%s trial %d: %w", mode, trial.Number, err)
		}
		t.timed[mode] = append(t.timed[mode], b.spec.counted(mode, us)...)
		if first {
			if err := b.truncate(ctx, t, mode, trial.Number, true); err != nil {
				return err
			}
		}
	}
	if !first || trial.Number < b.spec.block.Measure.Trials-1 {
		return nil
	}
	mode := untimedMode(b.modes)
	if err := b.checkAll(ctx, mode); err != nil {
		return fmt.Errorf("%s, untimed: %w", mode, err)
	}
	t.Window = b.named(mode, trial.Number+1)
	return b.session.Emit(kindTruncated, t)
}

// at adds the current rung to an error.
func (b *bench) at(err error) error {
	return fmt.Errorf("%s, %d bytes %s: %w", b.spec.op, b.rung.Requested, b.rung.Placement, err)
}

// named returns the key of a window of the current rung.
func (b *bench) named(mode string, trial int) window {
	return window{Requested: b.rung.Requested, Placement: b.rung.Placement, Pair: b.rung.Pair, Mode: mode, Trial: trial}
}

// window measures and checks one window of the current rung, and returns its samples.
func (b *bench) window(ctx context.Context, mode string, trial rank.Trial) ([]float64, error) {
	w := b.named(mode, trial.Number)
	w.Repeat = trial.Repeat
	before, err := b.arrived()
	if err != nil {
		return nil, err
	}
	s, err := b.measure(ctx, w)
	if err != nil {
		return nil, err
	}
	// The end of ctx aborts running operations, which leaves undefined contents in the buffers.
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := b.injectFaults(w); err != nil {
		return nil, err
	}
	verdict, err := b.check(w, b.spec.marks(b.rung))
	if err != nil {
		return nil, err
	}
	operations := b.spec.operations()
	if mode == vocab.Graph {
		operations *= b.spec.block.Measure.Launches
	}
	if err := b.count(&verdict, before, len(b.settles)+operations, b.spec.operations()); err != nil {
		return nil, err
	}
	s.Check = &verdict
	return s.US, b.session.Emit(collective.KindSample, s)
}

// warmUp runs operations of every size, once for all windows, as nccl-tests does. The library connects
// at its first operation of a kind, and clocks and links reach full speed only under load.
func (b *bench) warmUp(ctx context.Context) error {
	for _, r := range b.ladder.rungs {
		if r.Placement != b.ladder.rungs[0].Placement {
			continue
		}
		if b.enter(r); b.idle() {
			continue
		}
		for left := b.spec.block.Measure.Warmup; left > 0; left -= len(b.calls) {
			if err := b.enqueue(ctx, b.calls[:min(left, len(b.calls))]); err != nil {
				return fmt.Errorf("%s, warm-up with %d bytes: %w", b.spec.op, r.Requested, err)
			}
		}
	}
	return nil
}

// enter makes r the current rung.
func (b *bench) enter(r rung) {
	b.rung = r
	for i := range b.calls {
		b.calls[i] = b.slotCall(r.place(i, len(b.calls)))
	}
	settle := b.settleCall()
	for i := range b.settles {
		b.settles[i] = settle
	}
}

// buffers returns the addresses of an operation on the current rung.
func (b *bench) buffers(at place) (send, recv accel.Ptr) {
	base := b.memory.Ptr().Add(b.spec.unaligned())
	if b.rung.Placement == vocab.InPlace {
		return b.together(base.Add(int64(at.slot)*b.rung.stride), b.rung.Count)
	}
	recvAt := b.rung.recvAt + int64(at.slot)*b.rung.recvStride + int64(at.round)*markBytes
	return base.Add(int64(at.slot) * b.rung.stride), base.Add(recvAt)
}

// together returns the addresses of an in-place operation in memory at base.
func (b *bench) together(base accel.Ptr, count int64) (send, recv accel.Ptr) {
	sendAt, recvAt := b.spec.op.InPlaceOffsets(count, b.spec.seat)
	size := int64(b.spec.dtype.Size())
	return base.Add(sendAt * size), base.Add(recvAt * size)
}

// slotCall returns the operation on the buffers at a place.
func (b *bench) slotCall(at place) Call {
	c := b.spec.call(b.spec.seat)
	c.Count, c.Exchange = b.rung.Count, b.rung.exchange
	c.Send, c.Recv = b.buffers(at)
	return c
}

// settleCall returns the operation as settle runs it, limited to maxSettle.
func (b *bench) settleCall() Call {
	c := b.spec.call(b.spec.seat)
	c.Count, c.Exchange = b.settleExtent(b.rung).Count, b.rung.settle
	base := b.settleAt.Add(b.spec.unaligned())
	if c.Send, c.Recv = base, base.Add(b.ladder.settle); b.rung.Placement == vocab.InPlace {
		c.Send, c.Recv = b.together(base, c.Count)
	}
	return c
}

// capture makes the graphs of a rung and launches each once, which uploads it. Before that it runs an
// operation outside of graphs, since a library initializes at its first operation. The order of the
// captures is random, so that a library cannot infer which graph is the short one.
func (b *bench) capture(ctx context.Context, t *truncated) (g graphs, err error) {
	if err := b.enqueue(ctx, b.calls[:1]); err != nil {
		return g, err
	}
	group := b.spec.block.Measure.Aggregate
	enqueue := func(calls []Call) func() error {
		return func() error { return b.backend.Comm.Enqueue(b.stream, calls, group) }
	}
	type capture struct {
		to      *accel.Graph
		enqueue func() error
	}
	captures := [3]capture{{&g.last, enqueue(b.calls)}}
	if b.spec.block.Measure.Launches > 1 {
		calls := slices.Clone(b.calls)
		for i, at := range b.again() {
			calls[i] = b.slotCall(at)
		}
		captures[1] = capture{&g.again, enqueue(calls)}
	}
	if short := b.short(t, &g); short != nil {
		captures[2] = capture{&g.short, short}
	}
	for _, i := range t.order {
		c := captures[i]
		if c.to == nil {
			continue
		}
		if *c.to, err = b.captured(c.enqueue); err != nil {
			return g, errors.Join(err, g.close())
		}
		if err := (*c.to).Launch(b.stream); err != nil {
			return g, rank.Coded(result.ReasonDevice, errors.Join(err, g.close()))
		}
	}
	return g, b.wait(ctx)
}

// again returns the places of the operations of graphs.again.
func (b *bench) again() []place {
	places := b.rung.places(len(b.calls))
	for i := range places {
		if b.rung.Placement == vocab.OutOfPlace {
			places[i].round += b.rung.rounds
		} else if i == len(places)-1 {
			places[i].slot = 0 // the last slot is for the last launch
		}
	}
	return places
}

func (b *bench) captured(enqueue func() error) (accel.Graph, error) {
	if err := b.stream.BeginCapture(); err != nil {
		return nil, rank.Coded(result.ReasonDevice, err)
	}
	enqueued := enqueue()
	graph, err := b.stream.EndCapture()
	if enqueued != nil {
		return nil, errors.Join(enqueued, graphs{last: graph}.close())
	}
	return graph, rank.Coded(result.ReasonDevice, err)
}

func (g graphs) close() error {
	var err error
	for _, graph := range []accel.Graph{g.last, g.again, g.short} {
		if graph != nil {
			err = errors.Join(err, graph.Close())
		}
	}
	return err
}

// ready prepares a window: it fills the buffers, so that they contain no result of the warm-up or of
// another window, flushes the caches, and settles.
func (b *bench) ready(ctx context.Context, w window) error {
	if err := b.fillAll(w); err != nil {
		return err
	}
	if b.ladder.flush > 0 {
		if err := b.backend.Device.Set(b.stream, b.flushAt, byte(w.Trial), b.ladder.flush); err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
	}
	return b.settle(ctx)
}

// measure times one window.
func (b *bench) measure(ctx context.Context, w window) (sample, error) {
	if b.idle() {
		return b.attend(ctx, w, len(b.us))
	}
	if err := b.ready(ctx, w); err != nil {
		return sample{}, err
	}
	s := sample{Sample: collective.Sample{Window: w}, Entry: rank.Enter(b.came)}
	var err error
	switch w.Mode {
	case vocab.Blocking:
		err = b.blocking(ctx, w)
		s.US = b.us
	case vocab.PerIteration:
		err = b.perIteration(ctx)
		s.US = b.us
	case vocab.Graph:
		err = b.pipelined(ctx, &s, len(b.calls)*b.spec.block.Measure.Launches, func() (Elapsed, error) { return Time(b.launch) })
	default:
		if b.spec.block.Measure.Wait != "" {
			err = b.pipelined(ctx, &s, len(b.calls), func() (Elapsed, error) { return b.waiting(ctx, w) })
			break
		}
		err = b.pipelined(ctx, &s, len(b.calls), func() (Elapsed, error) { return b.backend.Comm.Time(b.stream, b.calls, b.spec.block.Measure.Aggregate) })
	}
	return s, err
}

// settle prepares host, device and ranks for a window. It runs the operation, on separate buffers, to
// bring its code back into the caches, from which filling the buffers has evicted it. Then it
// synchronises the ranks.
func (b *bench) settle(ctx context.Context) error {
	if len(b.settles) > 0 {
		if err := b.backend.Comm.Enqueue(b.stream, b.settles, 1); err != nil {
			return err
		}
	}
	return b.arrive(ctx)
}

// arrive synchronises the ranks for a window. If they share no memory, it runs two barriers. The first
// waits for the last rank. The time of the second is an upper bound of the entry skew.
func (b *bench) arrive(ctx context.Context) error {
	if err := b.sync(ctx); err != nil || b.meet != nil {
		return err
	}
	b.came = time.Now()
	return b.sync(ctx)
}

// sync waits for the stream and synchronises the ranks. The ranks leave it closer together in time than
// they would leave a barrier in the store.
func (b *bench) sync(ctx context.Context) error {
	if b.meet != nil {
		if err := b.wait(ctx); err != nil {
			return err
		}
		return b.meet.Wait(ctx)
	}
	all := b.backend.All
	if all == nil {
		all = b.backend.Comm
	}
	if err := all.Enqueue(b.stream, []Call{{
		Op: AllReduce, RedOp: workload.Sum, Type: numeric.Float, Count: syncCount,
		Send: b.syncAt, Recv: b.syncAt.Add(slotAlign),
	}}, 1); err != nil {
		return err
	}
	return Wait(ctx, all, b.stream)
}

// launch launches the graphs of one window.
func (b *bench) launch() error {
	for range b.spec.block.Measure.Launches - 1 {
		if err := b.graphs.again.Launch(b.stream); err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
	}
	return rank.Coded(result.ReasonDevice, b.graphs.last.Launch(b.stream))
}

// pipelined records the host time of one window divided by the number of its operations.
func (b *bench) pipelined(ctx context.Context, s *sample, operations int, run func() (Elapsed, error)) error {
	e, err := b.time(ctx, run)
	s.US = []float64{micros(e.Ended) / float64(operations)}
	s.Enqueue = micros(e.Enqueued) / float64(operations)
	return err
}

// time calls run, waits for the stream if run did not, and returns the elapsed time.
func (b *bench) time(ctx context.Context, run func() (Elapsed, error)) (Elapsed, error) {
	start := time.Now()
	e, err := run()
	if err != nil || e.Ended > 0 {
		return e, err
	}
	err = b.wait(ctx)
	e.Ended = time.Since(start)
	return e, err
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// blocking records the host time of each iteration.
func (b *bench) blocking(ctx context.Context, w window) (err error) {
	for i := range b.us {
		if b.us[i], err = b.block(ctx, w, i); err != nil {
			return err
		}
	}
	return nil
}

// waiting runs the operations of a window one by one, each with the wait of the case.
func (b *bench) waiting(ctx context.Context, w window) (Elapsed, error) {
	start := time.Now()
	for i := range b.us {
		if _, err := b.block(ctx, w, i); err != nil {
			return Elapsed{}, err
		}
	}
	return Elapsed{Ended: time.Since(start)}, nil
}

// oneByOne reports whether the host waits for each iteration of a window before the next one. barriers is the number
// of barriers per iteration.
func (s spec) oneByOne(mode string) (is bool, barriers int) {
	switch wait := s.block.Measure.Wait; {
	case mode == vocab.Blocking || mode == vocab.Pipelined && wait == vocab.WaitBarrier:
		return true, 1
	default:
		return mode == vocab.Pipelined && wait == vocab.WaitOperation, 0
	}
}

// block returns the host time of an operation of iteration i. In blocking mode, a barrier precedes it. In other modes, one
// follows it if the case says so. It rewrites fresh buffers before the barrier.
func (b *bench) block(ctx context.Context, w window, i int) (us float64, err error) {
	m := b.spec.block.Measure.Aggregate
	if vocab.InputWritten(b.spec.block.Buffers) {
		if err := b.renew(w, i*m, (i+1)*m); err != nil {
			return 0, err
		}
	}
	if w.Mode == vocab.Blocking {
		if err := b.sync(ctx); err != nil {
			return 0, err
		}
	}
	e, err := b.time(ctx, func() (Elapsed, error) { return b.backend.Comm.Time(b.stream, b.calls[i*m:(i+1)*m], m) })
	if err == nil && w.Mode == vocab.Pipelined && b.spec.block.Measure.Wait == vocab.WaitBarrier {
		err = b.sync(ctx)
	}
	return micros(e.Ended) / float64(m), err
}

// perIteration records the time between two events around each iteration.
func (b *bench) perIteration(ctx context.Context) error {
	m := b.spec.block.Measure.Aggregate
	for i := range b.us {
		if err := b.enqueueTimed(i, b.calls[i*m:(i+1)*m]); err != nil {
			return err
		}
	}
	if err := b.wait(ctx); err != nil {
		return err
	}
	for i := range b.us {
		us, err := b.backend.Device.Elapsed(b.starts[i], b.ends[i])
		if err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
		b.us[i] = us / float64(m)
	}
	return nil
}

// enqueueTimed enqueues operations between the events of iteration i.
func (b *bench) enqueueTimed(i int, calls []Call) error {
	if err := b.stream.Record(b.starts[i]); err != nil {
		return rank.Coded(result.ReasonDevice, err)
	}
	if err := b.backend.Comm.Enqueue(b.stream, calls, b.spec.block.Measure.Aggregate); err != nil {
		return err
	}
	return rank.Coded(result.ReasonDevice, b.stream.Record(b.ends[i]))
}

// enqueue runs operations to completion.
func (b *bench) enqueue(ctx context.Context, calls []Call) error {
	if err := b.backend.Comm.Enqueue(b.stream, calls, 1); err != nil {
		return err
	}
	return b.wait(ctx)
}

func (b *bench) close() error {
	b.pins.Unpin()
	err := b.events.Close()
	if b.meet != nil {
		err = errors.Join(err, b.meet.Close())
	}
	return errors.Join(err, b.memory.Close())
}
