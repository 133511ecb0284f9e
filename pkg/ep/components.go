package ep

import (
	"cmp"

	"github.com/collectivex/collectivex/pkg/figure"
)

// Timings of EP figures. Times with different timings are not comparable.
const (
	fresh   = "fresh"   // one operation on an idle pipeline, slowest rank
	chained = "chained" // dispatch and combine back to back
	derived = "derived" // computed from percentiles, not measured

	replayed = "graph-" // prefix of the three above for replayed graphs
)

// component is a timed quantity of a row: its path in documents and its presentation in exports,
// comparisons and charts.
type component struct {
	at       string // path in a row
	figure   string // its name in exports
	timing   string
	origin   string                  // empty: the origin of fresh entries
	chart    string                  // name in charts; empty: not charted
	compared bool                    // whether comparisons include it, under the name in charts
	signed   bool                    // it is a difference, which may be 0
	added    bool                    // older documents lack it
	each     bool                    // one sample for each chain
	below    func(r *Row) *Component // what it is a part of, sample by sample; nil: of nothing
	of       func(r *Row) *Component
}

// components are in the order of exports.
var components = []component{
	{at: "components.pair_period", figure: "pair_period", timing: chained, origin: OriginChainedMedian, chart: "pair period", compared: true, below: func(r *Row) *Component { return cmp.Or(r.PairMiddle, &missing) }, of: func(r *Row) *Component { return &r.Components.PairPeriod }},
	{at: "components.dispatch", figure: "dispatch", timing: fresh, chart: "dispatch", compared: true, of: func(r *Row) *Component { return &r.Components.Dispatch }},
	{at: "components.combine", figure: "combine", timing: fresh, chart: "combine", compared: true, of: func(r *Row) *Component { return &r.Components.Combine }},
	{at: "components.roundtrip", figure: "roundtrip", timing: fresh, chart: "roundtrip", compared: true, of: func(r *Row) *Component { return &r.Components.Roundtrip }},
	{at: "components.stage", figure: "stage", timing: fresh, origin: OriginMeasured, chart: "stage", of: func(r *Row) *Component { return &r.Components.Stage }},
	{at: "components.isolated_sum", figure: "isolated_sum", timing: derived, origin: OriginPercentileSum, chart: "isolated sum", of: func(r *Row) *Component { return &r.Components.IsolatedSum }},
	{at: "pair_period_middle_mean_us", figure: "pair_period_middle_mean", timing: chained, origin: OriginChainedMiddle, added: true, of: func(r *Row) *Component { return cmp.Or(r.PairMiddle, &missing) }},
	{at: "chain_floor_us.dispatch", figure: "chain_floor_dispatch", timing: chained, origin: OriginChainedRankMin, chart: "dispatch floor", of: func(r *Row) *Component { return &r.ChainFloor.Dispatch }},
	{at: "chain_floor_us.combine", figure: "chain_floor_combine", timing: chained, origin: OriginChainedRankMin, chart: "combine floor", of: func(r *Row) *Component { return &r.ChainFloor.Combine }},
	{at: "chain_health.pair_spread_us", figure: "pair_spread", timing: chained, origin: OriginMeasured, signed: true, of: func(r *Row) *Component { return &r.ChainHealth.PairSpread }},
	{at: "chain_health.interpair_gap_us", figure: "interpair_gap", timing: chained, origin: OriginMeasured, signed: true, each: true, of: func(r *Row) *Component { return &r.ChainHealth.InterpairGap }},
	{at: "chain_health.settle_drift_us", figure: "settle_drift", timing: chained, origin: OriginMeasured, signed: true, each: true, of: func(r *Row) *Component { return &r.ChainHealth.SettleDrift }},
	{at: "cross_rank_min_us.dispatch", figure: "cross_rank_min_dispatch", timing: fresh, below: func(r *Row) *Component { return &r.Components.Dispatch }, of: func(r *Row) *Component { return &r.RankMin.Dispatch }},
	{at: "cross_rank_min_us.combine", figure: "cross_rank_min_combine", timing: fresh, below: func(r *Row) *Component { return &r.Components.Combine }, of: func(r *Row) *Component { return &r.RankMin.Combine }},
	{at: "cross_rank_min_us.roundtrip", figure: "cross_rank_min_roundtrip", timing: fresh, below: func(r *Row) *Component { return &r.Components.Roundtrip }, of: func(r *Row) *Component { return &r.RankMin.Roundtrip }},
	{at: "cross_rank_spread_us", figure: "cross_rank_spread", timing: fresh, origin: OriginMeasured, signed: true, below: func(r *Row) *Component { return &r.Components.Roundtrip }, of: func(r *Row) *Component { return &r.RankSpread }},
}

// missing is a component that a document lacks.
var missing = Component{Availability: Unavailable}

// charted lists the indices of charted components, in the order of the charts.
var charted = []int{0, 3, 1, 2, 4, 5, 7, 8}

func chartNames() (names []string) {
	for _, i := range charted {
		names = append(names, components[i].chart)
	}
	return names
}

// moves returns the bytes that a charted component moves, nil if they are not counted, and whether
// it handles all tokens of the row.
func (c *component) moves(b *Bytes) (bytes *ByteCount, all bool) {
	switch c.figure {
	case "pair_period", "roundtrip":
		return &b.Roundtrip, true
	case "dispatch":
		return &b.Dispatch, false
	case "combine":
		return &b.Combine, false
	case "stage":
		return &b.Stage, false
	default:
		return nil, false
	}
}

// view is the name of the chart.
const view = "ep"

var views = []figure.View{{
	Name: view, Title: "Expert parallelism", Shape: figure.Lines, X: figure.Axis{Title: "tokens per rank"},
	Note: "The pair period is the time from one dispatch to the next in a chain of dispatch and combine, and the floors are the fastest rank's " +
		"share of it. Dispatch, combine and roundtrip start from rest and are of the slowest rank. Bandwidth is logical bytes per GPU.",
	Facets: []figure.Facet{
		{Title: "operation", Values: chartNames(), One: true},
		{Title: "phase", Values: Phases(), One: true},
		{Title: "mode", Values: Modes()},
		{Title: "precision", Values: Precisions()},
		{Title: "workload"},
		{Title: "routing"},
		{Title: "timing", Values: TimingModes()},
	},
	Rates: []figure.Rate{
		{Name: "tokens", Title: "token rate", Unit: "tokens/s"},
		{Name: "bandwidth", Title: "bandwidth per GPU", Unit: "GB/s"},
	},
	Latency: true,
}}

// basis returns what the byte counts of a row are based on.
func basis(r *Row) string {
	if r.WireBytes == nil {
		return WirePerRank // the only basis of earlier documents
	}
	return r.LogicalCopies.Wire
}
