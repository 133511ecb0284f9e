package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/collectivex/collectivex/pkg/accel"
	collective "github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
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
	return &Runner{p, stream}, nil
}

// Close implements rank.Runner.
func (r *Runner) Close() error {
	p := r.parts
	return errors.Join(p.Streams.Close(), r.stream.Close(), p.Matrix.Close(), p.Data.Close(), p.Comm.Close(), p.Device.Close())
}

// bench measures one case on one rank.
type bench struct {
	Parts
	session *rank.Session
	planned *plan.Case
	block   *overlap.Block
	op      collective.Op
	redop   workload.RedOp
	dtype   numeric.Type
	size    int64        // bytes of an element
	stream  accel.Stream // for fills and checks
	meet    *rendezvous.Spin
	engine  Multiplier
}

// parse returns the operation, reduction and element type of a case.
func parse(c *plan.Case) (collective.Op, workload.RedOp, numeric.Type, error) {
	b := overlap.Of(c)
	op, badOp := collective.ParseOp(b.Op)
	redop, badRedOp := workload.ParseRedOp(b.RedOp)
	t, badType := numeric.ParseType(c.Precision)
	return op, redop, t, errors.Join(badOp, badRedOp, badType)
}

// Run implements rank.Runner. It measures size by size, and in each iteration all contenders in turns.
func (r *Runner) Run(ctx context.Context, s *rank.Session, c plan.Case) error {
	block := overlap.Of(&c)
	if block == nil || s.World != c.World || s.World < 2 || c.Nodes != 1 {
		return rank.Refused("family %s with %d ranks on %d nodes, in a group of %d ranks: want an overlap case with the ranks of the group, at least 2, on one node", c.Family, c.World, c.Nodes, s.World)
	}
	b := &bench{Parts: r.parts, session: s, planned: &c, block: block, stream: r.stream}
	var err error
	if b.op, b.redop, b.dtype, err = parse(&c); err != nil {
		return rank.Coded(result.ReasonRefused, err)
	}
	b.size = int64(b.dtype.Size())
	if b.engine, err = r.multiplier(b); err != nil {
		return errors.Join(s.Emit(rank.KindFacts, r.parts.Facts), err)
	}
	return errors.Join(r.run(ctx, b), b.engine.Close())
}

// run measures a case.
func (r *Runner) run(ctx context.Context, b *bench) (err error) {
	s := b.session
	facts := r.parts.Facts
	if b.engine.Library.Kind != "" {
		facts.Beside = append(facts.Beside, b.engine.Library)
	}
	if err := s.Emit(rank.KindFacts, facts); err != nil {
		return err
	}
	if err := s.RefuseIdle(b.planned, Measurer.Idle); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, b.Comm.Abort)()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // no garbage collection during windows
	if b.meet, err = rendezvous.OpenSpin(ctx, s.Store, s.Scope+"/meet", s.Rank, s.World); err != nil {
		return err
	}
	for i, asked := range overlap.Asked(b.planned) {
		if err := b.measureSize(ctx, i, asked); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", asked.Name(), err), b.meet.Close())
		}
	}
	return b.meet.Close()
}

// measureSize measures one size.
func (b *bench) measureSize(ctx context.Context, number int, asked overlap.Row) error {
	r, err := newRow(ctx, b, number, asked)
	if err != nil {
		return err
	}
	if number == 0 {
		err = b.session.Emit(kindSetup, setup{Compute: r.engine.Compute, Path: r.exchange.path(), CheckedBy: b.Matrix.CheckedBy(), SharedProcessor: b.Streams.SharedProcessor(), Program: (*result.Program)(r.exchange.program())})
	}
	if err == nil {
		err = r.run(ctx)
	}
	if err == nil { // before this rank frees memory, its peers must have finished reading it
		err = b.meet.Wait(ctx)
	}
	return errors.Join(err, r.close())
}

// run measures the row.
func (r *row) run(ctx context.Context) error {
	contenders := overlap.Contenders(r.block.Form)
	if err := r.warm(ctx, contenders); err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	return r.session.Trials(ctx, trialsOf(r.number), r.block.Timing.Iterations, func(trial rank.Trial) error {
		for _, contender := range measure.Rotate(contenders, trial.Number) {
			t := turn{r.number, trial.Number, contender, trial.Repeat}
			s, err := r.measure(ctx, t)
			if err == nil {
				err = r.check(t, &s)
			}
			if err == nil {
				err = r.session.Emit(kindSample, s)
			}
			if err != nil {
				return fmt.Errorf("%s, iteration %d: %w", contender, trial.Number, err)
			}
		}
		return nil
	})
}

// trialsOf returns the name of the iterations of a row for rank.Session.Trials.
func trialsOf(row int) string { return fmt.Sprintf("iterations-%d", row) }

// warm runs each contender once without a gate, since libraries connect and load code at the first
// operation of a kind. Then it runs untimed windows.
func (r *row) warm(ctx context.Context, contenders []string) error {
	for _, contender := range contenders {
		t := turn{Row: r.number, Iteration: -1, Contender: contender}
		if err := r.prepare(t); err != nil {
			return err
		}
		if err := r.settle(ctx); err != nil {
			return err
		}
		w := r.window(contender)
		for _, side := range [][]Task{w.Communication, w.Compute} {
			for _, task := range side {
				if err := task.Enqueue(r.stream); err != nil {
					return err
				}
			}
		}
		if err := r.settle(ctx); err != nil {
			return err
		}
		for range r.block.Timing.Warmup {
			if _, err := r.measure(ctx, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle waits for the stream and for all ranks.
func (r *row) settle(ctx context.Context) error {
	if err := collective.Wait(ctx, r.Comm, r.stream); err != nil {
		return err
	}
	return r.meet.Wait(ctx)
}

// measure times one window.
func (r *row) measure(ctx context.Context, t turn) (sample, error) {
	s := sample{turn: t}
	if err := r.prepare(t); err != nil {
		return s, err
	}
	if err := collective.Wait(ctx, r.Comm, r.stream); err != nil {
		return s, err
	}
	times, err := r.Streams.Run(ctx, r.window(t.Contender), r.meet.Wait)
	if err != nil {
		return s, err
	}
	// The end of ctx aborts running operations, which leaves undefined contents in the buffers.
	if err := ctx.Err(); err != nil {
		return s, err
	}
	s.Compute, s.Communication = last(times.Compute), last(times.Communication)
	s.US = max(s.Compute, s.Communication)
	s.ComputeCovered, s.CommunicationCovered = active(times.Communication, s.Compute), active(times.Compute, s.Communication)
	s.Entry = rank.Entry{Began: times.Opened.UTC()}
	return s, r.meet.Wait(ctx) // before this rank changes its buffers, its peers must have finished reading them
}
