// Package bench is `cxrun bench schedule`: a collective by the steps of a schedule, with the flags, columns and JSON
// of `cxrun bench OP`.
package bench

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
	collectives "github.com/collectivex/collectivex/pkg/collective/bench"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sanitize"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/steps"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Command is `cxrun bench schedule`.
var Command = bench.Command{
	Family: steps.Name,
	Use:    "schedule (FILE | COLLECTIVE NAME)",
	Short:  "Measure a collective by the steps of a schedule, with nccl-tests' flags",
	Long: `Measure a collective by the steps of a schedule, between the ranks of this machine.
'cxrun schedule show' prints the steps; 'cxrun schedule list' lists the schedules. Flags,
columns, checks and exit codes are the same as in 'cxrun bench'.

FILE is a plan file of MSCCL or MSCCL++. It is verified first, for each placement that it
supports; findings begin with the file, line and column of the op. The plan determines the
number of ranks, and sizes must divide into its chunks.`,
	Example: `  cxrun bench schedule all_reduce ring --backend host -b 1K -e 1M -f 32
  cxrun bench schedule all_gather rotation --backend nccl -g 2 -b 64K -e 256M -f 4
  cxrun bench schedule all_gather hierarchical_sliced --width 2 --backend host -t 4 -b 1M -e 1M
  cxrun bench schedule ring.xml --backend nccl -b 96K -e 96M -f 8`,
	Values: map[string][]string{"datatype": append(vocab.DTypes(), catalog.All), "buffers": collectives.Buffers()},
	Flags: func(fs *pflag.FlagSet) (bench.Measurement, []bench.Group) {
		f, groups := NewFlags(fs)
		return f, groups
	},
}

// Flags holds the flags of a schedule measurement: the flags of a collective, and the shape of the program.
type Flags struct {
	*collectives.Flags
	// Read returns the content and the program of a plan file. The caller must set it before Ranks.
	Read func(file string) ([]byte, *schedule.Program, error)

	given           *pflag.FlagSet
	width, segments int
}

// Help on the shape of a schedule, for every command that has these flags.
const (
	WidthUsage    = "put `N` ranks in a row of a grid, or in a node of a hierarchy; 0 is all"
	SegmentsUsage = "pipeline each half of a tree's vector in `N` pieces; 0 is 8"
)

// NewFlags adds the flags to fs and returns them, with the groups in which help shows
// them.
func NewFlags(fs *pflag.FlagSet) (*Flags, []bench.Group) {
	shape := bench.NewGroup("The schedule")
	f := &Flags{given: fs}
	shape.Flags.IntVar(&f.width, "width", 0, WidthUsage)
	shape.Flags.IntVar(&f.segments, "segments", 0, SegmentsUsage)
	fs.AddFlagSet(shape.Flags)
	flags, groups := collectives.NewFlags(fs)
	f.Flags = flags
	for name, usage := range usage {
		fs.Lookup(name).Usage = usage
	}
	for _, name := range []string{"traffic", "model", "algo"} { // not for schedules
		fs.Lookup(name).Hidden = true
	}
	return f, append([]bench.Group{shape}, groups...)
}

// usage overrides the help of flags of a collective.
var usage = map[string]string{
	"backend":        "use backend `NAME`: auto, host, nccl, rccl or ipc (copies between the GPUs of a host); auto uses the library of the GPUs, or host on a machine without GPUs",
	"op":             "only `sum`: a schedule supports only sums",
	"root":           "accepted without effect, whatever `RANK` is: these collectives have no root",
	"local_register": "only `0`: a schedule does not register buffers",
	"stream_null":    "only `0`: a schedule has streams of its own",
	"unalign":        "only `0`: a schedule runs on aligned buffers",
	"agg_iters":      "only `1`: a schedule has no group calls of several operations",
	"cudagraph":      "only `0`: a schedule is not captured in graphs",
}

// Request returns the measurement that the flags request for a schedule of a collective. Errors have exit code
// cli.ExitUsage.
func (f *Flags) Request(op, algorithm string) (collectives.Request, error) {
	of := schedule.Collective(op)
	_, err := schedule.Find(algorithm, of)
	if err == nil {
		err = schedule.Unused(of, []string{algorithm}, schedule.Shape{Width: f.width, Segments: f.segments})
	}
	if err != nil {
		return collectives.Request{}, cli.UsageError("%w", err)
	}
	r, err := f.steps(op)
	r.By = by(steps.Block{Algorithm: algorithm, Width: f.width, Segments: f.segments}, nil)
	return r, err
}

// maxName is the maximum length of the name of a plan file, in bytes. The name is part of case ids, which name files.
const maxName = 64

// PlanRequest returns the measurement that the flags request for a plan file with this content and program. Errors have
// exit code cli.ExitUsage.
func (f *Flags) PlanRequest(file string, content []byte, p *schedule.Program) (collectives.Request, error) {
	name := filepath.Base(file)
	if f.given.Changed("width") || f.given.Changed("segments") {
		return collectives.Request{}, cli.UsageError("--width and --segments: not supported with a plan file: %s has its own shape", file)
	}
	if len(name) > maxName || sanitize.Line(name) != name {
		return collectives.Request{}, cli.UsageError("the name of plan %s is published in documents: rename the file to at most %d printable characters", sanitize.Line(file), maxName)
	}
	r, err := f.steps(string(p.Collective))
	if err != nil {
		return r, err
	}
	if r.World != 0 && r.World != p.Ranks {
		return r, cli.UsageError("%s is a plan for %s, but -t times -g is %d: omit them, or make them match", file, plural.Count(p.Ranks, "rank", "ranks"), r.World)
	}
	r.World = p.Ranks
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	r.By = by(steps.Block{Algorithm: name, PlanFile: name, PlanSHA256: digest}, p)
	r.Files = map[string][]byte{digest: content}
	if p.Input > 0 { // out of place
		r.Shape.Placements = []string{vocab.OutOfPlace}
	}
	return r, nil
}

// steps returns the request for a collective by steps. It refuses flags that schedules do not support.
func (f *Flags) steps(op string) (collectives.Request, error) {
	for _, r := range []struct{ flag, want, why string }{
		{"op", "sum", "-o: a schedule supports only sums: want sum"},
		{"agg_iters", "1", "-m: a schedule has no group calls of several operations: want 1"},
		{"cudagraph", "0", "-G: a schedule is not captured in graphs: want 0"},
		{"local_register", "0", "-R: a schedule does not register buffers: want 0"},
		{"stream_null", "0", "-y: a schedule has streams of its own: want 0"},
		{"unalign", "0", "-u: a schedule runs on aligned buffers: want 0"},
	} {
		if f.given.Lookup(r.flag).Value.String() != r.want {
			return collectives.Request{}, cli.UsageError("%s", r.why)
		}
	}
	return f.Flags.Request(op)
}

// by returns the replacement of the library's operation by a schedule. block has its name and shape. program is nil
// unless it comes from a plan file.
func by(block steps.Block, program *schedule.Program) *collectives.By {
	return &collectives.By{
		Family: steps.Name, Label: block.Algorithm, File: block.PlanFile,
		DTypes: func(be *catalog.Backend) []string { return catalog.BackendOf[steps.Backend](be).DTypes },
		Fits: func(op runner.Op, world int) error {
			if program != nil {
				return nil
			}
			s := schedule.Shape{Ranks: world, Width: block.Width, Segments: block.Segments}
			if _, err := schedule.ShapeOf(block.Algorithm, schedule.Collective(op.String()), s); err != nil {
				return cli.UsageError("%w", err)
			}
			return nil
		},
		Takes: func(f runner.Form, sizes []int64) error { return divides(block.PlanFile, program, f, sizes) },
		Block: func(c collective.Block) plan.Block {
			s := block
			s.Op, s.RedOp, s.Sizes, s.Placements = c.Op, c.RedOp, c.Sizes, c.Placements
			s.Modes, s.Buffers, s.Measure = c.Modes, c.Buffers, c.Measure
			return &s
		},
		Ran: func(doc result.Document) (*collective.Document, *result.Program, string) {
			d := doc.(*steps.Document)
			return d.Collective(), d.Measurement.Program, steps.Of(&d.Identity.Case).PlanSHA256
		},
	}
}

// divides returns an error for a size that cannot be divided into the equal chunks of a plan.
func divides(file string, p *schedule.Program, f runner.Form, sizes []int64) error {
	if p == nil {
		return nil
	}
	chunks, unit := int64(p.Chunks), int64(p.Chunks)*int64(f.Type.Size())
	if f.Op != runner.AllReduce {
		chunks /= int64(f.World)
		for unit%(16*int64(f.World)) != 0 { // parts of ranks are multiples of 16 bytes
			unit *= 2
		}
	}
	for _, size := range sizes {
		if count := f.Extent(size).Count; count%chunks != 0 {
			return cli.UsageError("%s: %d bytes cannot be divided into its %d chunks of whole %s elements: choose multiples of %d bytes with -b, -e and -i or -f",
				file, size, p.Chunks, f.Type, unit)
		}
	}
	return nil
}

// Ranks implements bench.Measurement. words are a collective and a schedule, or a file.
func (f *Flags) Ranks(words []string) (int, error) {
	return f.Ask(func() (collectives.Request, error) {
		if len(words) == 2 {
			return f.Request(words[0], words[1])
		}
		content, p, err := f.Read(words[0])
		if err != nil {
			return collectives.Request{}, err
		}
		return f.PlanRequest(words[0], content, p)
	})
}
