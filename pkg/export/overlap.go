package export

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/figure"

	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// overlapRows has the bytes of the communication as its x, the form as its mode, and the
// contender as its timing.
func overlapRows(doc result.Document, head Row) (rows []Row) {
	d := doc.(*result.OverlapDocument)
	b := d.Identity.Case.Overlap()
	head.OpOrPhase, head.Mode, head.XName = b.Communication(), b.Form, "bytes"
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		row := head
		row.X, row.Complete, row.Passed = whole(r.Bytes), r.Complete, r.Verify.Passed
		row.Placement = fmt.Sprintf("%s %dx%dx%d", d.Measurement.Compute, r.ProductM, r.ProductN, r.ProductK)
		times := r.Times()
		for _, name := range vocab.Contenders(b.Form) {
			if times[name] != nil {
				row.Timing = name
				rows = append(rows, contended(row, times[name])...)
			}
		}
		rows = append(rows, overlapFigures(row, r)...)
	}
	return rows
}

// contended returns the times of a contender.
func contended(row Row, b *result.Burst) (rows []Row) {
	row.Metric, row.Unit, row.SampleCount = "latency", figure.Microseconds, known(b.N)
	for _, f := range []struct {
		stat  string
		value float64
	}{{"p50", b.P50}, {"p95", b.P95}, {"min", b.Min}, {"max", b.Max}} {
		row.Stat, row.Value = f.stat, f.value
		rows = append(rows, row)
	}
	return rows
}

// overlapFigures returns what follows from the medians.
func overlapFigures(row Row, r *result.OverlapRow) (rows []Row) {
	row.Timing, row.Stat, row.SampleCount = vocab.Together, "at_p50", nil
	for _, f := range []struct {
		metric, unit string
		value        *float64
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
			row.Metric, row.Unit, row.Value = f.metric, f.unit, *f.value
			rows = append(rows, row)
		}
	}
	return rows
}
