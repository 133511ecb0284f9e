package export

import (
	"cmp"

	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

func collectiveRows(doc result.Document, head Row) (rows []Row) {
	d := doc.(*result.CollectiveDocument)
	m := &d.Measurement
	head.OpOrPhase, head.Mode, head.DType, head.XName = m.Op, m.Buffers, m.DType, "bytes"
	key := head.ComparisonKey
	for i := range m.Rows {
		r := &m.Rows[i]
		head.ComparisonKey = cmp.Or(r.Key, key)
		head.X, head.Placement, head.Src, head.Dst = whole(r.Requested), r.Placement, maybe(r.Src), maybe(r.Dst)
		head.Complete, head.Passed = r.Complete, r.Check.Passed
		for _, mode := range vocab.TimingModes() {
			if t := *r.Timing(mode); t != nil {
				head.Timing = mode
				rows = append(rows, timing(t, head)...)
			}
		}
		row := head
		row.Timing, row.Metric, row.Stat, row.Unit, row.Value = "", "wrong_elements", "total", figure.Dimensionless, float64(r.Check.Wrong)
		rows = append(rows, row)
	}
	return rows
}

// timing returns the rows of one timing mode.
func timing(t *result.Timing, row Row) []Row {
	row.Metric, row.Unit, row.SampleCount = "latency", figure.Microseconds, known(t.SampleCount)
	rows := percentiles(nil, row, "", t.Percentiles)
	for _, f := range []struct {
		metric, stat, unit string
		value              float64
		has                bool
	}{
		{"latency", "min", figure.Microseconds, t.Min, true},
		{"latency", "mean", figure.Microseconds, t.Mean, true},
		{"latency", "max", figure.Microseconds, t.Max, true},
		{"cross_rank_min", "p50", figure.Microseconds, t.RankMin, true},
		{"cross_rank_mean", "p50", figure.Microseconds, t.RankMean, true},
		{"enqueue", "p50", figure.Microseconds, t.Enqueue, t.Enqueue > 0},
		{"algbw", "at_p50", figure.GBPerSecond, t.AlgBW, true},
		{"busbw", "at_p50", figure.GBPerSecond, t.BusBW, true},
	} {
		if f.has {
			row.Metric, row.Stat, row.Unit, row.Value = f.metric, f.stat, f.unit, f.value
			rows = append(rows, row)
		}
	}
	return rows
}
