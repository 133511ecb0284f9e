package ep

import "github.com/collectivex/collectivex/pkg/figure"

// view is the name of the chart.
const view = "ep"

var views = []figure.View{{
	Name: view, Title: "Expert parallelism", Shape: figure.Lines, X: figure.Axis{Title: "tokens per rank"},
	Note: "The pair period is the time from one dispatch to the next in a chain of dispatch and combine, and the floors are the fastest rank's " +
		"share of it. Dispatch, combine and roundtrip start from rest and are of the slowest rank. Bandwidth is logical bytes per GPU.",
	Facets: []figure.Facet{
		{Title: "operation", Values: operationNames(), One: true},
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

// operation is a component of a row that charts show, and what it moves.
type operation struct {
	name   string
	time   func(r *Row) *Component
	bytes  func(b *Bytes) *ByteCount // nil: none
	tokens bool                      // it handles all tokens of the row
}

var (
	dispatchBytes  = func(b *Bytes) *ByteCount { return &b.Dispatch }
	combineBytes   = func(b *Bytes) *ByteCount { return &b.Combine }
	stageBytes     = func(b *Bytes) *ByteCount { return &b.Stage }
	roundtripBytes = func(b *Bytes) *ByteCount { return &b.Roundtrip }
)

var operations = []operation{
	{"pair period", func(r *Row) *Component { return &r.Components.PairPeriod }, roundtripBytes, true},
	{"roundtrip", func(r *Row) *Component { return &r.Components.Roundtrip }, roundtripBytes, true},
	{"dispatch", func(r *Row) *Component { return &r.Components.Dispatch }, dispatchBytes, false},
	{"combine", func(r *Row) *Component { return &r.Components.Combine }, combineBytes, false},
	{"stage", func(r *Row) *Component { return &r.Components.Stage }, stageBytes, false},
	{"isolated sum", func(r *Row) *Component { return &r.Components.IsolatedSum }, nil, false},
	{"dispatch floor", func(r *Row) *Component { return &r.ChainFloor.Dispatch }, nil, false},
	{"combine floor", func(r *Row) *Component { return &r.ChainFloor.Combine }, nil, false},
}

func operationNames() []string {
	names := make([]string, len(operations))
	for i, o := range operations {
		names[i] = o.name
	}
	return names
}

// basis says what the bytes of a row count.
func basis(r *Row) string {
	if r.WireBytes == nil {
		return WirePerRank // the only one there was
	}
	return r.LogicalCopies.Wire
}
