package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/foreign"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// OverlapFlags are the flags of computation beside communication, as they were given.
type OverlapFlags struct {
	Output
	set func(name string) bool // whether a flag was given

	// Ranks is 0 for one on each GPU, or two on a host.
	Ranks             int
	first, last, step string
	factor            int64
	op, dtype         string
	schedule          string
	hidden            int64
	products          int
	collectives       int
	compute           string
	sampling          string
}

// Defaults where a flag was not given: what a host multiplies and moves in milliseconds, and
// what GPUs do.
const (
	hostHidden, gpuHidden = 256, 4096
	hostSize, gpuSize     = "256K", "64M"
	mostHidden            = 65536
	mostProducts          = 256
	mostCollectives       = 64
)

// NewOverlapFlags adds the flags to fs and returns them, with the groups in which help shows
// them.
func NewOverlapFlags(fs *pflag.FlagSet) (*OverlapFlags, []Group) {
	f := &OverlapFlags{}
	shape := NewGroup("What is measured")
	g := shape.Flags
	g.StringVarP(&f.first, "minbytes", "b", "", "first `SIZE` of the communication, in bytes or with K, M or G (powers of 1024); "+hostSize+" on a host, "+gpuSize+" on GPUs")
	g.StringVarP(&f.last, "maxbytes", "e", "", "last `SIZE`; the first one unless given")
	g.StringVarP(&f.step, "stepbytes", "i", "1M", "add `SIZE` from one size to the next; without -f")
	g.Int64VarP(&f.factor, "stepfactor", "f", 1, "multiply by `FACTOR` from one size to the next; 1 adds -i instead")
	g.StringVar(&f.op, "op", "all_gather", "`COLLECTIVE` of form beside; linear layers gather")
	g.StringVar(&f.schedule, "schedule", "", "do the collective of form beside by the steps of schedule `NAME`; see 'cxrun schedule list'")
	g.StringVarP(&f.dtype, "datatype", "d", "", "element `TYPE` of matrices and communication; the backend's first unless given")
	g.Int64Var(&f.hidden, "hidden", 0, fmt.Sprintf("matrices of form beside have `N` rows and columns, the input of a linear layer N columns; %d on a host, %d on GPUs", hostHidden, gpuHidden))
	g.IntVar(&f.products, "products", 1, "multiply `N` times in a window of form beside")
	g.IntVar(&f.collectives, "collectives", 1, "communicate `N` times in a window of form beside")
	how := NewGroup("How it is measured, and output")
	g = how.Flags
	g.StringVar(&f.Backend, "backend", Auto, "use backend `NAME`; auto uses one that can run on the GPUs here, otherwise host")
	g.StringVar(&f.compute, "compute", "", "multiply by `MEANS`: loop (on a host), kernel, cublaslt, hipblaslt, or auto: the vendor's library if it is installed, else kernel; the backend's first unless given")
	g.IntVarP(&f.Ranks, "ngpus", "g", 0, "start `N` ranks, at least 2; 0 is one for each GPU, or 2 on a host")
	g.StringVar(&f.sampling, "sampling", "fixed-v1", "take the numbers of samples from `PROFILE`")
	f.TimeLimit(how)
	f.Output.AddFlags(how)
	f.Definitions.AddFlag(g)
	groups := []Group{shape, how}
	for _, group := range groups {
		fs.AddFlagSet(group.Flags)
	}
	f.set = fs.Changed
	return f, groups
}

// Plan is the measurement of forms with a backend: by default all of them.
func (f *OverlapFlags) Plan(forms []string) func(*catalog.Catalog, *catalog.Backend, int) (planner.Direct, error) {
	return func(cat *catalog.Catalog, be *catalog.Backend, world int) (planner.Direct, error) {
		if f.schedule != "" {
			if len(forms) == 0 {
				forms = []string{vocab.Beside}
			}
			if _, err := schedule.Find(f.schedule, schedule.Collective(f.op)); err != nil {
				return planner.Direct{}, cli.UsageError("--schedule: %w", err)
			}
			if !slices.Equal(forms, []string{vocab.Beside}) {
				return planner.Direct{}, cli.UsageError("--schedule %s is of form beside alone: name that form", f.schedule)
			}
		}
		d := planner.Direct{Suite: Name, Backend: be.Name, World: world, Repeats: 1, Budget: f.Timeout}
		if len(forms) == 0 {
			forms = vocab.OverlapForms()
		}
		if Repeats(forms) {
			return d, cli.UsageError("a form is named twice: %s", strings.Join(forms, ", "))
		}
		if err := f.besides(forms); err != nil {
			return d, err
		}
		dtype, compute := cmp.Or(f.dtype, be.Overlap().DTypes[0]), cmp.Or(f.compute, be.Overlap().Computes[0])
		for _, form := range forms {
			if err := Known("form", form, vocab.OverlapForms()); err != nil {
				return d, err
			}
		}
		for _, name := range []struct {
			what, got string
			names     []string
		}{
			{"operation", f.op, vocab.Ops()},
			{"element type", dtype, vocab.DTypes()},
			{"compute", compute, vocab.Computes()},
			{"sampling profile", f.sampling, cat.Words("sampling")},
		} {
			if err := Known(name.what, name.got, name.names); err != nil {
				return d, err
			}
		}
		profile := cat.SamplingProfile(f.sampling).Overlap()
		if profile == nil {
			return d, cli.UsageError("--sampling %s: the profile has no sample counts of overlap", f.sampling)
		}
		sizes, hidden, err := f.shape(be)
		if err != nil {
			return d, err
		}
		for _, form := range forms {
			op := f.op
			if form != vocab.Beside {
				op = planner.OverlapOps(form, nil)[0]
			}
			b := planner.Overlap(form, op, *profile)
			b.Hidden, b.Compute, b.Sizes = hidden, compute, sizes
			if form == vocab.Beside {
				b.Products, b.Collectives, b.Algorithm = f.products, f.collectives, f.schedule
			}
			c := plan.Case{Family: plan.FamilyOverlap, Precision: dtype, Sampling: f.sampling, Contract: vocab.ContractOverlap, World: world, Block: b}
			if f.schedule != "" {
				if why := planner.NoShape(f.schedule, op, schedule.Shape{Ranks: world}); why != "" {
					return d, cli.UsageError("--schedule: %s", why)
				}
			}
			if why := planner.OverlapRemainder(&c); why != "" {
				return d, cli.UsageError("%s: %s; choose other sizes or another --hidden", form, why)
			}
			d.Cases = append(d.Cases, c)
		}
		return d, nil
	}
}

// besides refuses flags of form beside that no form takes.
func (f *OverlapFlags) besides(forms []string) error {
	if slices.Contains(forms, vocab.Beside) {
		return nil
	}
	for _, name := range []string{"op", "products", "collectives"} {
		if f.set(name) {
			return cli.UsageError("--%s is of form beside, and %s does not take it: leave it out, or name that form too", name, strings.Join(forms, ", "))
		}
	}
	return nil
}

// shape is the sizes, and the width of the matrices.
func (f *OverlapFlags) shape(be *catalog.Backend) ([]int64, int64, error) {
	hidden, first := int64(gpuHidden), gpuSize
	if slices.Contains(be.Vendors, vocab.Host) {
		hidden, first = hostHidden, hostSize
	}
	hidden, first = cmp.Or(f.hidden, hidden), cmp.Or(f.first, first)
	for _, n := range []struct {
		flag       string
		of, atMost int64
	}{{"--hidden", hidden, mostHidden}, {"--products", int64(f.products), mostProducts}, {"--collectives", int64(f.collectives), mostCollectives}} {
		if n.of < 1 || n.of > n.atMost {
			return nil, 0, cli.UsageError("%s %d: want 1 to %d", n.flag, n.of, n.atMost)
		}
	}
	var parsed [3]int64
	for i, s := range []string{first, cmp.Or(f.last, first), f.step} {
		var err error
		if parsed[i], err = ParseSize(s); err != nil {
			return nil, 0, cli.UsageError("%s: %w", []string{"-b", "-e", "-i"}[i], err)
		}
	}
	sizes, err := Ladder(parsed[0], parsed[1], parsed[2], f.factor)
	return sizes, hidden, err
}

// SharedProcessor is what people are told of overlap that was measured without a processor for
// each side of a rank.
const SharedProcessor = "both sides of a rank share a processor: they take turns, and little can overlap"

// OverlapReport is overlap as JSON: a head and the documents' own rows.
type OverlapReport struct {
	Head

	Cases  []OverlapCase `json:"cases"`
	Passed bool          `json:"passed"`
}

// OverlapCase is the part of a document that a report has.
type OverlapCase struct {
	CaseID        string                     `json:"case_id"`
	ComparisonKey string                     `json:"comparison_key"`
	Environment   map[string]string          `json:"environment"`
	Op            string                     `json:"op"`
	DType         string                     `json:"dtype"`
	Measurement   *result.OverlapMeasurement `json:"measurement"`
	Outcome       result.Outcome             `json:"outcome"`
}

// NewOverlapReport returns a report without documents.
func NewOverlapReport(head Head) *OverlapReport {
	head.Op = "overlap"
	return &OverlapReport{Head: head, Cases: []OverlapCase{}}
}

// Add takes a document.
func (p *OverlapReport) Add(d *result.OverlapDocument) {
	p.Take(&d.Envelope)
	c := &d.Identity.Case
	p.Cases = append(p.Cases, OverlapCase{d.Identity.CaseID, d.ComparisonKey, Environment(&d.Envelope), c.Overlap().Op, c.Precision, &d.Measurement, d.Outcome})
	p.Passed = p.Err() == nil
}

// multiplier is what computed the products, with its version if it is a library.
func multiplier(d *result.OverlapDocument) string {
	compute := d.Measurement.Compute
	for _, l := range d.Provenance.Libraries {
		if l.Kind == compute {
			return compute + " " + foreign.Line(l.Version)
		}
	}
	return compute
}

// PrintOverlap prints a document, one line a row.
func PrintOverlap(w io.Writer, d *result.OverlapDocument) {
	c, m := &d.Identity.Case, &d.Measurement
	b := c.Overlap()
	what := b.Form
	if b.Form == vocab.Beside {
		what = fmt.Sprintf("%d × product beside %d × %s", b.Products, b.Collectives, b.Communication())
	}
	fmt.Fprintf(w, "#\n# %s of %s, by %s and %s, on %s\n", what, c.Precision, multiplier(d), foreign.Line(m.CommunicationPath), foreign.Line(d.Topology.DeviceProduct))
	fmt.Fprintf(w, "# sampling %s: %d iterations of each; medians of the slowest rank\n", c.Sampling, b.Timing.Iterations)
	if m.SharedProcessor {
		fmt.Fprintln(w, "# "+SharedProcessor)
	}
	fmt.Fprintf(w, "# %10s %17s  %10s %10s %10s %10s %10s %7s %10s  %-21s %-15s  %s\n",
		"bytes", "product m n k", "compute", "communic.", "together", "serial", "exposed", "E", "floor", "covered, slowdown", "tax", "check")
	maybe := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%.2f", *v)
	}
	for i := range m.Rows {
		r := &m.Rows[i]
		fmt.Fprintf(w, "  %10d %17s  %10.2f %10.2f %10.2f %10.2f %10s %7s %10.2f  %-21s %-15s  %s\n",
			r.Bytes, fmt.Sprintf("%d %d %d", r.ProductM, r.ProductN, r.ProductK),
			r.Compute.P50, r.Communication.P50, r.Together.P50, r.Serial.P50, maybe(r.ExposedBeyondNoise()), maybe(r.Efficiency), r.Floor,
			fmt.Sprintf("%3.0f%% %s, %3.0f%% %s", 100*r.ComputeCoverage, maybe(r.ComputeSlowdown), 100*r.CommunicationCoverage, maybe(r.CommunicationSlowdown)),
			maybe(r.ComputeTax)+", "+maybe(r.CommunicationTax), CheckOf(r.Verify.Passed, r.Complete))
	}
	for i := range m.Rows {
		if r := &m.Rows[i]; !r.Verify.Passed {
			fmt.Fprintf(w, "# %s: %s\n", r.Name(), foreign.Line(r.Verify.Detail))
		}
	}
	if d.Outcome.Status != result.Success {
		fmt.Fprintf(w, "# %s: %s\n", strings.ToUpper(d.Outcome.Status), foreign.Line(d.Outcome.Reasons.String()))
	}
}
