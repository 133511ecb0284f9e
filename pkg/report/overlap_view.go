package report

import (
	"fmt"
	"math"

	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/table"

	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

var overlapViews = []figure.View{{
	Name: "overlaps", Title: "Computation beside communication", Shape: figure.Lines, X: figure.Axis{Title: "bytes of the communication", Bytes: true},
	Note: "Times from one gate to the end: of each side alone, of both together and of one after the other. Exposed time is together − compute; it is missing where it is below the noise. " +
		"An efficiency of 1 hides the shorter side entirely; below 0, together is slower than one after the other; it is missing where the shorter side is not above the noise. Both follow from medians.",
	Facets: []figure.Facet{
		{Title: "work", One: true},
		{Title: "contender", Values: vocab.Contenders(vocab.LinearRotation)},
		{Title: "type", Values: vocab.DTypes()},
		{Title: "compute"},
	},
	Rates:   []figure.Rate{{Name: "efficiency", Title: "overlap efficiency", Given: true}, {Name: "exposed", Title: "exposed time", Unit: "µs", Given: true}},
	Latency: true,
}}

// overlapSeries are a series for each contender. The figures stand with both sides together.
func overlapSeries(doc result.Document) []figure.Series {
	d := doc.(*result.OverlapDocument)
	b, rows := d.Identity.Case.Overlap(), d.Measurement.Rows
	reasons := figure.RowReasons(&d.Envelope, len(rows), func(i int) string {
		return figure.Verified(rows[i].Complete, rows[i].Verify.Passed, rows[i].Verify.Detail)
	})
	work := fmt.Sprintf("%s (hidden %d)", b.Form, b.Hidden)
	if b.Form == vocab.Beside {
		work = fmt.Sprintf("%s %s (hidden %d, %s, %s)", b.Form, b.Op, b.Hidden, table.Plural(b.Products, "product"), table.Plural(b.Collectives, "collective"))
	}
	var all figure.Collected
	for i := range rows {
		r := &rows[i]
		times := r.Times()
		for _, contender := range vocab.Contenders(b.Form) {
			time := times[contender]
			if time == nil {
				continue
			}
			figures := []float64{math.NaN(), math.NaN()}
			if contender == vocab.Together {
				if exposed := r.ExposedBeyondNoise(); exposed != nil {
					figures[1] = *exposed
				}
				if r.Efficiency != nil {
					figures[0] = *r.Efficiency
				}
			}
			all.Add("overlaps", []string{work, contender, d.Identity.Case.Precision, computes(b.Compute, d.Measurement.SharedProcessor)}, figure.Point{
				X: r.Bytes, Time: figure.MicrosecondsOf(*time, 1), Work: figures, Samples: time.N, Reason: reasons[i],
			})
		}
	}
	return all.Series
}
