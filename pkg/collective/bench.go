package collective

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
)

// bench measures one case on one rank. Everything the windows need is made
// before the first of them.
type bench struct {
	Parts
	spec
	session *rank.Session
	ladder  ladder
	stream  accel.Stream

	memory  Memory
	flushAt accel.Ptr
	syncAt  accel.Ptr
	starts  []accel.Event
	ends    []accel.Event
	us      []float64

	// Of the rung at hand.
	rung  rung
	calls []Call
	graph accel.Graph // nil without graph mode
}

// The untimed operation that brings the ranks together right before a window:
// an all_reduce of four floats, which every library has.
const (
	syncCount = 4
	syncBytes = 2 * slotAlign
)

func (b *bench) run(ctx context.Context) error {
	for _, r := range b.ladder.rungs {
		runtime.GC()
		if err := b.climb(ctx, r); err != nil {
			return fmt.Errorf("%s, %d bytes %s: %w", b.op, r.Requested, r.Placement, err)
		}
	}
	return nil
}

// climb measures one rung.
func (b *bench) climb(ctx context.Context, r rung) (err error) {
	b.rung = r
	for i := range b.calls {
		send, recv := b.buffers(r.slot(i, len(b.calls)))
		b.calls[i] = b.call(b.session.Rank)
		b.calls[i].Count, b.calls[i].Send, b.calls[i].Recv = r.Count, send, recv
	}
	if slices.Contains(b.ladder.modes, Graph) {
		if err := b.capture(ctx); err != nil {
			return err
		}
		defer func() {
			err = errors.Join(err, b.graph.Close())
			b.graph = nil
		}()
	}
	for trial := range b.Measure.Trials {
		for _, mode := range b.ladder.modes {
			w := window{Requested: r.Requested, Placement: r.Placement, Mode: mode, Trial: trial}
			us, err := b.measure(ctx, w)
			if err != nil {
				return fmt.Errorf("%s trial %d: %w", mode, trial, err)
			}
			if err := b.injure(w); err != nil {
				return err
			}
			verdict, err := b.check(w)
			if err != nil {
				return err
			}
			if err := b.session.Emit(kindSample, sample{window: w, US: us, Check: &verdict}); err != nil {
				return err
			}
		}
	}
	return nil
}

// buffers returns the addresses of a slot as the operation takes them.
func (b *bench) buffers(slot int) (send, recv accel.Ptr) {
	base := b.memory.Ptr().Add(int64(slot) * b.rung.stride)
	if b.rung.Placement == OutOfPlace {
		return base, base.Add(b.rung.recvAt)
	}
	sendAt, recvAt := b.op.InPlaceOffsets(b.rung.Count, b.session.Rank)
	size := int64(b.dtype.Size())
	return base.Add(sendAt * size), base.Add(recvAt * size)
}

// capture makes the graph of a window, after operations outside of it: a
// library sets up what it needs at its first.
func (b *bench) capture(ctx context.Context) error {
	if err := b.enqueue(ctx, b.calls[:1]); err != nil {
		return err
	}
	if err := b.stream.BeginCapture(); err != nil {
		return coded(result.ReasonDevice, err)
	}
	enqueued := b.Comm.Enqueue(b.stream, b.calls)
	graph, err := b.stream.EndCapture()
	if enqueued != nil {
		return enqueued
	}
	b.graph = graph
	return coded(result.ReasonDevice, err)
}

// measure times one window and returns its samples. The buffers are filled
// after the warm-up and before the window, so that no result of the warm-up is
// left in them.
func (b *bench) measure(ctx context.Context, w window) ([]float64, error) {
	if err := b.warmUp(ctx, w.Mode); err != nil {
		return nil, err
	}
	for slot := range b.rung.Slots {
		if err := b.fill(w, slot); err != nil {
			return nil, err
		}
	}
	if b.ladder.flush > 0 {
		if err := b.Device.Set(b.stream, b.flushAt, byte(w.Trial), b.ladder.flush); err != nil {
			return nil, coded(result.ReasonDevice, err)
		}
	}
	if err := b.sync(ctx); err != nil {
		return nil, err
	}
	switch w.Mode {
	case PerIteration:
		return b.perIteration(ctx)
	case Graph:
		return b.pipelined(ctx, func() error { return coded(result.ReasonDevice, b.graph.Launch(b.stream)) })
	default:
		return b.pipelined(ctx, func() error { return b.Comm.Enqueue(b.stream, b.calls) })
	}
}

// warmUp runs untimed operations; a graph is launched once, which also uploads it.
func (b *bench) warmUp(ctx context.Context, mode string) error {
	if mode == Graph {
		if err := b.graph.Launch(b.stream); err != nil {
			return coded(result.ReasonDevice, err)
		}
		return b.wait(ctx)
	}
	for left := b.Measure.Warmup; left > 0; left -= len(b.calls) {
		if err := b.enqueue(ctx, b.calls[:min(left, len(b.calls))]); err != nil {
			return err
		}
	}
	return nil
}

// fill gives a slot the data of window w: first the poison, then the input,
// which in place is part of the same buffer.
func (b *bench) fill(w window, slot int) error {
	p, err := b.pattern(w.Requested, w.Placement, w.Mode, w.Trial, slot)
	if err != nil {
		return refused(err)
	}
	send, recv := b.buffers(slot)
	in := b.op.Inputs(b.rung.Extent, b.session.Rank, b.Root)
	covered := b.rung.Placement == InPlace && len(in) > 0 && in[0].Count >= b.rung.Recv
	if !covered {
		if err := b.Data.Poison(b.stream, p, recv, b.outputs()); err != nil {
			return coded(result.ReasonDevice, err)
		}
	}
	return coded(result.ReasonDevice, b.Data.Fill(b.stream, p, send, in))
}

func (b *bench) outputs() []workload.Region {
	return b.op.Outputs(b.rung.Extent, b.session.Rank, b.World, b.Root)
}

// sync brings the ranks together: it returns on all of them at nearly the same
// time, as no store could.
func (b *bench) sync(ctx context.Context) error {
	return b.enqueue(ctx, []Call{{
		Op: AllReduce, RedOp: workload.Sum, Type: numeric.Float, Count: syncCount,
		Send: b.syncAt, Recv: b.syncAt.Add(slotAlign),
	}})
}

// pipelined is host time around one window, divided by its operations.
func (b *bench) pipelined(ctx context.Context, launch func() error) ([]float64, error) {
	start := time.Now()
	if err := launch(); err != nil {
		return nil, err
	}
	if err := b.wait(ctx); err != nil {
		return nil, err
	}
	elapsed := time.Since(start)
	return []float64{float64(elapsed) / float64(time.Microsecond) / float64(len(b.calls))}, nil
}

// perIteration is an event pair around each operation.
func (b *bench) perIteration(ctx context.Context) ([]float64, error) {
	for i := range b.calls {
		if err := b.stream.Record(b.starts[i]); err != nil {
			return nil, coded(result.ReasonDevice, err)
		}
		if err := b.Comm.Enqueue(b.stream, b.calls[i:i+1]); err != nil {
			return nil, err
		}
		if err := b.stream.Record(b.ends[i]); err != nil {
			return nil, coded(result.ReasonDevice, err)
		}
	}
	if err := b.wait(ctx); err != nil {
		return nil, err
	}
	for i := range b.us {
		var err error
		if b.us[i], err = b.Device.Elapsed(b.starts[i], b.ends[i]); err != nil {
			return nil, coded(result.ReasonDevice, err)
		}
	}
	return b.us, nil
}

// enqueue runs operations to their end.
func (b *bench) enqueue(ctx context.Context, calls []Call) error {
	if err := b.Comm.Enqueue(b.stream, calls); err != nil {
		return err
	}
	return b.wait(ctx)
}

// check compares every buffer of the window that holds the result of one
// operation on untouched input.
func (b *bench) check(w window) (workload.Verdict, error) {
	total := workload.Verdict{First: -1}
	regions := b.outputs()
	if len(regions) == 0 {
		return total, nil
	}
	for _, slot := range b.rung.checked(len(b.calls)) {
		p, err := b.pattern(w.Requested, w.Placement, w.Mode, w.Trial, slot)
		if err != nil {
			return total, refused(err)
		}
		_, recv := b.buffers(slot)
		v, err := b.Data.Check(b.stream, p, recv, regions)
		if err != nil {
			return total, coded(result.ReasonDevice, err)
		}
		if total.Wrong == 0 {
			total.First = v.First
		}
		total.Checked += v.Checked
		total.Wrong += v.Wrong
	}
	return total, nil
}

func (b *bench) close() error {
	var err error
	for _, e := range slices.Concat(b.starts, b.ends) {
		err = errors.Join(err, e.Close())
	}
	return errors.Join(err, b.memory.Close())
}
