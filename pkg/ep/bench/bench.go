// Package bench is `cxrun bench ep`: flags of expert-parallel measurements, and their table and JSON.
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
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/safefile"
	"github.com/collectivex/collectivex/pkg/sanitize"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Command is `cxrun bench ep`.
var Command = bench.Command{
	Family: ep.Name,
	Use:    "ep",
	Short:  "Measure expert-parallel dispatch and combine",
	Long: `Measure expert-parallel dispatch and combine on this machine: one shape, mode and
routing, at each number of tokens per rank. An oracle checks the data they move before
and after the timing, at random places in windows and chains, and after the last of them, also
with changed inputs.`,
	Example: `  cxrun bench ep
  cxrun bench ep --backend host --tokens 1,8,64 --hidden 512 --topk 4 --experts 32
  cxrun bench ep --mode low-latency --precision fp8 --routing zipf --json`,
	Values: map[string][]string{"mode": ep.Modes(), "precision": ep.Precisions(), "phase": ep.Phases(), "contract": ep.Contracts()},
	Flags:  newFlags,
}

// flags are the flags of an expert-parallel measurement, as they were given.
type flags struct {
	bench.Output
	tokens                []int
	hidden, topk, experts int
	mode, precision       string
	phase, routing        string
	sampling, timing      string
	layout, contract      string
	tuning                ep.Tuning
	ranks, repeatable     int
}

// newFlags adds the flags to fs and returns them, with the groups in which
// help shows them.
func newFlags(fs *pflag.FlagSet) (bench.Measurement, []bench.Group) {
	f := &flags{}
	shape := bench.NewGroup("What is measured")
	g := shape.Flags
	g.IntSliceVar(&f.tokens, "tokens", []int{1, 2, 4, 8, 16, 32, 64, 128}, "measure `N` tokens per rank; a comma-separated list, ascending")
	g.IntVar(&f.hidden, "hidden", 7168, "hidden size: `N` elements per token")
	g.IntVar(&f.topk, "topk", 8, "`N` experts per token")
	g.IntVar(&f.experts, "experts", 256, "`N` experts on all ranks together")
	g.StringVar(&f.mode, "mode", ep.ModeNormal, "use `MODE` of the backend: normal or low-latency")
	g.StringVar(&f.layout, "layout", "", "arrange received rows by `LAYOUT`: expert-major, rank-major or rank-major-zc; default: the first that the backend has in the mode")
	g.StringVar(&f.precision, "precision", "bf16", "dispatch in `PRECISION`: bf16 or fp8")
	g.StringVar(&f.contract, "contract", ep.ContractLayout, "time dispatches by `CONTRACT`: layout-and-dispatch-v1, or cached-layout, which reuses the layout of an earlier dispatch")
	g.StringVar(&f.phase, "phase", ep.PhaseDecode, "record `PHASE` in documents: decode or prefill")
	g.StringVar(&f.routing, "routing", "uniform", "let tokens choose experts by `RULE`, or file:PATH, a file with the expert ids of one token per line")
	g.IntVar(&f.tuning.SMs, "sms", 0, "let operations use `N` multiprocessors; default: what the library chooses")
	g.BoolVar(&f.tuning.NoOverlap, "no-overlap", false, "tell the library that no computation runs beside its operations")
	g.BoolVar(&f.tuning.NoHandleCopy, "no-handle-copy", false, "let handles keep the caller's expert ids instead of a copy")
	how := bench.NewGroup("How it is measured, and output")
	g = how.Flags
	g.IntVar(&f.ranks, "ranks", 0, "start `N` ranks; default: one per device, two on a host")
	g.StringVar(&f.Backend, "backend", bench.Auto, "use backend `NAME`; auto uses one that can run on the GPUs here, otherwise host")
	g.StringVar(&f.timing, "timing-mode", ep.Eager, "time operations in `MODE`: eager, or graph, which captures and replays them")
	g.StringVar(&f.sampling, "sampling", "quick-v1", "take the numbers of samples from `PROFILE`")
	g.IntVar(&f.repeatable, "repeatable", 0, "also combine one input `N` times for each number of tokens, and exit 1 if a result differs from the first in any bit\nalthough the declared arithmetic determines it")
	f.TimeLimit(how)
	f.AddFlags(how)
	return f, f.AddGroups(fs, shape, how)
}

// Ranks implements bench.Measurement.
func (f *flags) Ranks([]string) (int, error) { return f.ranks, nil }

// Plan implements bench.Measurement.
func (f *flags) Plan(_ []string, cat *catalog.Catalog, be *catalog.Backend, world int) (planner.Direct, error) {
	d := f.Direct(be, world)
	if err := bench.AllKnown(
		bench.Word{What: "mode", Got: f.mode, Names: ep.Modes()},
		bench.Word{What: "precision", Got: f.precision, Names: ep.Precisions()},
		bench.Word{What: "phase", Got: f.phase, Names: ep.Phases()},
		bench.Word{What: "contract", Got: f.contract, Names: ep.Contracts()},
		bench.Word{What: "timing mode", Got: f.timing, Names: ep.TimingModes()},
		bench.Word{What: "layout", Got: cmp.Or(f.layout, ep.ExpertMajor), Names: ep.Layouts()},
	); err != nil {
		return d, err
	}
	profile, err := bench.Profile[ep.Sampling](cat, f.sampling, "expert parallelism")
	if err != nil {
		return d, err
	}
	if err := cmp.Or(f.refuse(world), bench.CheckRepeats(f.repeatable)); err != nil {
		return d, err
	}
	block := ep.Block{Routing: f.routing}
	if path, is := strings.CutPrefix(f.routing, ep.RecordedPrefix); !is {
		if err := f.known(cat, world); err != nil {
			return d, err
		}
	} else {
		routing, err := f.recorded(path, world)
		if err != nil {
			return d, err
		}
		block.Record(routing.Experts)
	}
	block.Workload, block.Seed = f.workload(cat)
	block.EPSize, block.Mode, block.Phase, block.Layout = world, f.mode, f.phase, f.layout
	block.Hidden, block.TopK, block.Experts = f.hidden, f.topk, f.experts
	block.Ladder, block.Timing, block.Repeatable = f.tokens, ep.Timing(*profile), f.repeatable
	if f.timing != ep.Eager {
		block.TimingMode = f.timing
	}
	if f.tuning != (ep.Tuning{}) {
		block.Tuning = &f.tuning
	}
	d.Cases = []plan.Case{{Family: ep.Name, Precision: f.precision, Sampling: f.sampling, Contract: f.contract, Block: &block}}
	return d, nil
}

// refuse refuses a shape that a world of ranks cannot have.
func (f *flags) refuse(world int) error {
	switch {
	case world < 1:
		return cli.UsageError("--ranks %d: want at least 1", world)
	case f.tuning.SMs < 0:
		return cli.UsageError("--sms %d: want at least 1", f.tuning.SMs)
	case f.hidden < 1 || f.topk < 1 || f.experts < 1:
		return cli.UsageError("--hidden, --topk and --experts: want at least 1")
	case f.hidden > maxOfShape || f.experts > maxOfShape:
		return cli.UsageError("--hidden and --experts: want at most %d", maxOfShape)
	case f.experts%world != 0:
		return cli.UsageError("--experts %d: want a multiple of the number of ranks, %d", f.experts, world)
	case f.topk > f.experts:
		return cli.UsageError("--topk %d: want at most the number of experts, %d", f.topk, f.experts)
	case !bench.Ascending(f.tokens):
		return cli.UsageError("--tokens %v: want positive numbers in ascending order", f.tokens)
	case slices.Max(f.tokens) > ep.MaxTokens(world, f.topk):
		return cli.UsageError("--tokens %d: want at most %d with --topk %d on %d ranks, since every rank holds the routing of all tokens",
			slices.Max(f.tokens), ep.MaxTokens(world, f.topk), f.topk, world)
	}
	return nil
}

// known refuses a routing by an unknown rule. Any MaxVio may be wanted of a lognormal one.
func (f *flags) known(cat *catalog.Catalog, world int) error {
	if !strings.HasPrefix(f.routing, workload.LognormalPrefix) {
		return bench.Known("routing", f.routing, cat.Words("routing"))
	}
	shape := workload.Shape{Seed: seed, World: world, Experts: f.experts, TopK: f.topk, LargestRung: slices.Max(f.tokens)}
	if _, err := workload.NewRouting(f.routing, shape); err != nil {
		return cli.UsageError("--routing: %w", err)
	}
	return nil
}

// recorded reads a routing from a file, for a world of ranks.
func (f *flags) recorded(path string, world int) (*ep.Recorded, error) {
	data, err := safefile.Read(path, ep.MaxRecorded)
	if err != nil {
		return nil, cli.UsageError("--routing: %w", err)
	}
	routing, err := ep.ParseRecorded(path, data)
	if err == nil {
		err = routing.Fits(slices.Max(f.tokens)*world, f.topk, f.experts)
	}
	if err != nil {
		return nil, cli.UsageError("--routing: %w", err)
	}
	return routing, nil
}

// maxOfShape is the maximum hidden size and number of experts, as in the definitions.
const maxOfShape = 1 << 20

// seed is the seed of the workloads in the definitions.
const seed = 67

// workload returns the definitions' name for the shape if they have it, else a generated one.
func (f *flags) workload(cat *catalog.Catalog) (name string, s uint64) {
	for _, n := range cat.Lists["workload"] {
		if w := n.(*ep.Shape); w.Hidden == f.hidden && w.TopK == f.topk && w.Experts == f.experts {
			return w.Name, w.Seed
		}
	}
	return fmt.Sprintf("h%d-k%d-e%d", f.hidden, f.topk, f.experts), seed
}

// Report is an expert-parallel measurement as JSON: a head and the document's
// own rows.
type Report struct {
	bench.Head
	bench.Case

	Workload    *ep.Workload    `json:"workload"`
	Measurement *ep.Measurement `json:"measurement"`
	Outcome     result.Outcome  `json:"outcome"`
	// Violations describes the results that are not repeatable, one line each.
	Violations []string `json:"violations,omitempty"`
	Passed     bool     `json:"passed"`
}

// Report implements bench.Measurement.
func (f *flags) Report(head bench.Head) bench.Reporter {
	head.Op = string(ep.Name)
	return &Report{Head: head}
}

// Title implements bench.Reporter.
func (*Report) Title(place string) string { return "dispatch and combine " + place }

// Add implements bench.Reporter.
func (p *Report) Add(doc result.Document) {
	d := doc.(*ep.Document)
	p.Take(&d.Envelope)
	p.Case, p.Workload, p.Measurement, p.Outcome = bench.CaseOf(&d.Envelope), &d.Workload, &d.Measurement, d.Outcome
	for i := range d.Measurement.Rows {
		if text, allowed := differing(&d.Measurement.Rows[i]); text != "" && !allowed {
			p.Violations = append(p.Violations, text)
		}
	}
	p.Unrepeatable(len(p.Violations))
	p.Passed = p.Err() == nil
}

// Broken implements bench.Reporter.
func (p *Report) Broken() []string { return p.Violations }

// differing returns how the repeated combines of a row differ, if they do, and whether the declared arithmetic
// allows that.
func differing(r *ep.Row) (text string, allowed bool) {
	if text = bench.Differing(r.Repeatable, "combines"); text == "" {
		return "", false
	}
	declared := r.Repeatable.AsDeclared
	return tokens(r.TokensPerRank) + ": " + text, declared != nil && *declared
}

// repeatable prints how many rows of a case have combines whose results differ, if it asks for them, and what the
// declared arithmetic allows.
func repeatable(w io.Writer, rows []ep.Row, combines int) {
	if combines == 0 {
		return
	}
	var lines []string
	differ, compared := 0, 0
	for i := range rows {
		if v := rows[i].Repeatable; v != nil && v.Compared > 0 {
			compared++
		}
		text, allowed := differing(&rows[i])
		if text != "" {
			differ++
		}
		if allowed {
			lines = append(lines, text)
		}
	}
	if compared == 0 {
		fmt.Fprintf(w, "# repeatable: N/A, no results were compared\n")
		return
	}
	fmt.Fprintf(w, "# repeatable: %d combines on one input, results differ in %d of %s\n", combines, differ, plural.Count(compared, "row", "rows"))
	for _, text := range lines {
		fmt.Fprintf(w, "# as the declared arithmetic allows: %s\n", text)
	}
}

// Print implements bench.Reporter: a line for each rung.
func (*Report) Print(w io.Writer, doc result.Document) {
	d := doc.(*ep.Document)
	c := &d.Identity.Case
	b := ep.Of(c)
	how := []string{b.Mode, b.Layout, b.TimingMode}
	if c.Contract != ep.ContractLayout {
		how = append(how, c.Contract)
	}
	how = append(how, b.Tuning.Words()...)
	how = slices.DeleteFunc(how, func(s string) bool { return s == "" })
	fmt.Fprintf(w, "# %s %s %s, %s\n# hidden %d topk %d experts %d, %s on %s\n",
		b.Workload, strings.Join(how, " "), c.Precision, b.Routing, b.Hidden, b.TopK, b.Experts, plural.Count(c.World, "rank", "ranks"), sanitize.Line(d.Topology.DeviceProduct))
	s := d.Measurement.Sampling
	fmt.Fprintf(w, "# sampling %s: %d samples of each component, slowest rank of each\n", s.Profile, s.SamplesPerComponent)
	fmt.Fprintf(w, "# GB/s: logical bytes of a roundtrip, of one rank, at its p50\n#\n")
	fmt.Fprintf(w, "# %6s %15s %15s %15s %8s\n", "tokens", "dispatch", "combine", "roundtrip", "pair")
	fmt.Fprintf(w, "# %6s %7s %7s %7s %7s %7s %7s %8s %7s %s\n", "/ rank", "p50(us)", "p99(us)", "p50(us)", "p99(us)", "p50(us)", "p99(us)", "p50(us)", "GB/s", "check")
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		fmt.Fprintf(w, "%8d", r.TokensPerRank)
		for _, c := range []ep.Component{r.Components.Dispatch, r.Components.Combine, r.Components.Roundtrip} {
			fmt.Fprintf(w, " %7s %7s", percentile(c, 50), percentile(c, 99))
		}
		gbps := "N/A"
		if p := r.Components.Roundtrip.Percentiles; p != nil && p.P50 > 0 {
			gbps = fmt.Sprintf("%.2f", float64(r.Wire().Roundtrip.Total)/float64(c.World)/(p.P50*1e3))
		}
		fmt.Fprintf(w, " %8s %7s %s\n", percentile(r.Components.PairPeriod, 50), gbps, check(r))
	}
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		if !r.Correctness.Passed { // the input of combine may already be wrong
			if reasons := r.Correctness.Reasons; len(reasons) > 0 {
				fmt.Fprintf(w, "# %s: %s%s\n", tokens(r.TokensPerRank), sanitize.Line(reasons[0].String()), more(len(reasons)-1))
			}
			continue
		}
		if a := r.Arithmetic; a != nil && !a.Passed {
			fmt.Fprintf(w, "# %s: combine does not add as declared (%s): %d of %d values are wrong\n",
				tokens(r.TokensPerRank), a.Accumulation, a.Wrong, a.Checked)
		}
	}
	repeatable(w, d.Measurement.Rows, b.Repeatable)
	for _, n := range d.Workload.LadderDropped {
		fmt.Fprintf(w, "# not measured: %s\n", tokens(n))
	}
	bench.Ended(w, d.Outcome)
}

func tokens(n int) string { return plural.Count(n, "token", "tokens") }

// more reports how many reasons are not shown.
func more(n int) string {
	if n < 1 {
		return ""
	}
	return fmt.Sprintf(", and %d more", n)
}

func percentile(c ep.Component, p int) string {
	switch {
	case c.Percentiles == nil, p == 99 && c.Percentiles.Of(c.SampleCount).P99 == nil:
		return "N/A"
	case p == 99:
		return bench.Micros(*c.Percentiles.P99)
	default:
		return bench.Micros(c.Percentiles.P50)
	}
}

// check summarizes the verdict on a row in one word; NOT-RUN means that a check is missing and
// none failed.
func check(r *ep.Row) string {
	if !r.Correctness.Passed && r.Correctness.Reasons.Only(result.ReasonUnchecked) {
		return "NOT-RUN"
	}
	return bench.CheckOf(r.Correctness.Passed, r.Complete)
}
