package runner

import (
	"cmp"
	"context"
	cryptorand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Runner measures cases of the family on a rank, through the parts of one backend.
type Runner struct {
	parts  Parts
	stream accel.Stream
}

var _ rank.Runner = (*Runner)(nil)

// NewRunner returns a runner that owns p.
func NewRunner(p Parts) (*Runner, error) {
	stream, err := p.Device.NewStream()
	if err != nil {
		return nil, rank.Coded(result.ReasonDevice, err)
	}
	return &Runner{parts: p, stream: stream}, nil
}

// Close implements rank.Runner.
func (r *Runner) Close() error {
	return errors.Join(r.stream.Close(), r.parts.Data.Close(), r.parts.Comm.Close(), r.parts.Device.Close())
}

// Run implements rank.Runner. It loops over trials, sizes, placements and timing modes of the case, in
// this nesting, and measures graphs last. It emits the record of a window after checking its buffers.
func (r *Runner) Run(ctx context.Context, s *rank.Session, c plan.Case) error {
	sp, err := parse(c)
	if err != nil {
		return err
	}
	sp = sp.seated(s.Rank)
	if s.World != c.World {
		return rank.Refused("this group has %d ranks, but the case requires %d", s.World, c.World)
	}
	if err := s.Emit(rank.KindFacts, r.parts.Facts); err != nil {
		return err
	}
	chosen := sp.block
	if len(chosen.Groups) > 0 { // they have communicators of their own
		chosen = new(collective.Block)
	}
	if err := cmp.Or(r.parts.Comm.Supports(sp.call(sp.seat)), choose(r.parts.Comm, sp.op, chosen)); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, r.parts.Comm.Abort)()
	agreed, err := r.agree(ctx, s, c)
	if err != nil {
		return err
	}
	l := sp.layOut(agreed)
	switch {
	case len(l.modes) == 0:
		return rank.Refused("the device supports none of the timing modes %v", sp.block.Modes)
	case len(l.rungs) == 0 && len(l.dropped) > 0:
		last := l.dropped[len(l.dropped)-1]
		return rank.Coded(last.Reason.Code, fmt.Errorf("no size can be measured (the last one, %d bytes: %s)", last.Bytes, last.Reason.Detail))
	case len(l.rungs) == 0:
		return rank.Refused("%s supports none of the placements %v", sp.op, sp.block.Placements)
	}

	if err := sp.checkFaults(s, l); err != nil {
		return err
	}

	leave, err := r.nullStream(sp)
	if err != nil {
		return err
	}
	defer leave()

	if len(sp.block.Groups) > 0 {
		return r.apart(ctx, s, sp, l)
	}
	return r.measure(ctx, s, s, sp, l)
}

// apart is measure on a communicator of this rank's group.
func (r *Runner) apart(ctx context.Context, s *rank.Session, sp spec, l ladder) error {
	group := s.Part(fmt.Sprintf("group-%d", sp.group), sp.seat, sp.World)
	of := *r
	of.parts.All = r.parts.Comm
	var err error
	if of.parts.Comm, err = r.open(ctx, group, sp); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, of.parts.Comm.Abort)()
	if err := of.measure(ctx, s, group.Part("graphs", sp.seat, sp.World), sp, l); err != nil {
		return err // see measure
	}
	return of.parts.Comm.Close()
}

// open opens another communicator of the ranks of a session, with the algorithm of the case.
func (r *Runner) open(ctx context.Context, s *rank.Session, sp spec) (Comm, error) {
	if r.parts.Another == nil {
		return nil, rank.Refused("the library has one communicator, of all ranks")
	}
	c, err := r.parts.Another(ctx, s)
	if err != nil {
		return nil, err
	}
	return c, choose(c, sp.op, sp.block)
}

// measure measures the rungs of a case. The ranks of group run its operations.
func (r *Runner) measure(ctx context.Context, s, group *rank.Session, sp spec, l ladder) error {
	// bench collects garbage between windows.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	direct := slices.DeleteFunc(slices.Clone(l.modes), func(mode string) bool { return mode == vocab.Graph })
	var fresh []float64
	var err error
	if len(direct) > 0 {
		if fresh, err = r.pass(ctx, s, sp, l, r.parts, direct, nil); err != nil {
			return err
		}
	}
	if err = r.inexact(ctx, s, sp, l); err != nil {
		return err
	}
	if len(direct) == len(l.modes) {
		return nil
	}
	parts := r.parts
	opened := ledger{device: parts.Device}
	if _, err := opened.took(); err != nil {
		return err
	}
	if parts.Comm, err = r.open(ctx, group, sp); err != nil {
		return err
	}
	if parts.CommBytes, err = opened.took(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, parts.Comm.Abort)()
	if _, err := r.pass(ctx, s, sp, l, parts, []string{vocab.Graph}, fresh); err != nil {
		return err // a failure ends the group, and closing a communicator may need all ranks
	}
	return parts.Comm.Close()
}

// inexact runs the operations whose results depend on their order.
func (r *Runner) inexact(ctx context.Context, s *rank.Session, sp spec, l ladder) error {
	if err := r.arithmetic(ctx, s, sp, l); err != nil {
		return err
	}
	return r.repeatable(ctx, s, sp, l)
}

// pass measures the given timing modes of the case. The first pass emits the setup. before has the result of the first
// pass for the second, and is nil for the first; see bench.fresh.
func (r *Runner) pass(ctx context.Context, s *rank.Session, sp spec, l ladder, p Parts, modes []string, before []float64) (fresh []float64, err error) {
	first := before == nil
	memory, taken := ledger{device: p.Device}, collective.Memory{Communicators: p.CommBytes}
	if _, err := memory.took(); err != nil {
		return nil, err
	}
	b, err := r.prepare(ctx, s, sp, l, p, modes)
	if err != nil {
		return nil, err
	}
	b.drawEnds(before)
	if taken.Buffers, err = memory.took(); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if first {
		if err := s.Emit(kindSetup, b.setup()); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	err = b.run(ctx)
	if err == nil && first {
		err = b.name(ctx)
	}
	if err == nil && !p.Device.Info().SharedHostMem {
		if taken.Operations, err = memory.took(); err == nil {
			err = s.Emit(kindMemory, taken)
		}
	}
	return b.fresh(), errors.Join(err, b.close())
}

// memoryShare is the fraction of the free device memory that buffers may take.
const memoryShare = 0.8

// agree returns limits that hold on every rank.
func (r *Runner) agree(ctx context.Context, s *rank.Session, c plan.Case) (limits, error) {
	free, _, err := r.parts.Device.Memory()
	if err != nil {
		return limits{}, rank.Coded(result.ReasonDevice, err)
	}
	info := r.parts.Device.Info()
	mine := limits{Bytes: int64(memoryShare * float64(free)), Cache: cmp.Or(info.L2Bytes, unknownCache)}
	mine.Untimed = mine.Bytes / untimedShare
	if info.SharedHostMem {
		mine.Untimed = untimedOnHost
		mine.Bytes /= int64(max(1, c.RanksPerNode))
	}
	mine.NoGraphs = r.parts.Another == nil
	if !mine.NoGraphs {
		if mine.NoGraphs, err = r.noGraphs(); err != nil {
			return limits{}, err
		}
	}
	var draw [8]byte
	_, _ = cryptorand.Read(draw[:]) // never fails
	mine.Draw = binary.NativeEndian.Uint64(draw[:])
	all, err := rank.Gather(ctx, s, "limits", mine)
	if err != nil {
		return limits{}, err
	}
	common := all[0]
	for _, other := range all[1:] {
		common = common.meet(other)
	}
	return common, nil
}

// noGraphs tries an empty capture and reports whether it is unsupported.
func (r *Runner) noGraphs() (bool, error) {
	err := r.stream.BeginCapture()
	if errors.Is(err, accel.ErrUnsupported) {
		return true, nil
	}
	if err != nil {
		return false, rank.Coded(result.ReasonDevice, err)
	}
	g, err := r.stream.EndCapture()
	if err != nil {
		return false, rank.Coded(result.ReasonDevice, err)
	}
	return false, rank.Coded(result.ReasonDevice, g.Close())
}

// prepare creates the bench of a pass, with all memory and events that its windows need.
func (r *Runner) prepare(ctx context.Context, s *rank.Session, sp spec, l ladder, p Parts, modes []string) (*bench, error) {
	b := &bench{backend: p, stream: r.stream, session: s, spec: sp, ladder: l, modes: modes, garbage: rank.NewGarbage(), events: accel.NewScope(r.parts.Device)}
	off := align(sp.unaligned())
	settleAt := l.bytes + off
	flushAt := settleAt + 2*l.settle + off
	syncAt := flushAt + l.flush
	memory, err := p.Comm.Alloc(ctx, syncAt+syncBytes, sp.block.Registration)
	if err != nil {
		return nil, err
	}
	b.memory = memory
	b.listExchanges()
	b.draw = rand.New(rand.NewPCG(l.draw, 0))
	b.settleAt, b.flushAt, b.syncAt = memory.Ptr().Add(settleAt), memory.Ptr().Add(flushAt), memory.Ptr().Add(syncAt)
	b.calls = make([]Call, sp.operations())
	b.settles = make([]Call, sp.block.Measure.Warmup)
	b.us = make([]float64, sp.block.Measure.Iterations)
	for range b.us {
		for _, events := range []*[]accel.Event{&b.starts, &b.ends} {
			e, err := b.events.NewEvent()
			if err != nil {
				return nil, errors.Join(rank.Coded(result.ReasonDevice, err), b.close())
			}
			*events = append(*events, e)
		}
	}
	// settle's results are not used, but its inputs must not be NaN.
	if flushAt > settleAt {
		if err := r.parts.Device.Set(r.stream, b.settleAt, 0, flushAt-settleAt); err != nil {
			return nil, errors.Join(rank.Coded(result.ReasonDevice, err), b.close())
		}
	}
	if sp.Nodes == 1 {
		if b.meet, err = rendezvous.OpenSpin(ctx, s.Store, s.Scope+"/meet-"+modes[0], s.Rank, s.World); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	return b, nil
}

func (b *bench) setup() setup {
	out := setup{
		Path: b.backend.Comm.Path(b.spec.op), CheckedBy: b.backend.Data.CheckedBy(), Registered: b.memory.Registered(),
		Tolerance: b.spec.data.ToleranceULP(),
		Modes:     b.ladder.modes, Dropped: b.ladder.dropped, Excluded: b.ladder.excluded,
	}
	for _, r := range b.ladder.rungs {
		record := rungRecord{
			Requested: r.Requested, Bytes: r.Bytes, Count: r.Count, Placement: r.Placement, Pair: r.Pair, Slots: r.Slots,
			Checks: b.compared(r, b.spec.marks(r)), Untimed: b.comparedUntimed(r), Truncated: r.truncated,
		}
		if b.counts(r) {
			record.Checks, record.Untimed = record.Checks+int64(b.spec.operations()), record.Untimed+int64(r.untimed)
		}
		out.Rungs = append(out.Rungs, record)
	}
	return out
}
