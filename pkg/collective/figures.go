package collective

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/table"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Figures returns a row for each timing mode of each row of a document, with the state of the
// buffers as its mode, and one row that counts wrong elements.
func Figures(d *Document) []figure.Row {
	m := &d.Measurement
	modes := vocab.TimingModes()
	rows := make([]figure.Row, 0, len(m.Rows)*(1+len(Of(&d.Identity.Case).Modes)))
	for i := range m.Rows {
		r := &m.Rows[i]
		row := figure.Row{
			Labels: figure.Labels{
				Key: r.Key, Op: m.Op, Mode: m.Buffers, DType: m.DType, XName: "bytes", X: r.Requested,
				Placement: r.placement(), Src: r.Src, Dst: r.Dst,
			},
			Complete: r.Complete, Passed: r.Check.Passed && (m.Arithmetic == nil || m.Arithmetic.Passed),
		}
		rung := r.rung()
		for _, mode := range modes {
			t := *r.Timing(mode)
			if t == nil {
				continue
			}
			timed, at := row, rung
			if at.Clock = mode; mode == vocab.PerIteration { // timed by events
				at.Tick = figure.Tick(&d.Identity.Case)
			}
			timed.Timing, timed.Rung, timed.Lines, timed.Figures = mode, &at, lines(d, r, mode, t), t.figures()
			rows = append(rows, timed)
		}
		row.Figures = []figure.Figure{{Name: "wrong_elements", Stat: "total", Unit: figure.Dimensionless, Value: float64(r.Check.Wrong)}}
		rows = append(rows, row)
	}
	return rows
}

// figures returns the figures of a timing mode.
func (t *Timing) figures() []figure.Figure {
	out := figure.Percentiles(figure.Latency, figure.Microseconds, "", t.Percentiles, t.SampleCount)
	add := func(name, stat, unit string, value float64) {
		out = append(out, figure.Figure{Name: name, Stat: stat, Unit: unit, Value: value, Samples: t.SampleCount})
	}
	add(figure.Latency, "min", figure.Microseconds, t.Min)
	add(figure.Latency, "mean", figure.Microseconds, t.Mean)
	add(figure.Latency, "max", figure.Microseconds, t.Max)
	add("cross_rank_min", "p50", figure.Microseconds, t.RankMin)
	add("cross_rank_mean", "p50", figure.Microseconds, t.RankMean)
	if t.Enqueue > 0 {
		add("enqueue", "p50", figure.Microseconds, t.Enqueue)
	}
	add("algbw", "at_p50", figure.GBPerSecond, t.AlgBW)
	add("busbw", "at_p50", figure.GBPerSecond, t.BusBW)
	return out
}

// placement returns the placement of a row and, if it is of a group, its ranks.
func (r *Row) placement() string {
	if r.Group == nil {
		return r.Placement
	}
	return fmt.Sprintf("%s ranks %v", r.Placement, r.Group)
}

// rung identifies a row in comparisons.
func (r *Row) rung() figure.Rung {
	curve := r.placement()
	if r.Src != nil && r.Dst != nil {
		curve += fmt.Sprintf(" rank %d to %d", *r.Src, *r.Dst)
	}
	label := fmt.Sprintf("%d B %s", r.Requested, curve)
	if r.Slots > 1 {
		label += ", " + plural.Count(r.Slots, "buffer", "buffers")
	}
	return figure.Rung{Size: r.Requested, Label: label, Curve: curve}
}

// lines returns the points of a row in its chart: one, or one for each direction of a
// bidirectional operation.
func lines(d *Document, r *Row, mode string, t *Timing) []figure.Line {
	c := &d.Identity.Case
	pairs := Of(c).Pairs(c.World)
	line := figure.Line{View: viewCollectives, Facets: facetsOf(d, mode, r.Placement), Point: figure.Point{
		X: r.Requested, Time: t.Percentiles, Work: []float64{t.BusBW * t.Percentiles.P50}, Samples: t.SampleCount,
		Slots: r.Slots, Reason: figure.ReasonOf(r.Complete, r.Check.Passed, r.Check.Reasons),
	}}
	if a := d.Measurement.Arithmetic; a != nil && !a.Passed {
		line.Reason = figure.ReasonOf(r.Complete, false, a.Reasons)
	}
	switch {
	case r.Requested == 0 || r.Group != nil: // axes are logarithmic, and groups have no series of their own
		return nil
	case pairs == 0:
		return []figure.Line{line}
	case !r.IsOf(c.World):
		return nil
	}
	line.View, line.Facets, line.X = viewPairs, append(line.Facets, table.Size(r.Bytes)), int64(*r.Src*c.World+*r.Dst)
	lines := []figure.Line{line}
	if pairs < c.World*(c.World-1) {
		line.X = int64(*r.Dst*c.World + *r.Src)
		lines = append(lines, line)
	}
	return lines
}

// Facets distinguish the series of collectives.
var Facets = []figure.Facet{
	{Title: "operation", Values: vocab.Ops(), One: true},
	{Title: "timing", Values: vocab.TimingModes(), One: true},
	{Title: "placement", Values: vocab.Placements(), One: true},
	{Title: "type", Values: vocab.DTypes()},
	{Title: "redop", Values: vocab.RedOps()},
	{Title: "root", Number: true},
	{Title: "traffic"},
	{Title: "buffers", Values: vocab.BufferStates()},
	{Title: "registration", Values: vocab.Registrations()},
	{Title: "algorithm", Values: AlgorithmNames()},
	{Title: "windows"},
}

// Rates are the rates of the charts: the bus bandwidth.
var Rates = []figure.Rate{{Name: "busbw", Title: "bus bandwidth", Unit: "GB/s"}}

const (
	viewCollectives = "collectives"
	viewPairs       = "pairs"
)

// views holds two charts, since pairwise operations have a row for each pair of ranks.
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
		Reverse: true, // largest size first
	},
}

// facetsOf returns the values of Facets for a series.
func facetsOf(d *Document, mode, placement string) []string {
	m, b := &d.Measurement, Of(&d.Identity.Case)
	return []string{m.Op, mode, placement, m.DType, m.RedOp, strconv.Itoa(m.Root), b.TrafficName, m.Buffers, m.Registration, b.Variant(), strings.Join(b.How(), ", ")}
}
