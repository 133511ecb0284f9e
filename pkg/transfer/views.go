package transfer

import (
	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Clocks of a burst. A chart shows one of them at a time.
const (
	clockPrepared   = "with preparation"    // from making the first handle to the end of the last request
	clockUnprepared = "without preparation" // posting and waiting: the sum of their medians
)

// view is the name of the chart.
const view = "transfers"

var views = []figure.View{{
	Name: view, Title: "Transfers", Shape: figure.Lines, X: figure.Axis{Title: "context", Unit: "tokens"},
	Note: "Bursts of requests that move a KV cache, over the tokens of a request (context) or the requests of a burst (batch). The clock with " +
		"preparation includes making descriptor lists and handles. Without it, the latency is the sum of the medians of posting and waiting.",
	Facets: []figure.Facet{
		{Title: "operation", Values: Ops(), One: true},
		{Title: "clock", Values: []string{clockPrepared, clockUnprepared}, One: true},
		{Title: "cache", One: true},
		{Title: "lane", Values: vocab.Lanes()},
		{Title: "arrangement", Values: Arrangements()},
		{Title: "blocks", Number: true}, // of the burst: as one (bulk), or so many tokens each
		{Title: "batch", Number: true},
	},
	Swap: "batch", Rates: []figure.Rate{{Name: "rate", Title: "rate", Unit: "GB/s"}},
}}
