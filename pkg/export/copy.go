package export

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/result"
)

// copyRows has the bytes of a copy as its x, the kind of host memory as its mode, and the
// clock as its timing.
func copyRows(doc result.Document, head Row) (rows []Row) {
	d := doc.(*result.CopyDocument)
	b := d.Identity.Case.Copy()
	head.OpOrPhase, head.Mode, head.XName = b.Test, b.HostMemory, "bytes"
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		row := head
		row.X, row.Complete, row.Passed = whole(r.Bytes), r.Complete, r.Verify.Passed
		row.Placement = fmt.Sprintf("%s streams%d pieces%d", b.Submission, r.Streams, r.Pieces)
		for _, clock := range []struct {
			name string
			of   *result.CopyClock
		}{{"device", r.Device}, {"host", r.Host}} {
			if clock.of == nil {
				continue
			}
			row.Timing = clock.name
			rows = append(rows, clocked(row, clock.of)...)
		}
		if r.Both != nil {
			rows = append(rows, bothWays(row, r.Both)...)
		}
		if r.Victim != nil {
			rows = append(rows, victims(row, r.Victim)...)
		}
	}
	return rows
}

// bothWays returns the figures of two directions at the same time.
func bothWays(row Row, b *result.CopyBoth) []Row {
	row.Timing, row.Metric, row.Stat, row.Unit, row.SampleCount, row.Value = "host", "overlap", "at_p50", Dimensionless, nil, b.Overlap
	rows := []Row{row}
	if b.GBps > 0 {
		row.Metric, row.Unit, row.Value = "total_rate", GBPerSecond, b.GBps
		rows = append(rows, row)
	}
	return rows
}

// victims returns what copies and a victim take from each other.
func victims(row Row, v *result.CopyVictim) (rows []Row) {
	for _, of := range []struct {
		timing string
		us     *result.Burst
	}{{"victim-alone", &v.Alone}, {"victim-beside", &v.Beside}, {"copy-beside", &v.CopyBeside}} {
		row.Timing = of.timing
		rows = append(rows, contended(row, of.us)...)
	}
	row.Stat, row.Unit, row.SampleCount = "at_p50", Dimensionless, nil
	for _, f := range []struct {
		timing, metric string
		value          *float64
	}{
		{"victim-beside", "coverage", &v.Coverage},
		{"victim-beside", "slowdown", v.Slowdown},
		{"copy-beside", "coverage", &v.CopyCoverage},
		{"copy-beside", "slowdown", v.CopySlowdown},
	} {
		if f.value != nil {
			row.Timing, row.Metric, row.Value = f.timing, f.metric, *f.value
			rows = append(rows, row)
		}
	}
	return rows
}

// clocked returns the figures of one clock.
func clocked(row Row, c *result.CopyClock) (rows []Row) {
	row.Metric, row.Unit, row.SampleCount = "latency", Microseconds, known(c.Micros.N)
	for _, f := range []struct {
		stat  string
		value float64
	}{{"p50", c.Micros.P50}, {"min", c.Micros.Min}, {"max", c.Micros.Max}} {
		row.Stat, row.Value = f.stat, f.value
		rows = append(rows, row)
	}
	row.Stat, row.Unit = "at_p50", GBPerSecond
	for _, f := range []struct {
		metric string
		value  float64
	}{{"rate", c.GBps}, {"opposite_rate", c.OppositeGBps}} {
		if f.value > 0 {
			row.Metric, row.Value = f.metric, f.value
			rows = append(rows, row)
		}
	}
	return rows
}
