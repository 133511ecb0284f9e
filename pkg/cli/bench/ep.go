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
	"github.com/collectivex/collectivex/pkg/english"
	"github.com/collectivex/collectivex/pkg/foreign"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/regular"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// EPFlags are the flags of an expert-parallel measurement, as they were given.
type EPFlags struct {
	Output
	tokens                []int
	hidden, topk, experts int
	mode, precision       string
	phase, routing        string
	sampling, timing      string
	layout, contract      string
	ranks                 int
}

// NewEPFlags adds the flags to fs and returns them, with the groups in which
// help shows them.
func NewEPFlags(fs *pflag.FlagSet) (*EPFlags, []Group) {
	f := &EPFlags{}
	shape := NewGroup("What is measured")
	g := shape.Flags
	g.IntSliceVar(&f.tokens, "tokens", []int{1, 2, 4, 8, 16, 32, 64, 128}, "measure `N` tokens per rank; a comma-separated list, ascending")
	g.IntVar(&f.hidden, "hidden", 7168, "hidden size: `N` elements per token")
	g.IntVar(&f.topk, "topk", 8, "`N` experts per token")
	g.IntVar(&f.experts, "experts", 256, "`N` experts on all ranks together")
	g.StringVar(&f.mode, "mode", vocab.ModeNormal, "use `MODE` of the backend: normal or low-latency")
	g.StringVar(&f.layout, "layout", "", "arrange received rows by `LAYOUT`: expert-major, rank-major or rank-major-zc; default: the first that the backend has in the mode")
	g.StringVar(&f.precision, "precision", "bf16", "dispatch in `PRECISION`: bf16 or fp8")
	g.StringVar(&f.contract, "contract", vocab.ContractLayout, "time dispatches by `CONTRACT`: layout-and-dispatch-v1, or cached-layout, which reuses the layout of an earlier dispatch")
	g.StringVar(&f.phase, "phase", vocab.PhaseDecode, "record `PHASE` in documents: decode or prefill")
	g.StringVar(&f.routing, "routing", "uniform", "let tokens choose experts by `RULE`, or file:PATH: the expert ids of a token a line")
	how := NewGroup("How it is measured, and output")
	g = how.Flags
	g.IntVar(&f.ranks, "ranks", 0, "start `N` ranks; default: one per device, two on a host")
	g.StringVar(&f.Backend, "backend", Auto, "use backend `NAME`; auto uses one that can run on the GPUs here, otherwise host")
	g.StringVar(&f.timing, "timing-mode", vocab.Eager, "time operations in `MODE`: eager, or graph, which captures and replays them")
	g.StringVar(&f.sampling, "sampling", "quick-v1", "take the numbers of samples from `PROFILE`")
	f.TimeLimit(how)
	f.Output.AddFlags(how)
	f.Definitions.AddFlag(g)
	groups := []Group{shape, how}
	for _, group := range groups {
		fs.AddFlagSet(group.Flags)
	}
	return f, groups
}

// Ranks is what --ranks says; 0 is as many as there are devices.
func (f *EPFlags) Ranks() int { return f.ranks }

// Plan is the measurement with a backend on a world of ranks.
func (f *EPFlags) Plan(cat *catalog.Catalog, be *catalog.Backend, world int) (planner.Direct, error) {
	d := planner.Direct{Suite: Name, Backend: be.Name, World: world, Repeats: 1, Budget: f.Timeout}
	for _, name := range []struct {
		what, got string
		names     []string
	}{
		{"mode", f.mode, vocab.EPModes()},
		{"precision", f.precision, vocab.Precisions()},
		{"phase", f.phase, vocab.Phases()},
		{"contract", f.contract, vocab.Contracts()},
		{"timing mode", f.timing, vocab.EPTimingModes()},
		{"layout", cmp.Or(f.layout, vocab.ExpertMajor), vocab.Layouts()},
		{"sampling profile", f.sampling, cat.Words("sampling")},
	} {
		if err := Known(name.what, name.got, name.names); err != nil {
			return d, err
		}
	}
	switch {
	case world < 1:
		return d, cli.UsageError("--ranks %d: want at least 1", world)
	case f.hidden < 1 || f.topk < 1 || f.experts < 1:
		return d, cli.UsageError("--hidden, --topk and --experts: want at least 1")
	case f.hidden > mostOfShape || f.experts > mostOfShape:
		return d, cli.UsageError("--hidden and --experts: want at most %d", mostOfShape)
	case f.experts%world != 0:
		return d, cli.UsageError("--experts %d: want a multiple of the number of ranks, %d", f.experts, world)
	case f.topk > f.experts:
		return d, cli.UsageError("--topk %d: want at most the number of experts, %d", f.topk, f.experts)
	case len(f.tokens) == 0 || slices.Min(f.tokens) < 1 || !slices.IsSorted(f.tokens) || len(slices.Compact(slices.Clone(f.tokens))) < len(f.tokens):
		return d, cli.UsageError("--tokens %v: want positive numbers in ascending order", f.tokens)
	case slices.Max(f.tokens) > catalog.MaxTokens(world, f.topk):
		return d, cli.UsageError("--tokens %d: want at most %d with --topk %d on %d ranks, since every rank holds the routing of all tokens",
			slices.Max(f.tokens), catalog.MaxTokens(world, f.topk), f.topk, world)
	}
	block := plan.EP{Routing: f.routing}
	if path, is := strings.CutPrefix(f.routing, catalog.RecordedPrefix); !is {
		if err := Known("routing", f.routing, cat.Words("routing")); err != nil {
			return d, err
		}
	} else {
		routing, err := f.recorded(path, world)
		if err != nil {
			return d, err
		}
		block.Record(routing.Experts)
	}
	workload, seed := f.workload(cat)
	block.EPSize, block.Workload, block.Mode, block.Phase, block.Layout = world, workload, f.mode, f.phase, f.layout
	block.Hidden, block.TopK, block.Experts, block.Seed = f.hidden, f.topk, f.experts, seed
	block.Ladder, block.Timing = f.tokens, plan.EPTiming(*cat.SamplingProfile(f.sampling).EP())
	if f.timing != vocab.Eager {
		block.TimingMode = f.timing
	}
	d.Cases = []plan.Case{{
		Family: plan.FamilyEP, Precision: f.precision, Sampling: f.sampling, Contract: f.contract,
		Block: &block,
	}}
	return d, nil
}

// recorded reads a routing from a file, for a world of ranks.
func (f *EPFlags) recorded(path string, world int) (*catalog.Recorded, error) {
	data, err := regular.Read(path, catalog.MaxRecorded)
	if err != nil {
		return nil, cli.UsageError("--routing: %w", err)
	}
	routing, err := catalog.ParseRecorded(path, data)
	if err == nil {
		err = routing.Fits(slices.Max(f.tokens)*world, f.topk, f.experts)
	}
	if err != nil {
		return nil, cli.UsageError("--routing: %w", err)
	}
	return routing, nil
}

// mostOfShape bounds a hidden size and a number of experts, as in definitions.
const mostOfShape = 1 << 20

// seed is that of the definitions' workloads.
const seed = 67

// workload names the shape: as the definitions do where they have it.
func (f *EPFlags) workload(cat *catalog.Catalog) (name string, s uint64) {
	for _, w := range cat.Workloads {
		if w.Hidden == f.hidden && w.TopK == f.topk && w.Experts == f.experts {
			return w.Name, w.Seed
		}
	}
	return fmt.Sprintf("h%d-k%d-e%d", f.hidden, f.topk, f.experts), seed
}

// EPReport is an expert-parallel measurement as JSON: a head and the document's
// own rows.
type EPReport struct {
	Head

	CaseID        string                `json:"case_id"`
	ComparisonKey string                `json:"comparison_key"`
	Environment   map[string]string     `json:"environment"`
	Workload      *result.EPWorkload    `json:"workload"`
	Measurement   *result.EPMeasurement `json:"measurement"`
	Outcome       result.Outcome        `json:"outcome"`
	Passed        bool                  `json:"passed"`
}

// NewEPReport returns a report without the document.
func NewEPReport(head Head) *EPReport {
	head.Op = string(plan.FamilyEP)
	return &EPReport{Head: head}
}

// Add takes the document.
func (p *EPReport) Add(d *result.EPDocument) {
	p.Take(&d.Envelope)
	p.CaseID, p.ComparisonKey, p.Environment = d.Identity.CaseID, d.ComparisonKey, Environment(&d.Envelope)
	p.Workload, p.Measurement, p.Outcome = &d.Workload, &d.Measurement, d.Outcome
	p.Passed = p.Err() == nil
}

// PrintEP prints a document, one line a rung.
func PrintEP(w io.Writer, d *result.EPDocument) {
	c := &d.Identity.Case
	how := []string{c.EP().Mode, c.EP().Layout, c.EP().TimingMode}
	if c.Contract != vocab.ContractLayout {
		how = append(how, c.Contract)
	}
	how = slices.DeleteFunc(how, func(s string) bool { return s == "" })
	fmt.Fprintf(w, "# %s %s %s, %s: hidden %d topk %d experts %d, %s on %s\n",
		c.EP().Workload, strings.Join(how, " "), c.Precision, c.EP().Routing, c.EP().Hidden, c.EP().TopK, c.EP().Experts, english.Count(c.World, "rank", "ranks"), foreign.Line(d.Topology.DeviceProduct))
	s := d.Measurement.Sampling
	fmt.Fprintf(w, "# sampling %s: %d samples of each component, slowest rank of each\n", s.Profile, s.SamplesPerComponent)
	fmt.Fprintf(w, "# GB/s: logical bytes of a roundtrip, of one rank, at its p50\n#\n")
	fmt.Fprintf(w, "# %8s  %19s  %19s  %19s  %9s  %8s  %s\n", "tokens", "dispatch", "combine", "roundtrip", "pair", "", "")
	fmt.Fprintf(w, "# %8s  %9s %9s  %9s %9s  %9s %9s  %9s  %8s  %s\n", "per rank", "p50(us)", "p99(us)", "p50(us)", "p99(us)", "p50(us)", "p99(us)", "p50(us)", "GB/s", "check")
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		fmt.Fprintf(w, "%10d", r.TokensPerRank)
		for _, c := range []result.Component{r.Components.Dispatch, r.Components.Combine, r.Components.Roundtrip} {
			fmt.Fprintf(w, "  %9s %9s", percentile(c, 50), percentile(c, 99))
		}
		gbps := "N/A"
		if p := r.Components.Roundtrip.Percentiles; p != nil && p.P50 > 0 {
			gbps = fmt.Sprintf("%.2f", float64(r.Wire().Roundtrip.Total)/float64(c.World)/(p.P50*1e3))
		}
		fmt.Fprintf(w, "  %9s  %8s  %s\n", percentile(r.Components.PairPeriod, 50), gbps, check(r))
	}
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		if !r.Correctness.Passed { // what combine gets may be wrong already
			if reasons := r.Correctness.Reasons; len(reasons) > 0 {
				fmt.Fprintf(w, "# %s: %s%s\n", tokens(r.TokensPerRank), foreign.Line(reasons[0].String()), more(len(reasons)-1))
			}
			continue
		}
		if a := r.Arithmetic; a != nil && !a.Passed {
			fmt.Fprintf(w, "# %s: combine does not add as declared (%s): %d of %d values are wrong\n",
				tokens(r.TokensPerRank), a.Accumulation, a.Wrong, a.Checked)
		}
	}
	for _, n := range d.Workload.LadderDropped {
		fmt.Fprintf(w, "# not measured: %s\n", tokens(n))
	}
	if d.Outcome.Status != result.Success {
		fmt.Fprintf(w, "# %s: %s\n", strings.ToUpper(d.Outcome.Status), foreign.Line(d.Outcome.Reasons.String()))
	}
}

// more says how many reasons are not shown.
func tokens(n int) string { return english.Count(n, "token", "tokens") }

func more(n int) string {
	if n < 1 {
		return ""
	}
	return fmt.Sprintf(", and %d more", n)
}

func percentile(c result.Component, p int) string {
	switch {
	case c.Percentiles == nil, p == 99 && c.Percentiles.P99 == nil:
		return "N/A"
	case p == 99:
		return fmt.Sprintf("%.2f", *c.Percentiles.P99)
	default:
		return fmt.Sprintf("%.2f", c.Percentiles.P50)
	}
}

// check is the verdict on a row in a word; NOT-RUN is that a check is missing and
// none failed.
func check(r *result.EPRow) string {
	switch {
	case r.Correctness.Passed && r.Complete:
		return "OK"
	case r.Correctness.Passed:
		return "INCOMPLETE"
	case r.Correctness.Reasons.Only(result.ReasonUnchecked):
		return "NOT-RUN"
	default:
		return "FAILED"
	}
}
