package bench

import (
	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/schedule"
)

// ScheduleFlags are the flags of a measurement of a schedule, as they were given: those of a
// collective, and the shape of the program.
type ScheduleFlags struct {
	*Flags
	width, segments int
}

// NewScheduleFlags adds the flags to fs and returns them, with the groups in which help shows
// them.
func NewScheduleFlags(fs *pflag.FlagSet) (*ScheduleFlags, []Group) {
	shape := newGroup("The schedule")
	f := &ScheduleFlags{}
	shape.Flags.IntVar(&f.width, "width", 0, "put `N` ranks in a row of a grid, or in a node of a hierarchy; default: all")
	shape.Flags.IntVar(&f.segments, "segments", 0, "pipeline each half of a tree's vector in `N` pieces; default: 8")
	fs.AddFlagSet(shape.Flags)
	flags, groups := NewFlags(fs)
	f.Flags = flags
	return f, append([]Group{shape}, groups...)
}

// Request reads the flags for a schedule of a collective. Its errors end the program with
// cli.ExitUsage.
func (f *ScheduleFlags) Request(op, algorithm string) (Request, error) {
	if _, err := schedule.Find(algorithm, schedule.Collective(op)); err != nil {
		return Request{}, cli.UsageError("%w", err)
	}
	for _, r := range []struct {
		is  bool
		why string
	}{
		{f.width < 0 || f.segments < 0, "--width and --segments: want at least 1"},
		{f.redop != "sum", "-o: a schedule adds: want sum"},
		{f.aggregate != 1, "-m: a schedule has no group calls of several operations: want 1"},
		{f.launches != 0, "-G: a schedule is not captured in graphs: want 0"},
		{f.registration != 0, "-R: a schedule registers no buffers: want 0"},
		{f.unalign != 0, "-u: a schedule runs on aligned buffers: want 0"},
	} {
		if r.is {
			return Request{}, cli.UsageError("%s", r.why)
		}
	}
	r, err := f.Flags.Request(op)
	r.schedule = &plan.Schedule{Algorithm: algorithm, Width: f.width, Segments: f.segments}
	return r, err
}

// Name is what the request measures: an operation, or one by a schedule.
func (r *Request) Name() string {
	if r.schedule == nil {
		return r.shape.Op
	}
	return r.shape.Op + "/" + r.schedule.Algorithm
}

// Family is the family of the cases of the request.
func (r *Request) Family() plan.Family {
	if r.schedule == nil {
		return plan.FamilyCollective
	}
	return plan.FamilySchedule
}

// block is the block of a case, of the request's family.
func (r *Request) block(c plan.Collective) plan.Block {
	if r.schedule == nil {
		return &c
	}
	s := *r.schedule
	s.Op, s.RedOp, s.Sizes, s.Placements = c.Op, c.RedOp, c.Sizes, c.Placements
	s.Modes, s.Buffers, s.Measure = c.Modes, c.Buffers, c.Measure
	return &s
}

// Collective returns a document as the columns show it, or false for one that no request has.
func Collective(d result.Document) (*result.CollectiveDocument, bool) {
	if s, ok := d.(*result.ScheduleDocument); ok {
		return s.Collective(), true
	}
	c, ok := d.(*result.CollectiveDocument)
	return c, ok
}
