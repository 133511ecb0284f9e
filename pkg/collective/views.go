package collective

import (
	"slices"
	"strconv"

	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Facets tell the series of collectives apart.
var Facets = []figure.Facet{
	{Title: "operation", Values: vocab.Ops(), One: true},
	{Title: "timing", Values: vocab.TimingModes(), One: true},
	{Title: "placement", Values: vocab.Placements(), One: true},
	{Title: "type", Values: vocab.DTypes()},
	{Title: "redop", Values: vocab.RedOps()},
	{Title: "root"},
	{Title: "traffic"},
	{Title: "buffers", Values: vocab.BufferStates()},
	{Title: "registration", Values: vocab.Registrations()},
}

// Rates are the rates of the charts: the bus bandwidth.
var Rates = []figure.Rate{{Name: "busbw", Title: "bus bandwidth", Unit: "GB/s"}}

const (
	viewCollectives = "collectives"
	viewPairs       = "pairs"
)

// views are two: a pairwise operation has a row for each pair of ranks.
var views = []figure.View{
	{
		Name: viewCollectives, Title: "Collectives", Shape: figure.Lines, X: figure.Axis{Title: "size", Bytes: true},
		Note:   "Bus bandwidth as nccl-tests defines it. Timing modes measure different things and are not comparable.",
		Facets: Facets, Rates: Rates, Fits: true,
	},
	{
		Name: viewPairs, Title: "Pairs of ranks", Shape: figure.Grid, X: figure.Axis{Title: "pair"},
		Note:   "Each pair by itself, from rank (row) to rank (column). An operation that goes both ways has one figure for both directions.",
		Facets: append(slices.Clone(Facets), figure.Facet{Title: "size", One: true}), Rates: Rates,
		Reverse: true, // the largest size first
	},
}

// facetsOf returns the values of Facets of a series, with room for one more.
func facetsOf(d *Document, mode, placement string) []string {
	m := &d.Measurement
	return append(make([]string, 0, len(Facets)+1),
		m.Op, mode, placement, m.DType, m.RedOp, strconv.Itoa(m.Root), Of(&d.Identity.Case).TrafficName, m.Buffers, m.Registration)
}
