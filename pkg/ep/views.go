package ep

import "github.com/collectivex/collectivex/pkg/figure"

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

// basis says what the bytes of a row count.
func basis(r *Row) string {
	if r.WireBytes == nil {
		return WirePerRank // the only one there was
	}
	return r.LogicalCopies.Wire
}
