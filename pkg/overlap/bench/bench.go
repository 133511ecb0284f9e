// Package bench is `cxrun bench overlap`: its flags, table and JSON.
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
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sanitize"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Command is `cxrun bench overlap`.
var Command = bench.Command{
	Family: overlap.Name,
	Use:    "overlap [FORM...]",
	Short:  "Measure matrix products beside communication: alone, together and serial",
	Long: `Measure matrix products on one stream beside communication on another: each side alone,
both together, and serial (one side after the other), in turns. Both sides of a rank wait at
one start gate, which opens once all ranks are ready.

With --compute host-to-device or device-to-host, copies of matrices from or to page-locked
memory of the host take the place of products.

Forms: ` + overlap.Beside + ` (products and a collective that do not depend on each other),
` + overlap.LinearRotation + ` and ` + overlap.LinearBroadcast + ` (a column-parallel linear layer
that multiplies each part of its input as soon as it has arrived). By default all three run.

A row has the time that the communication adds (exposed), the overlap efficiency (1 hides the
shorter side entirely, below 0 is slower than serial), how much each side slows down while
both run (slowdown), the cost of cutting the layer into pieces (tax), and the minimum possible
time of both together (floor). A figure below the noise of its medians is a dash. All elements
that the timed windows compute or deliver are compared.

The exit code is 1 if an element is wrong or a case failed, and 3 if this machine cannot run
the case.`,
	Example: `  cxrun bench overlap --backend host
  cxrun bench overlap beside --op all_reduce --hidden 512 --products 4 -b 1M -e 16M -f 4
  cxrun bench overlap linear-rotation linear-broadcast --hidden 256 -b 256K -e 256K --json
  cxrun bench overlap beside --backend nccl --hidden 4096 --products 8 -b 16M -e 1G -f 8
  cxrun bench overlap beside --compute device-to-host --hidden 4096 -b 64M -e 1G -f 4`,
	Words:  overlap.Forms(),
	Values: map[string][]string{"op": vocab.Ops(), "datatype": vocab.DTypes(), "compute": overlap.Computes()},
	Flags:  newFlags,
}

// flags holds the flags as they were given.
type flags struct {
	bench.Output
	bench.Sizes

	ranks       int // 0: one for each GPU, or two on a host
	op, dtype   string
	schedule    string
	hidden      int64
	products    int
	collectives int
	compute     string
	sampling    string
}

// Default and maximum values of flags. With the defaults, each side takes milliseconds.
const (
	hostHidden, gpuHidden = 256, 4096
	hostSize, gpuSize     = "256K", "64M"
	maxHidden             = 65536
	maxProducts           = 256
	maxCollectives        = 64
)

// newFlags adds the flags to fs and returns them, with the groups in which help shows
// them.
func newFlags(fs *pflag.FlagSet) (bench.Measurement, []bench.Group) {
	f := &flags{}
	shape := bench.NewGroup("Products and communication")
	g := shape.Flags
	f.Sizes.AddFlags(shape, "", "first `SIZE` of the communication, in bytes or with K, M or G (powers of 1024, also as MB or MiB); "+hostSize+" on a host, "+gpuSize+" on GPUs",
		bench.LastUsage+"; the first one unless given")
	g.StringVar(&f.op, "op", "all_gather", "`COLLECTIVE` of form beside; linear layers gather")
	g.StringVar(&f.schedule, "schedule", "", "perform the collective of form beside by the steps of schedule `NAME`; see 'cxrun schedule list'")
	g.StringVarP(&f.dtype, "datatype", "d", "", "element `TYPE` of matrices and communication; the backend's first unless given")
	g.Int64Var(&f.hidden, "hidden", 0, fmt.Sprintf("matrices of form beside have `N` rows and columns, the input of a linear layer N columns; %d on a host, %d on GPUs", hostHidden, gpuHidden))
	g.IntVar(&f.products, "products", 1, "multiply `N` times in a window of form beside")
	g.IntVar(&f.collectives, "collectives", 1, "communicate `N` times in a window of form beside")
	how := bench.NewGroup("Measurement and output")
	g = how.Flags
	g.StringVar(&f.Backend, "backend", bench.Auto, "use backend `NAME`; auto uses one that supports the GPUs of this machine, otherwise host")
	g.StringVar(&f.compute, "compute", "", "multiply by `MEANS`: loop (on a host), kernel, cublaslt, hipblaslt, or auto: the vendor's library if it is installed, else kernel; the backend's first unless given;\nor, for form beside, copy matrices of --hidden rows and columns in place of products: host-to-device or device-to-host")
	g.IntVarP(&f.ranks, "ngpus", "g", 0, "start `N` ranks, at least 2; 0 is one for each GPU, or 2 on a host")
	g.StringVar(&f.sampling, "sampling", "fixed-v1", "take the numbers of samples from `PROFILE`")
	f.TimeLimit(how)
	f.Output.AddFlags(how)
	return f, f.AddGroups(fs, shape, how)
}

// Ranks implements bench.Measurement.
func (f *flags) Ranks([]string) (int, error) { return f.ranks, nil }

// Plan implements bench.Measurement for the named forms, by default all.
func (f *flags) Plan(forms []string, cat *catalog.Catalog, be *catalog.Backend, world int) (planner.Direct, error) {
	d := f.Direct(be, world)
	forms, err := f.forms(forms)
	if err != nil {
		return d, err
	}
	dtype, compute := cmp.Or(f.dtype, catalog.BackendOf[overlap.Backend](be).DTypes[0]), cmp.Or(f.compute, catalog.BackendOf[overlap.Backend](be).Computes[0])
	if err := bench.AllKnown(
		bench.Word{What: "operation", Got: f.op, Names: vocab.Ops()},
		bench.Word{What: "element type", Got: dtype, Names: vocab.DTypes()},
		bench.Word{What: "compute", Got: compute, Names: overlap.Computes()},
	); err != nil {
		return d, err
	}
	profile, err := bench.Profile[overlap.Sampling](cat, f.sampling, "overlap")
	if err != nil {
		return d, err
	}
	sizes, hidden, err := f.shape(be)
	if err != nil {
		return d, err
	}
	for _, form := range forms {
		b := overlap.New(form, overlap.Ops(form, []string{f.op})[0], profile)
		b.Hidden, b.Compute, b.Sizes = hidden, compute, sizes
		if form == overlap.Beside {
			b.Products, b.Collectives, b.Algorithm = f.products, f.collectives, f.schedule
		}
		c := plan.Case{Family: overlap.Name, Precision: dtype, Sampling: f.sampling, Contract: overlap.Contract, World: world, Block: b}
		if f.schedule != "" {
			if _, err := schedule.ShapeOf(f.schedule, schedule.Collective(b.Op), schedule.Shape{Ranks: world}); err != nil {
				return d, cli.UsageError("--schedule: %w", err)
			}
		}
		if why := overlap.Remainder(&c); why != "" {
			return d, cli.UsageError("%s: %s; choose other sizes or another --hidden", form, why)
		}
		d.Cases = append(d.Cases, c)
	}
	return d, nil
}

// forms returns the forms to measure, or a usage error.
func (f *flags) forms(named []string) ([]string, error) {
	if overlap.Copies(f.compute) && len(named) == 0 {
		named = []string{overlap.Beside}
	}
	if f.schedule != "" {
		if len(named) == 0 {
			named = []string{overlap.Beside}
		}
		if _, err := schedule.Find(f.schedule, schedule.Collective(f.op)); err != nil {
			return nil, cli.UsageError("--schedule: %w", err)
		}
		if !slices.Equal(named, []string{overlap.Beside}) {
			return nil, cli.UsageError("--schedule %s: supported for form beside only: name that form", f.schedule)
		}
	}
	if len(named) == 0 {
		named = overlap.Forms()
	}
	if overlap.Copies(f.compute) && !slices.Equal(named, []string{overlap.Beside}) {
		return nil, cli.UsageError("--compute %s: copies take the place of products in form beside only: name that form", f.compute)
	}
	if bench.Repeats(named) {
		return nil, cli.UsageError("a form is named twice: %s", strings.Join(named, ", "))
	}
	if err := f.besides(named); err != nil {
		return nil, err
	}
	for _, form := range named {
		if err := bench.Known("form", form, overlap.Forms()); err != nil {
			return nil, err
		}
	}
	return named, nil
}

// besides refuses flags for form beside if that form is not measured.
func (f *flags) besides(forms []string) error {
	if slices.Contains(forms, overlap.Beside) {
		return nil
	}
	for _, name := range []string{"op", "products", "collectives"} {
		if f.Set(name) {
			return cli.UsageError("--%s: supported for form beside only, not %s: omit it, or name that form too", name, strings.Join(forms, ", "))
		}
	}
	return nil
}

// shape returns the sizes and the width of the matrices.
func (f *flags) shape(be *catalog.Backend) ([]int64, int64, error) {
	hidden, first := int64(gpuHidden), gpuSize
	if slices.Contains(be.Vendors, vocab.Host) {
		hidden, first = hostHidden, hostSize
	}
	if f.Set("hidden") {
		hidden = f.hidden
	}
	f.First = cmp.Or(f.First, first)
	f.Last = cmp.Or(f.Last, f.First)
	for _, n := range []struct {
		flag       string
		value, max int64
	}{{"--hidden", hidden, maxHidden}, {"--products", int64(f.products), maxProducts}, {"--collectives", int64(f.collectives), maxCollectives}} {
		if n.value < 1 || n.value > n.max {
			return nil, 0, cli.UsageError("%s %d: want 1 to %d", n.flag, n.value, n.max)
		}
	}
	sizes, err := f.List()
	return sizes, hidden, err
}

// Report is an overlap measurement as JSON: a head, and for each case the contents of its document.
type Report struct {
	bench.Head

	Cases  []caseRows `json:"cases"`
	Passed bool       `json:"passed"`
}

// caseRows is the reported part of a document.
type caseRows struct {
	bench.Case
	Op          string               `json:"op"`
	DType       string               `json:"dtype"`
	Measurement *overlap.Measurement `json:"measurement"`
	Outcome     result.Outcome       `json:"outcome"`
}

// Report implements bench.Measurement.
func (f *flags) Report(head bench.Head) bench.Reporter {
	head.Op = "overlap"
	return &Report{Head: head, Cases: []caseRows{}}
}

// Title implements bench.Reporter.
func (p *Report) Title(place string) string {
	return fmt.Sprintf("matrix products beside communication %s, %d ranks", place, p.World)
}

// Add implements bench.Reporter.
func (p *Report) Add(doc result.Document) {
	d := doc.(*overlap.Document)
	p.Take(&d.Envelope)
	c := &d.Identity.Case
	p.Cases = append(p.Cases, caseRows{bench.CaseOf(&d.Envelope), overlap.Of(c).Op, c.Precision, &d.Measurement, d.Outcome})
	p.Passed = p.Err() == nil
}

// multiplier returns the means that computed the products, with the version of a library.
func multiplier(d *overlap.Document) string {
	compute := d.Measurement.Compute
	for _, l := range d.Provenance.Libraries {
		if l.Kind == compute {
			return compute + " " + sanitize.Line(l.Version)
		}
	}
	return compute
}

// Print implements bench.Reporter. It prints one line per row.
func (*Report) Print(w io.Writer, doc result.Document) {
	d := doc.(*overlap.Document)
	c, m := &d.Identity.Case, &d.Measurement
	b := overlap.Of(c)
	what := b.Form
	if b.Form == overlap.Beside {
		what = fmt.Sprintf("%d × product beside %d × %s", b.Products, b.Collectives, b.Communication())
	}
	note := "m n k: a product"
	if overlap.Copies(b.Compute) {
		what, note = strings.Replace(what, "product", "copy", 1), "m n: a copy, in the place of computing"
	}
	fmt.Fprintf(w, "#\n# %s of %s, by %s and %s, on %s\n", what, c.Precision, multiplier(d), sanitize.Line(m.CommunicationPath), sanitize.Line(d.Topology.DeviceProduct))
	fmt.Fprintf(w, "# sampling %s: %d iterations of each; medians of the slowest rank\n", c.Sampling, b.Timing.Iterations)
	if m.SharedProcessor {
		fmt.Fprintln(w, "# "+overlap.SharedProcessor)
	}
	printTimes(w, note, m.Rows)
	printOverlap(w, m.Rows)
	for i := range m.Rows {
		if r := &m.Rows[i]; !r.Verify.Passed {
			fmt.Fprintf(w, "# %s: %s\n", r.Name(), sanitize.Line(r.Verify.Detail))
		}
	}
	bench.Ended(w, d.Outcome)
}

// printTimes prints the times of each row.
func printTimes(w io.Writer, note string, rows []overlap.Row) {
	fmt.Fprintf(w, "# %s\n# times in us: computing, communicating, both together, one after the other\n# (serial), and at least (floor)\n", note)
	fmt.Fprintf(w, "# %8s %5s %5s %5s %8s %8s %8s %8s %8s  %s\n", "bytes", "m", "n", "k", "comput.", "commun.", "together", "serial", "floor", "check")
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(w, "%10d %5d %5d %5d", r.Bytes, r.ProductM, r.ProductN, r.ProductK)
		for _, us := range []float64{r.Compute.P50, r.Communication.P50, r.Together.P50, r.Serial.P50, r.Floor} {
			fmt.Fprintf(w, " %8s", bench.Micros(us))
		}
		fmt.Fprintf(w, "  %s\n", bench.CheckOf(r.Verify.Passed, r.Complete))
	}
}

// printOverlap prints what each row says of the overlap, which is nothing until it is complete.
func printOverlap(w io.Writer, rows []overlap.Row) {
	fmt.Fprintf(w, "# exposed: us that communication adds; E: efficiency, 1 hides the shorter side;\n"+
		"# of each side: part with the other running, slowdown, and tax of its pieces\n")
	fmt.Fprintf(w, "# %8s %9s %7s %17s %17s %15s\n", "", "", "", "covered", "slowdown", "tax")
	fmt.Fprintf(w, "# %8s %9s %7s %8s %8s %8s %8s %7s %7s\n", "bytes", "exposed", "E", "comput.", "commun.", "comput.", "commun.", "comput.", "commun.")
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(w, "%10d", r.Bytes)
		for k, v := range []*float64{
			r.ExposedBeyondNoise(), r.Efficiency, &r.ComputeCoverage, &r.CommunicationCoverage,
			r.ComputeSlowdown, r.CommunicationSlowdown, r.ComputeTax, r.CommunicationTax,
		} {
			cell := "-"
			if v != nil && r.Complete {
				cell = fmt.Sprintf("%.2f", *v)
			}
			fmt.Fprintf(w, " %*s", []int{9, 7, 8, 8, 8, 8, 7, 7}[k], cell)
		}
		fmt.Fprintln(w)
	}
}
