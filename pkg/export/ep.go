package export

import (
	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Timings of EP rows. Times of unlike timing must never be compared.
const (
	fresh   = "fresh"   // one operation on an idle pipeline, slowest rank
	chained = "chained" // dispatch and combine back to back
	derived = "derived" // computed from percentiles, not measured

	replayed = "graph-" // before the three above, where graphs were replayed
)

func epRows(doc result.Document, head Row) (rows []Row) {
	d := doc.(*result.EPDocument)
	e := d.Identity.Case.EP()
	head.OpOrPhase, head.Mode, head.DType, head.XName = e.Phase, e.Mode, d.Measurement.DispatchDType, "tokens_per_rank"
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		head.X, head.Complete, head.Passed = whole(r.TokensPerRank), r.Complete, r.Correctness.Passed
		figures := epFigures(r, head, e.EPSize)
		for i := range figures {
			if f := &figures[i]; f.Timing != "" && e.TimingMode == vocab.Graph {
				f.Timing = replayed + f.Timing
			}
		}
		rows = append(rows, figures...)
	}
	return rows
}

func epFigures(r *result.EPRow, head Row, world int) (rows []Row) {
	for _, f := range []struct {
		metric, timing string
		result.Component
	}{
		{"pair_period", chained, r.Components.PairPeriod},
		{"dispatch", fresh, r.Components.Dispatch},
		{"combine", fresh, r.Components.Combine},
		{"roundtrip", fresh, r.Components.Roundtrip},
		{"stage", fresh, r.Components.Stage},
		{"isolated_sum", derived, r.Components.IsolatedSum},
		{"chain_floor_dispatch", chained, r.ChainFloor.Dispatch},
		{"chain_floor_combine", chained, r.ChainFloor.Combine},
		{"pair_spread", chained, r.ChainHealth.PairSpread},
		{"interpair_gap", chained, r.ChainHealth.InterpairGap},
		{"settle_drift", chained, r.ChainHealth.SettleDrift},
		{"cross_rank_min_dispatch", fresh, r.RankMin.Dispatch},
		{"cross_rank_min_combine", fresh, r.RankMin.Combine},
		{"cross_rank_min_roundtrip", fresh, r.RankMin.Roundtrip},
		{"cross_rank_spread", fresh, r.RankSpread},
	} {
		if f.Percentiles == nil {
			continue
		}
		row := head
		row.Metric, row.Timing, row.Unit, row.SampleCount = f.metric, f.timing, figure.Microseconds, known(f.SampleCount)
		rows = percentiles(rows, row, "", *f.Percentiles)
	}
	wire := r.Wire()
	for _, f := range []struct {
		metric string
		bytes  result.ByteCount
		result.Component
	}{
		{"dispatch_bandwidth", wire.Dispatch, r.Components.Dispatch},
		{"combine_bandwidth", wire.Combine, r.Components.Combine},
		{"roundtrip_bandwidth", wire.Roundtrip, r.Components.Roundtrip},
	} {
		if f.Percentiles == nil {
			continue
		}
		row := head
		row.Metric, row.Timing, row.Stat, row.Unit = f.metric, fresh, "at_p50", figure.GBPerSecond
		row.Value, row.SampleCount = f.bytes.PerGPU(f.Percentiles.P50, world), known(f.SampleCount)
		rows = append(rows, row)
	}
	if r.TokenRate != nil {
		row := head
		row.Metric, row.Timing, row.Unit, row.SampleCount = "token_rate", fresh, figure.PerSecond, known(r.Components.Roundtrip.SampleCount)
		rows = percentiles(rows, row, "at_", *r.TokenRate)
	}
	if x := r.Correctness.MaxRelativeError; x != nil {
		row := head
		row.Metric, row.Stat, row.Unit, row.Value = "relative_error", "max", figure.Dimensionless, *x
		rows = append(rows, row)
	}
	return rows
}
