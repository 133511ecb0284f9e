package overlap

import (
	"fmt"
	"math"

	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/table"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// figures returns rows with the bytes of the communication as X, the form as mode, and the contender as timing.
func figures(doc result.Document) (rows []figure.Row) {
	d := doc.(*Document)
	c, all := &d.Identity.Case, d.Measurement.Rows
	b := Of(c)
	work, compute := workOf(b), computes(b.Compute, d.Measurement.SharedProcessor)
	for i := range all {
		r := &all[i]
		row := figure.Row{
			Labels: figure.Labels{
				Op: b.Communication(), Mode: b.Form, XName: "bytes", X: r.Bytes,
				Placement: fmt.Sprintf("%s %dx%dx%d", d.Measurement.Compute, r.ProductM, r.ProductN, r.ProductK),
			},
			Complete: r.Complete, Passed: r.Verify.Passed,
		}
		times, reason := r.Times(), figure.Verified(r.Complete, r.Verify.Passed, r.Verify.Detail)
		for _, contender := range Contenders(b.Form) {
			time := times[contender]
			if time == nil {
				continue
			}
			row.Timing, row.Figures = contender, figure.Burst(figure.Latency, *time, 1, true)
			row.Rung = &figure.Rung{Clock: contender, Size: r.Bytes, Label: r.Name(), Tick: figure.Tick(c)}
			row.Lines = []figure.Line{{
				View: view, Facets: []string{work, contender, c.Precision, compute},
				Point: figure.Point{X: r.Bytes, Time: figure.MicrosecondsOf(*time, 1), Work: given(r, contender), Samples: time.N, Reason: reason},
			}}
			rows = append(rows, row)
		}
		row.Timing, row.Figures, row.Rung, row.Lines = Together, derived(r), nil, nil
		rows = append(rows, row)
	}
	return rows
}

// workOf describes the work of a window in a chart.
func workOf(b *Block) string {
	if b.Form != Beside {
		return fmt.Sprintf("%s (hidden %d)", b.Form, b.Hidden)
	}
	return fmt.Sprintf("%s %s (hidden %d, %s, %s)", b.Form, b.Communication(), b.Hidden, table.Plural(b.Products, "product"), table.Plural(b.Collectives, "collective"))
}

// given returns the given rates of the charts: the efficiency and the exposed time. They are NaN for contenders other than
// Together.
func given(r *Row, contender string) []float64 {
	work := []float64{math.NaN(), math.NaN()}
	if contender != Together {
		return work
	}
	for i, v := range []*float64{r.Efficiency, r.ExposedBeyondNoise()} {
		if v != nil {
			work[i] = *v
		}
	}
	return work
}

// derived returns the figures derived from the medians.
func derived(r *Row) (all []figure.Figure) {
	for _, f := range []struct {
		name, unit string
		value      *float64
	}{
		{"exposed", figure.Microseconds, &r.Exposed},
		{"floor", figure.Microseconds, &r.Floor},
		{"efficiency", figure.Dimensionless, r.Efficiency},
		{"compute_coverage", figure.Dimensionless, &r.ComputeCoverage},
		{"communication_coverage", figure.Dimensionless, &r.CommunicationCoverage},
		{"compute_slowdown", figure.Dimensionless, r.ComputeSlowdown},
		{"communication_slowdown", figure.Dimensionless, r.CommunicationSlowdown},
		{"compute_tax", figure.Dimensionless, r.ComputeTax},
		{"communication_tax", figure.Dimensionless, r.CommunicationTax},
	} {
		if f.value != nil {
			all = append(all, figure.Figure{Name: f.name, Stat: "at_p50", Unit: f.unit, Value: *f.value})
		}
	}
	return all
}

const view = "overlaps"

var views = []figure.View{{
	Name: view, Title: "Computation beside communication", Shape: figure.Lines, X: figure.Axis{Title: "bytes of the communication", Bytes: true},
	Note: "Times from the opening of the start gate to the end: each side alone, both together, and serial (one side after the other). Exposed time is together − compute; it is missing where it is below the noise. " +
		"An efficiency of 1 hides the shorter side entirely; below 0, together is slower than serial; it is missing where the shorter side is not above the noise. Both are computed from medians.",
	Facets: []figure.Facet{
		{Title: "work", One: true},
		{Title: "contender", Values: Contenders(LinearRotation)},
		{Title: "type", Values: vocab.DTypes()},
		{Title: "compute"},
	},
	Rates:   []figure.Rate{{Name: "efficiency", Title: "overlap efficiency", Given: true}, {Name: "exposed", Title: "exposed time", Unit: "µs", Given: true}},
	Latency: true,
}}
