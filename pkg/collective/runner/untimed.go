package runner

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Limits of the untimed window, which checks operations of a rung in full, each with data of its own.
// The limit in bytes is lower on a host: a device fills and checks at the speed of its memory, but a
// host takes longer for that than for the operation itself.
const (
	untimedShare  = 32       // a device's limit is 1/untimedShare of the memory that buffers may take
	untimedOnHost = 16 << 20 // bytes
	// batchBytes is the minimum memory of buffers for the untimed window.
	batchBytes = 16 << 20
)

// checks returns the requested number of operations that the untimed window of a size checks.
func (s spec) checks() int { return cmp.Or(s.block.Measure.Checks, collective.DefaultChecks) }

// untimed returns the number of operations that the untimed window of r checks. limit is their maximum
// total size in bytes, unless the case requests a number. The pairs of a pairwise operation share it.
func (s spec) untimed(r rung, limit int64) int {
	count := max(collective.MinChecks, s.checks()/len(s.op.Pairs(s.World)))
	if s.block.Measure.Checks > 0 {
		return count
	}
	return int(min(max(limit/max(1, r.Bytes), collective.MinChecks), int64(count)))
}

// apart returns r with a slot for each operation that the untimed window enqueues at a time. bytes is
// the memory for the slots. The number of slots is a multiple of the group call if one fits.
func (s spec) apart(r rung, bytes int64) rung {
	size := int64(s.dtype.Size())
	r.rounds, r.recvAt, r.stride = 1, 0, align(r.Bytes)
	if r.Placement == vocab.OutOfPlace {
		r.recvAt = align(r.Send * size)
		r.stride = r.recvAt + align(r.Recv*size+(s.shares(1)-1)*markBytes)
	}
	r.recvStride = r.stride
	r.Slots = int(max(1, min(bytes/max(1, r.stride), int64(r.untimed))))
	if group := s.block.Measure.Aggregate; r.Slots > group {
		r.Slots -= r.Slots % group
	}
	return r
}

// apartBytes returns the bytes for one slot per operation of the untimed window.
func (s spec) apartBytes(r rung) int64 {
	return int64(r.untimed) * s.apart(r, 0).stride
}

// each returns the marks of n operations that have one slot each.
func each(n int) []mark {
	marks := make([]mark, n)
	for i := range marks {
		marks[i] = mark{place{slot: i}, true}
	}
	return marks
}

// checkAll runs the untimed window of the current rung in batches of as many operations as there are
// slots. The operations run through the same calls as in the timed windows of mode. Each has data of
// its own and is checked in full.
func (b *bench) checkAll(ctx context.Context, mode string) error {
	w := b.named(mode, b.spec.block.Measure.Trials)
	s := sample{Sample: collective.Sample{Window: w}, Entry: rank.Enter(time.Time{}), Check: &workload.Verdict{First: -1}}
	if b.idle() {
		return b.session.Emit(collective.KindSample, s)
	}
	timed := b.rung
	defer func() { b.rung = timed }()
	for left := timed.untimed; left > 0; left -= b.rung.Slots {
		b.rung = b.spec.apart(timed, b.ladder.bytes)
		b.rung.Slots = min(b.rung.Slots, left)
		calls := make([]Call, b.rung.Slots)
		for i := range calls {
			calls[i] = b.slotCall(place{slot: i})
		}
		if err := b.fillAll(w); err != nil {
			return err
		}
		before, err := b.arrived()
		if err != nil {
			return err
		}
		if err := b.operate(ctx, mode, calls); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil { // see window
			return err
		}
		v, err := b.check(w, each(len(calls)))
		if err == nil {
			err = b.count(&v, before, len(calls), len(calls))
		}
		if err != nil {
			return err
		}
		s.Check.Add(v)
		w.Trial++ // the next batch has new data
	}
	return b.session.Emit(collective.KindSample, s)
}

// operate runs calls once in the given mode, and waits for them.
func (b *bench) operate(ctx context.Context, mode string, calls []Call) error {
	enqueue := func() error { return b.backend.Comm.Enqueue(b.stream, calls, b.spec.block.Measure.Aggregate) }
	if mode != vocab.Graph {
		if err := enqueue(); err != nil {
			return err
		}
		return b.wait(ctx)
	}
	graph, err := b.captured(enqueue)
	if err != nil {
		return err
	}
	if err := rank.Coded(result.ReasonDevice, graph.Launch(b.stream)); err != nil {
		return errors.Join(err, graph.Close())
	}
	return errors.Join(b.wait(ctx), graph.Close())
}

// comparedUntimed returns the number of elements that checkAll compares.
func (b *bench) comparedUntimed(r rung) int64 {
	return int64(r.untimed) * b.compared(b.spec.apart(r, 0), each(1))
}

// untimedMode returns the mode of the untimed window of a pass: its first one. A case has a pass for the
// modes that enqueue and one for graphs.
func untimedMode(modes []string) string { return modes[0] }

// untimedModes returns the modes of a case that have an untimed window: the first mode without graphs,
// and graph mode.
func untimedModes(modes []string) []string {
	var out []string
	if i := slices.IndexFunc(modes, func(mode string) bool { return mode != vocab.Graph }); i >= 0 {
		out = append(out, modes[i])
	}
	if slices.Contains(modes, vocab.Graph) {
		out = append(out, vocab.Graph)
	}
	return out
}
