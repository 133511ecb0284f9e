// Package runner measures schedules on a rank. It uses the runner of the collective family with a communicator that replaces the
// operation by a program of package schedule. Buffers, timing modes and checks are therefore the same.
package runner

import (
	"context"
	"errors"
	"slices"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/planfile"
	"github.com/collectivex/collectivex/pkg/steps"
)

// kindProgram is the kind of a record with a result.Program.
const kindProgram = "schedule-program"

// Runner measures cases of the family on a rank.
type Runner struct {
	*runner.Runner
	comm *comm
}

var _ rank.Runner = (*Runner)(nil)

// NewRunner returns a runner that uses the library l. It owns p and l, and does not use p.Comm. It does not support graphs.
func NewRunner(s *rank.Session, p runner.Parts, l Library) (*Runner, error) {
	c := &comm{Library: l, rank: s.Rank, world: s.World}
	p.Comm, p.Another = c, nil
	inner, err := runner.NewRunner(p)
	if err != nil {
		return nil, err
	}
	return &Runner{inner, c}, nil
}

// Run implements rank.Runner. It verifies the program of the case before anything runs.
func (r *Runner) Run(ctx context.Context, s *rank.Session, c plan.Case) error {
	b := steps.Of(&c)
	if b == nil {
		return rank.Refused("case of family %q, want %s", c.Family, steps.Name)
	}
	if s.World != c.World {
		return rank.Refused("this group has %d ranks, but the case requires %d", s.World, c.World)
	}
	p, about, err := programOf(ctx, s, r.comm.Steps(), b)
	if err != nil {
		return err
	}
	if err := r.load(ctx, s, c, p); err != nil {
		return err
	}
	if err := s.Emit(kindProgram, result.Program(*about)); err != nil {
		return errors.Join(err, r.comm.unload())
	}
	c.Family, c.Block = collective.Name, b.Measured()
	err = r.Runner.Run(ctx, s, c)
	if err == nil { // before this rank frees memory, its peers must have finished reading it
		err = s.Barrier(ctx, "schedule-over")
	}
	return errors.Join(err, r.comm.unload())
}

// programOf returns the verified program of a schedule as a library runs it, and its description.
func programOf(ctx context.Context, s *rank.Session, w Way, b *steps.Block) (program, *schedule.About, error) {
	p, err := read(ctx, s, b)
	if err != nil {
		return program{}, nil, err
	}
	about, err := schedule.Verified(ctx, p.Program)
	if err != nil {
		return program{}, nil, rank.Coded(result.ReasonRefused, err)
	}
	if w.Serial || !ordered(p.Program) {
		if p.Program, err = inRounds(ctx, p.Program); err != nil {
			return program{}, nil, rank.Refused("verify the program in rounds, as this library runs it: %w", err)
		}
	}
	return p, about, nil
}

// read returns the program of a schedule, from its plan or generated from its name and shape.
func read(ctx context.Context, s *rank.Session, b *steps.Block) (program, error) {
	if b.PlanFile == "" {
		p, err := schedule.Generate(b.Algorithm, schedule.Collective(b.Op), schedule.Shape{Ranks: s.World, Width: b.Width, Segments: b.Segments})
		return program{Program: p}, rank.Coded(result.ReasonRefused, err)
	}
	text, err := s.File(b.PlanSHA256)
	if err != nil {
		return program{}, rank.Refused("plan %s: %w: measure it with 'cxrun bench schedule', which reads the file", b.PlanFile, err)
	}
	file, err := planfile.Read(b.PlanFile, text)
	if err != nil {
		return program{}, rank.Coded(result.ReasonRefused, err)
	}
	if p := file.Program; p.Ranks != s.World || string(p.Collective) != b.Op {
		return program{}, rank.Refused("plan %s is for %s on %d ranks, but the case is for %s on %d", b.PlanFile, p.Collective, p.Ranks, b.Op, s.World)
	}
	if _, err := file.Verify(ctx); err != nil { // for each placement that the plan supports
		return program{}, rank.Coded(result.ReasonRefused, err)
	}
	return program{file.Program, true}, nil
}

// Instead returns a communicator that runs the steps of a schedule instead of the operation of a form, out of place on buffers of
// one extent. It also returns a description of the program, and a function that frees the steps after all ranks have run their last
// ones. The caller closes l. All ranks call Instead together, with a name that is new in the session.
func Instead(ctx context.Context, s *rank.Session, name string, l Library, b *schedule.Spec, f runner.Form, e runner.Extent) (runner.Comm, *schedule.About, func() error, error) {
	p, about, err := programOf(ctx, s, l.Steps(), &steps.Block{Op: b.Op, Algorithm: b.Algorithm, Width: b.Width, Segments: b.Segments})
	if err != nil {
		return nil, nil, nil, err
	}
	x := extent{count: e.Count}
	lowered, _, err := damage("").lower(p, f, s.Rank, x, l.Steps().Serial)
	if err != nil {
		return nil, nil, nil, rank.Coded(result.ReasonRefused, err)
	}
	// Ranks need different amounts of scratch memory, but some libraries need equal memory layouts.
	needs, err := rank.Gather(ctx, s, name, lowered.Scratch)
	if err != nil {
		return nil, nil, nil, err
	}
	c := &comm{Library: l, rank: s.Rank, world: s.World}
	if err := c.load(ctx, f.Op, f.Type, []extent{x}, []*Lowered{lowered}, slices.Max(needs)*int64(f.Type.Size())); err != nil {
		return nil, nil, nil, err
	}
	return c, about, c.unload, nil
}

// Rotation returns the steps of this rank for an in-place all_gather by schedule rotation, with count
// elements of each rank, and a description of the program. There is one list for each send and the
// receive at the same time, so that other work can follow each receive.
func Rotation(ctx context.Context, s *rank.Session, l Library, f runner.Form, count int64) ([]*Lowered, *schedule.About, error) {
	p, about, err := programOf(ctx, s, l.Steps(), &steps.Block{Op: f.Op.String(), Algorithm: "rotation"})
	if err != nil {
		return nil, nil, err
	}
	whole, _, err := damage("").lower(p, f, s.Rank, extent{count, true}, l.Steps().Serial)
	if err != nil {
		return nil, nil, rank.Coded(result.ReasonRefused, err)
	}
	var lists []*Lowered
	for _, node := range whole.Streams[0] { // peers differ between nodes, so all turns are 0
		lists = append(lists, &Lowered{Channels: whole.Channels, Streams: [][]Node{{{Steps: node.Steps}}}})
	}
	return lists, about, nil
}

// load loads the steps of all operations that the runner of the collective family enqueues.
func (r *Runner) load(ctx context.Context, s *rank.Session, c plan.Case, p program) error {
	op, err := runner.ParseOp(steps.Of(&c).Op)
	if err != nil {
		return rank.Coded(result.ReasonRefused, err)
	}
	t, err := numeric.ParseType(c.Precision)
	if err != nil {
		return rank.Coded(result.ReasonRefused, err)
	}
	f := runner.Form{Op: op, Type: t, World: c.World}
	var at []extent
	for _, bytes := range runner.Enqueued(steps.Of(&c).Sizes, t) {
		for _, inPlace := range []bool{false, true} {
			x := extent{f.Extent(bytes).Count, inPlace}
			if x.count > 0 && !slices.Contains(at, x) && (p.Input == 0 || !inPlace) {
				at = append(at, x)
			}
		}
	}
	damage, err := planted(s)
	if err != nil {
		return err
	}
	all := make([]*Lowered, len(at))
	effects, scratch := 0, int64(0)
	for i, x := range at {
		done := false
		if all[i], done, err = damage.lower(p, f, s.Rank, x, r.comm.Steps().Serial); err != nil {
			return rank.Coded(result.ReasonRefused, err)
		}
		if done {
			effects++
		}
		scratch = max(scratch, all[i].Scratch)
	}
	// Ranks need different amounts, but some libraries need equal memory layouts.
	needs, err := rank.Gather(ctx, s, "schedule-scratch", scratch)
	if err != nil {
		return err
	}
	if damage != "" && effects == 0 {
		return rank.RefusedFault(string(damage), "rank %d has no such step in any size", s.Rank)
	}
	return r.comm.load(ctx, op, t, at, all, slices.Max(needs)*int64(t.Size()))
}
