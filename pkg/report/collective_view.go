package report

import (
	"slices"
	"strconv"

	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/table"

	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

var collectiveFacets = []figure.Facet{
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

var busBandwidth = []figure.Rate{{Name: "busbw", Title: "bus bandwidth", Unit: "GB/s"}}

// collectiveViews are two: a pairwise operation has a row for each pair of ranks.
var collectiveViews = []figure.View{
	{
		Name: "collectives", Title: "Collectives", Shape: figure.Lines, X: figure.Axis{Title: "size", Bytes: true},
		Note:   "Bus bandwidth as nccl-tests defines it. Timing modes measure different things and are not comparable.",
		Facets: collectiveFacets, Rates: busBandwidth, Fits: true,
	},
	{
		Name: "pairs", Title: "Pairs of ranks", Shape: figure.Grid, X: figure.Axis{Title: "pair"},
		Note:   "Each pair by itself, from rank (row) to rank (column). An operation that goes both ways has one figure for both directions.",
		Facets: append(slices.Clone(collectiveFacets), figure.Facet{Title: "size", One: true}), Rates: busBandwidth,
	},
}

func collectiveSeries(doc result.Document) []figure.Series {
	d := doc.(*result.CollectiveDocument)
	c := &d.Identity.Case
	m := &d.Measurement
	pairs := c.Collective().Pairs(c.World)
	type line struct {
		mode, placement string
		bytes           int64 // of a pair
	}
	at := map[line]int{}
	var out []figure.Series
	works := make([]float64, 0, len(m.Rows)*len(c.Collective().Modes))
	for i := range m.Rows {
		r := &m.Rows[i]
		for _, mode := range vocab.TimingModes() {
			t := *r.Timing(mode)
			if t == nil || pairs > 0 && !r.IsOf(c.World) {
				continue
			}
			l := line{mode: mode, placement: r.Placement}
			s := figure.Series{
				View:   "collectives",
				Facets: []string{m.Op, mode, r.Placement, m.DType, m.RedOp, strconv.Itoa(m.Root), c.Collective().TrafficName, m.Buffers, m.Registration},
			}
			x := []int64{r.Requested}
			if pairs > 0 {
				l.bytes = r.Bytes
				s.View, s.Facets = "pairs", append(s.Facets, table.Size(r.Bytes))
				x[0] = int64(*r.Src*c.World + *r.Dst)
				if pairs < c.World*(c.World-1) {
					x = append(x, int64(*r.Dst*c.World+*r.Src))
				}
			}
			k, ok := at[l]
			if !ok {
				k = len(out)
				if pairs == 0 {
					s.Points = make([]figure.Point, 0, len(c.Collective().Sizes))
				}
				at[l], out = k, append(out, s)
			}
			works = append(works, t.BusBW*t.Percentiles.P50)
			work := works[len(works)-1:]
			for _, x := range x {
				out[k].Points = append(out[k].Points, figure.Point{
					X: x, Time: t.Percentiles, Work: work[:1:1], Samples: t.SampleCount,
					Slots: r.Slots, Reason: figure.ReasonOf(r.Complete, r.Check.Passed, r.Check.Reasons),
				})
			}
		}
	}
	if pairs > 0 {
		slices.Reverse(out) // the largest size first
	}
	return out
}
