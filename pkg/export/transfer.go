package export

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/figure"

	"github.com/collectivex/collectivex/pkg/result"
)

// burst is the timing of transfers: from the handle of the first request to the end of the
// last one.
const burst = "burst"

// transferRows has a burst's bytes as its x, and what else tells bursts apart as its
// placement.
func transferRows(doc result.Document, head Row) (rows []Row) {
	d := doc.(*result.TransferDocument)
	t, m := d.Identity.Case.Transfer(), &d.Measurement
	head.Mode, head.DType, head.XName, head.Timing = t.Mode, d.Identity.Case.Precision, "burst_bytes", burst
	for i := range m.Rows {
		r := &m.Rows[i]
		row := head
		row.OpOrPhase, row.X, row.Complete, row.Passed = r.Op, whole(r.ReqBytes*int64(r.Batch)), r.Complete, r.Verify.Passed
		row.Placement = fmt.Sprintf("%s isl%d", r.Kind, r.ISL)
		if r.PageTokens != nil {
			row.Placement += fmt.Sprintf(" page%d batch%d", *r.PageTokens, r.Batch)
		}
		rows = append(rows, bursts(row, "latency", r.Latency)...)
		rows = append(rows, bursts(row, "request", r.Request)...)
		for _, f := range []struct {
			metric, stat, unit string
			value              float64
		}{
			{"prepare", "p50", figure.Microseconds, 1e3 * r.Parts.Prepare},
			{"post", "p50", figure.Microseconds, 1e3 * r.Parts.Post},
			{"rate", "at_p50", figure.GBPerSecond, r.Rate()},
			{"wrong_words", "total", figure.Dimensionless, float64(r.Verify.Wrong.Total())},
		} {
			row.Metric, row.Stat, row.Unit, row.Value = f.metric, f.stat, f.unit, f.value
			rows = append(rows, row)
		}
	}
	for _, s := range m.Sustained {
		row := head
		row.OpOrPhase, row.X, row.Placement, row.Complete, row.Passed = s.Op, whole(s.Bytes/int64(max(1, s.Bursts))), "sustained", true, s.Verify.Passed
		for _, f := range []struct {
			metric, unit string
			value        float64
		}{{"rate", figure.GBPerSecond, s.GBps}, {"cpu_s_per_gb", figure.Dimensionless, s.CPU}} {
			row.Metric, row.Stat, row.Unit, row.Value = f.metric, "mean", f.unit, f.value
			rows = append(rows, row)
		}
	}
	return rows
}

// bursts returns the rows of the figures of a sample.
func bursts(row Row, metric string, b result.Burst) (rows []Row) {
	row.Metric, row.Unit, row.SampleCount = metric, figure.Microseconds, known(b.N)
	for _, f := range []struct {
		stat  string
		value float64
	}{{"p50", b.P50}, {"p95", b.P95}, {"min", b.Min}, {"max", b.Max}} {
		row.Stat, row.Value = f.stat, 1e3*f.value
		rows = append(rows, row)
	}
	return rows
}
