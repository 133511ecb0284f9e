package ep

import (
	"cmp"
	"strings"

	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// figures returns a row for each component of each rung, with the tokens per rank as X. The first
// row of a rung has its chart lines.
func figures(doc result.Document) (rows []figure.Row) {
	d := doc.(*Document)
	e := Of(&d.Identity.Case)
	head := figure.Labels{Op: e.Phase, Mode: e.Mode, DType: d.Measurement.DispatchDType, XName: "tokens_per_rank"}
	tick := figure.Tick(&d.Identity.Case)
	facets := facetsOf(d)
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		head.X = int64(r.TokensPerRank)
		of := rowFigures(r, head, e.EPSize, tick)
		for i := range of {
			of[i].Complete, of[i].Passed = r.Complete, r.Correctness.Passed
			if f := &of[i]; f.Timing != "" && e.TimingMode == vocab.Graph {
				f.Timing = replayed + f.Timing
			}
		}
		if len(of) > 0 {
			of[0].Lines = lines(r, facets, d.Factors().EP)
		}
		rows = append(rows, of...)
	}
	return rows
}

// rowFigures returns the figures of a rung in a world of ranks.
func rowFigures(r *Row, head figure.Labels, world int, tick float64) (rows []figure.Row) {
	add := func(timing string, rung *figure.Rung, figures ...figure.Figure) {
		row := figure.Row{Labels: head, Rung: rung, Figures: figures}
		row.Timing = timing
		rows = append(rows, row)
	}
	for i := range components {
		f := &components[i]
		c := f.of(r)
		if c.Percentiles == nil {
			continue
		}
		var rung *figure.Rung
		if f.compared {
			rung = &figure.Rung{
				Clock: f.chart, Figure: f.figure, Size: int64(r.TokensPerRank), Label: plural.Count(r.TokensPerRank, "token", "tokens"), Tick: tick,
			}
		}
		add(f.timing, rung, figure.Percentiles(f.figure, figure.Microseconds, "", r.percentiles(*c), c.SampleCount)...)
	}
	wire := r.Wire()
	for _, f := range []struct {
		name  string
		bytes ByteCount
		Component
	}{
		{"dispatch_bandwidth", wire.Dispatch, r.Components.Dispatch},
		{"combine_bandwidth", wire.Combine, r.Components.Combine},
		{"roundtrip_bandwidth", wire.Roundtrip, r.Components.Roundtrip},
	} {
		if f.Percentiles != nil {
			add(fresh, nil, figure.Figure{
				Name: f.name, Stat: "at_p50", Unit: figure.GBPerSecond, Value: f.bytes.PerGPU(f.Percentiles.P50, world), Samples: f.SampleCount,
			})
		}
	}
	if r.TokenRate != nil {
		add(fresh, nil, figure.Percentiles("token_rate", figure.PerSecond, "at_", *r.TokenRate, r.Components.Roundtrip.SampleCount)...)
	}
	if x := r.Correctness.MaxRelativeError; x != nil {
		add("", nil, figure.Figure{Name: "relative_error", Stat: "max", Unit: figure.Dimensionless, Value: *x})
	}
	if x := r.RoutingStats.MaxVio; x != nil {
		add("", nil, figure.Figure{Name: "max_vio", Stat: "max", Unit: figure.Dimensionless, Value: *x})
	}
	return rows
}

// percentiles returns the percentiles of a component of which there are enough samples. Those of a sum are
// based on the samples of its parts.
func (r *Row) percentiles(c Component) result.Percentiles {
	return c.Percentiles.Of(cmp.Or(c.SampleCount, r.Components.Dispatch.SampleCount))
}

// facetsOf returns the facets of all lines of a document, without the operation.
func facetsOf(d *Document) []string {
	f, b := d.Factors(), Of(&d.Identity.Case)
	mode := f.Mode
	if b.Layout != "" && b.Layout != ExpertMajor { // documents may omit it
		mode += " " + b.Layout
	}
	if c := d.Identity.Case.Contract; c != ContractLayout {
		mode += " " + c
	}
	if words := b.Tuning.Words(); len(words) > 0 {
		mode += " " + strings.Join(words, " ")
	}
	return []string{f.Phase, mode, f.Precision, f.Workload, f.Routing, cmp.Or(b.TimingMode, Eager)}
}

// lines returns the points of a rung in the charts.
func lines(r *Row, facets []string, world int) []figure.Line {
	var lines []figure.Line
	wire := r.Wire()
	reason := figure.ReasonOf(r.Complete, r.Correctness.Passed, r.Correctness.Reasons)
	for _, at := range charted {
		c := components[at].of(r)
		if c.Percentiles == nil {
			continue
		}
		work := make([]float64, 2)
		bytes, all := components[at].moves(&wire)
		if all {
			work[0] = float64(r.GlobalTokens) * 1e6
		}
		l := figure.Line{View: view, Facets: append([]string{components[at].chart}, facets...)}
		if bytes != nil && world > 0 {
			work[1] = float64(bytes.Total) / 1e3 / float64(world)
			l.Basis = basis(r)
		}
		l.Point = figure.Point{X: int64(r.TokensPerRank), Time: r.percentiles(*c), Work: work, Samples: c.SampleCount, Reason: reason}
		lines = append(lines, l)
	}
	return lines
}
