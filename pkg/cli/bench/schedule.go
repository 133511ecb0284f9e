package bench

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/english"
	"github.com/collectivex/collectivex/pkg/foreign"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// ScheduleFlags are the flags of a measurement of a schedule, as they were given: those of a
// collective, and the shape of the program.
type ScheduleFlags struct {
	*Flags
	width, segments int
}

// What help says of the shape of a schedule, in every command that takes it.
const (
	WidthUsage    = "put `N` ranks in a row of a grid, or in a node of a hierarchy; 0 is all"
	SegmentsUsage = "pipeline each half of a tree's vector in `N` pieces; 0 is 8"
)

// NewScheduleFlags adds the flags to fs and returns them, with the groups in which help shows
// them.
func NewScheduleFlags(fs *pflag.FlagSet) (*ScheduleFlags, []Group) {
	shape := NewGroup("The schedule")
	f := &ScheduleFlags{}
	shape.Flags.IntVar(&f.width, "width", 0, WidthUsage)
	shape.Flags.IntVar(&f.segments, "segments", 0, SegmentsUsage)
	fs.AddFlagSet(shape.Flags)
	flags, groups := NewFlags(fs)
	f.Flags = flags
	for name, usage := range scheduleUsage {
		fs.Lookup(name).Usage = usage
	}
	for _, name := range []string{"traffic", "model"} { // of other operations
		fs.Lookup(name).Hidden = true
	}
	return f, append([]Group{shape}, groups...)
}

// scheduleUsage is what a schedule makes of flags of a collective.
var scheduleUsage = map[string]string{
	"backend":        "use backend `NAME`: auto, host, nccl, rccl or ipc (copies between the GPUs of a host); auto uses the library of the GPUs, or host on a machine without GPUs",
	"op":             "only `sum`: a schedule adds",
	"root":           "accepted without effect, whatever `RANK` is: these collectives have no root",
	"local_register": "only `0`: a schedule registers no buffers",
	"unalign":        "only `0`: a schedule runs on aligned buffers",
	"agg_iters":      "only `1`: a schedule has no group calls of several operations",
	"cudagraph":      "only `0`: a schedule is not captured in graphs",
}

// Request reads the flags for a schedule of a collective. Its errors end the program with
// cli.ExitUsage.
func (f *ScheduleFlags) Request(op, algorithm string) (Request, error) {
	of := schedule.Collective(op)
	_, err := schedule.Find(algorithm, of)
	if err == nil {
		err = schedule.Unused(of, []string{algorithm}, schedule.Shape{Width: f.width, Segments: f.segments})
	}
	if err != nil {
		return Request{}, cli.UsageError("%w", err)
	}
	r, err := f.steps(op)
	r.schedule = &plan.Schedule{Algorithm: algorithm, Width: f.width, Segments: f.segments}
	return r, err
}

// mostName is the length of the name of a plan's file, in bytes: ids of cases, which name files,
// have it.
const mostName = 64

// PlanRequest reads the flags for the plan in a file, with its content and its program. Errors are
// as those of Request.
func (f *ScheduleFlags) PlanRequest(file string, content []byte, p *schedule.Program) (Request, error) {
	name := filepath.Base(file)
	if f.set("width") || f.set("segments") {
		return Request{}, cli.UsageError("--width and --segments are for schedules that are known by name; the plan in %s has its own shape", file)
	}
	if len(name) > mostName || foreign.Line(name) != name {
		return Request{}, cli.UsageError("the name of plan %s stands in documents: take one of at most %d printable characters", foreign.Line(file), mostName)
	}
	r, err := f.steps(string(p.Collective))
	if err != nil {
		return r, err
	}
	if r.World != 0 && r.World != p.Ranks {
		return r, cli.UsageError("%s is a plan of %s, and -t times -g is %d: leave them out, or make it as many", file, english.Count(p.Ranks, "rank", "ranks"), r.World)
	}
	r.World = p.Ranks
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	r.schedule = &plan.Schedule{Algorithm: name, PlanFile: name, PlanSHA256: digest}
	r.Files, r.program = map[string][]byte{digest: content}, p
	if p.Input > 0 { // out of place
		r.shape.Placements = []string{vocab.OutOfPlace}
	}
	return r, nil
}

// steps reads the flags of a collective by steps.
func (f *ScheduleFlags) steps(op string) (Request, error) {
	for _, r := range []struct {
		is  bool
		why string
	}{
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
	return f.Flags.Request(op)
}

// divides refuses a size that does not divide into the chunks of the plan, which have to be of the
// same size.
func (r *Request) divides(dtype string) error {
	t, err := numeric.ParseType(dtype)
	if err != nil {
		return err
	}
	f := collective.Form{Op: r.Op, Type: t, World: r.World}
	chunks, unit := int64(r.program.Chunks), int64(r.program.Chunks)*int64(t.Size())
	if r.Op != collective.AllReduce {
		chunks /= int64(r.World)
		for unit%(16*int64(r.World)) != 0 { // parts of ranks are multiples of 16 bytes
			unit *= 2
		}
	}
	for _, size := range r.shape.Sizes {
		if count := f.Extent(size).Count; count%chunks != 0 {
			return cli.UsageError("%s: %d bytes do not divide into its %d chunks of whole elements of %s: choose multiples of %d bytes with -b, -e and -i or -f",
				r.schedule.PlanFile, size, r.program.Chunks, dtype, unit)
		}
	}
	return nil
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
