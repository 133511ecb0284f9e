package toy

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
)

// command is `cxrun bench toy`.
var command = bench.Command{
	Family: Name, Use: "toy [TONE...]", Short: "Measure messages there and back",
	Long: "Measure messages there and back.", Example: "  cxrun bench toy ping -b 8 -e 64 -f 8",
	Words: tones, Flags: newFlags,
}

// flags are the flags as they were given.
type flags struct {
	bench.Output
	bench.Sizes
	sampling string
}

func newFlags(fs *pflag.FlagSet) (bench.Measurement, []bench.Group) {
	f := &flags{}
	g := bench.NewGroup("What is measured")
	f.Sizes.AddFlags(g, "64", bench.FirstUsage, bench.LastUsage)
	g.Flags.StringVar(&f.Backend, "backend", bench.Auto, "use backend `NAME`")
	g.Flags.StringVar(&f.sampling, "sampling", "smoke", "take the number of throws from `PROFILE`")
	f.Output.AddFlags(g)
	return f, f.AddGroups(fs, g)
}

// Ranks implements bench.Measurement.
func (*flags) Ranks([]string) (int, error) { return 2, nil }

// Plan implements bench.Measurement.
func (f *flags) Plan(words []string, cat *catalog.Catalog, be *catalog.Backend, world int) (planner.Direct, error) {
	d := f.Direct(be, world)
	sizes, err := f.List()
	if err != nil {
		return d, err
	}
	profile, err := bench.Profile[sampling](cat, f.sampling, "toys")
	if err != nil {
		return d, err
	}
	if len(words) == 0 {
		words = tones[:1]
	}
	for _, tone := range words {
		if err := bench.Known("tone", tone, tones); err != nil {
			return d, err
		}
		d.Cases = append(d.Cases, plan.Case{Family: Name, Sampling: f.sampling, Contract: contract, Block: &block{tone, sizes, profile.Throws}})
	}
	return d, nil
}

// report is toys as JSON.
type report struct {
	bench.Head

	Cases  []caseRows `json:"cases"`
	Passed bool       `json:"passed"`
}

// caseRows is the part of a document that a report has.
type caseRows struct {
	bench.Case
	Rows    []row          `json:"rows"`
	Outcome result.Outcome `json:"outcome"`
}

// Report implements bench.Measurement.
func (*flags) Report(head bench.Head) bench.Reporter {
	head.Op = "toy"
	return &report{Head: head, Cases: []caseRows{}}
}

// Title implements bench.Reporter.
func (*report) Title(place string) string { return "toys " + place }

// Add implements bench.Reporter.
func (p *report) Add(doc result.Document) {
	d := doc.(*document)
	p.Take(&d.Envelope)
	p.Cases = append(p.Cases, caseRows{bench.CaseOf(&d.Envelope), d.Rows, d.Outcome})
	p.Passed = p.Err() == nil
}

// Print implements bench.Reporter: one line a row.
func (*report) Print(w io.Writer, doc result.Document) {
	d := doc.(*document)
	fmt.Fprintf(w, "# %10s %10s  check\n", "bytes", "us")
	for i := range d.Rows {
		r := &d.Rows[i]
		fmt.Fprintf(w, "  %10d %10.2f  %s\n", r.Bytes, r.Micros.P50, bench.CheckOf(r.passed(), true))
	}
	bench.Ended(w, d.Outcome)
}
