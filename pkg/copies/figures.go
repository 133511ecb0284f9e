package copies

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/table"
)

// Names of the clocks in comparisons.
const (
	deviceClock = "device clock"
	hostClock   = "host clock"
)

// figures returns rows with the bytes of a copy as X, the kind of host memory as mode, and the clock as timing. Swaps
// of blocks have the timing swap.
func figures(doc result.Document) (rows []figure.Row) {
	d := doc.(*Document)
	all := d.Measurement.Rows
	for i := range all {
		r := &all[i]
		rows = append(rows, rowFigures(&d.Identity.Case, r, figure.Verified(r.Complete, r.Verify.Passed, r.Verify.Detail))...)
	}
	return rows
}

// rowFigures returns the figures of a row. A non-empty reason says why the row does not count.
func rowFigures(c *plan.Case, r *Row, reason string) (rows []figure.Row) {
	b := Of(c)
	src, dst := r.Src, r.Dst
	if src == nil {
		src = r.Target
	}
	row := figure.Row{
		Labels: figure.Labels{
			Op: b.Test, Mode: b.HostMemory, XName: "bytes", X: r.Bytes,
			Placement: fmt.Sprintf("%s streams%d pieces%d", b.Submission, r.Streams, r.Pieces), Src: src, Dst: dst,
		},
		Complete: r.Complete, Passed: r.Verify.Passed,
	}
	if r.Latency != nil {
		return []figure.Row{swapFigures(b, r, row, reason)}
	}
	rung := figure.Rung{Size: r.Bytes, Label: r.Name(), Curve: strings.TrimSpace(plural.Count(r.Streams, "stream", "streams") + " " + r.Place())}
	tick := figure.Tick(c) / float64(b.Timing.Reps) // one pair of events per window
	for _, clock := range []struct {
		timing, name, view string
		tick               float64
		of                 *Clock
	}{
		{"device", deviceClock, viewDevice, tick, r.Device},
		{"host", hostClock, viewHost, 0, r.Host},
	} {
		if clock.of == nil {
			continue
		}
		at := rung
		at.Clock, at.Tick = clock.name, clock.tick
		row.Timing, row.Rung, row.Lines = clock.timing, &at, lines(clock.view, c, r, clock.of, reason)
		row.Figures = append(figure.Burst(figure.Latency, clock.of.Micros, 1, false), figure.Positive(
			figure.Figure{Name: "rate", Stat: "at_p50", Unit: figure.GBPerSecond, Value: clock.of.GBps, Samples: clock.of.Micros.N},
			figure.Figure{Name: "opposite_rate", Stat: "at_p50", Unit: figure.GBPerSecond, Value: clock.of.OppositeGBps, Samples: clock.of.Micros.N},
			figure.Figure{Name: "read_latency", Stat: "at_p50", Unit: figure.Microseconds, Value: clock.of.Nanos / 1e3, Samples: clock.of.Micros.N})...)
		rows = append(rows, row)
	}
	row.Rung, row.Lines = nil, nil
	if r.Covered != nil {
		row.Timing, row.Figures = "host", []figure.Figure{{Name: "coverage", Stat: "at_p50", Unit: figure.Dimensionless, Value: *r.Covered}}
		rows = append(rows, row)
	}
	if both := r.Both; both != nil {
		row.Timing = "host"
		row.Figures = append([]figure.Figure{{Name: "overlap", Stat: "at_p50", Unit: figure.Dimensionless, Value: both.Overlap}},
			figure.Positive(figure.Figure{Name: "total_rate", Stat: "at_p50", Unit: figure.GBPerSecond, Value: both.GBps})...)
		rows = append(rows, row)
	}
	if r.Victim != nil {
		rung.Tick = tick
		rows = append(rows, victimFigures(row, rung, r.Victim)...)
	}
	return rows
}

// swapFigures returns the figures of a row of swaps, whose clock is the host's.
func swapFigures(b *Block, r *Row, row figure.Row, reason string) figure.Row {
	l := r.Latency
	row.Placement = fmt.Sprintf("%s %s blocks%d block%d", b.Submission, b.Layout, r.Pieces, r.BlockBytes)
	row.Timing = "swap"
	row.Rung = &figure.Rung{Clock: hostClock, Size: r.Bytes, Label: r.Name(), Curve: fmt.Sprintf("blocks of %d bytes", r.BlockBytes)}
	row.Figures = append(figure.Percentiles(figure.Latency, figure.Microseconds, "", l.Micros, l.SampleCount),
		figure.Percentiles("rate", figure.GBPerSecond, "at_", l.GBps, l.SampleCount)...)
	row.Lines = []figure.Line{{
		View:   viewSwaps,
		Facets: []string{b.Test, b.HostMemory, b.Submission, b.Layout, b.Profile, strconv.FormatInt(r.BlockBytes, 10)},
		Point: figure.Point{
			X: r.Bytes, Time: l.Micros, Work: []float64{float64(r.Bytes) / 1e3}, Samples: l.SampleCount, Reason: reason,
		},
	}}
	return row
}

// lines returns the points of a clock in its chart: one, or one per direction for a test between two devices in
// both directions.
func lines(view string, c *plan.Case, r *Row, clock *Clock, reason string) (lines []figure.Line) {
	b := Of(c)
	work := []float64{r.moved() / 1e3}
	add := func(direction string, time result.Burst) {
		line := figure.Line{
			View:   view,
			Facets: []string{b.Test, direction, b.HostMemory, pieces(b.Submission, b.PageBytes, b.Victim), strconv.Itoa(r.Streams)},
			Point: figure.Point{
				X: r.Bytes, Time: figure.MicrosecondsOf(time, 1), Work: work, Samples: time.N, Reason: reason,
			},
		}
		if r.Src != nil && r.Dst != nil {
			line.View, line.X = viewPairs, int64(*r.Src*c.World+*r.Dst)
			line.Facets = append(line.Facets, strings.TrimPrefix(view, "copies-"), table.Size(r.Bytes))
		} else {
			line.Facets = append(line.Facets, r.Place())
		}
		lines = append(lines, line)
	}
	if clock.OppositeGBps == 0 {
		add("", clock.Micros)
		return lines
	}
	add(directionOwn, clock.Micros)
	add(directionOpposite, result.Burst{P50: float64(r.Bytes) / clock.OppositeGBps / 1e3, N: clock.Micros.N})
	return lines
}

// victimFigures returns the mutual slowdown of copies and a victim.
func victimFigures(row figure.Row, rung figure.Rung, v *Victim) (rows []figure.Row) {
	perUnits := 1e3 / float64(v.Units) // per 1,000 units, since runs differ in their number
	for _, of := range []struct {
		timing, clock string
		scale         float64
		time          *result.Burst
	}{
		{"victim-alone", "victim alone", perUnits, &v.Alone},
		{"victim-beside", "victim beside copies", perUnits, &v.Beside},
		{"copy-beside", "copy beside a victim", 1, &v.CopyBeside},
	} {
		at := rung
		at.Clock, at.Scale = of.clock, of.scale
		row.Timing, row.Rung, row.Figures = of.timing, &at, figure.Burst(figure.Latency, *of.time, 1, true)
		rows = append(rows, row)
	}
	row.Rung = nil
	for _, of := range []struct {
		timing   string
		coverage float64
		slowdown *float64
	}{
		{"victim-beside", v.Coverage, v.Slowdown},
		{"copy-beside", v.CopyCoverage, v.CopySlowdown},
	} {
		row.Timing, row.Figures = of.timing, []figure.Figure{{Name: "coverage", Stat: "at_p50", Unit: figure.Dimensionless, Value: of.coverage}}
		if of.slowdown != nil {
			row.Figures = append(row.Figures, figure.Figure{Name: "slowdown", Stat: "at_p50", Unit: figure.Dimensionless, Value: *of.slowdown})
		}
		rows = append(rows, row)
	}
	return rows
}

// pieces describes the pieces of a copy, their submission, and whether a victim alternates with it.
func pieces(submission string, page int64, victim bool) string {
	if page > 0 {
		submission += " of " + table.Size(page)
	}
	if victim {
		submission += ", victim"
	}
	return submission
}

var facets = []figure.Facet{
	{Title: "test", Values: Tests(), One: true},
	{Title: "direction", Values: []string{directionOwn, directionOpposite}},
	{Title: "host memory", Values: HostMemories()},
	{Title: "pieces"},
	{Title: "streams", Number: true},
}

// placed adds the device to the facets.
var placed = append(slices.Clone(facets), figure.Facet{Title: "device"})

// Directions of a test between two devices in both directions; other tests have none.
const (
	directionOwn      = "as named"
	directionOpposite = "opposite"
)

const (
	viewDevice = "copies-device"
	viewHost   = "copies-host"
	viewSwaps  = "copies-swaps"
	viewPairs  = "copies-pairs"
)

// views have one clock each, since two clocks never share a chart or column, but for that of pairs, where the clock is a facet.
var views = []figure.View{
	{
		Name: viewDevice, Title: "Copies by the device's clock", Shape: figure.Lines, X: figure.Axis{Title: "bytes of a copy", Bytes: true},
		Note:   "Windows of copies between two events of the device, enqueued before the first of them began, as nvbandwidth times them. Tests have nvbandwidth's names.",
		Facets: placed, Rates: rates, Fits: true,
	},
	{
		Name: viewHost, Title: "Copies by the host's clock", Shape: figure.Lines, X: figure.Axis{Title: "bytes of a copy", Bytes: true},
		Note:   "Windows of copies from the first call to the end of the last copy.",
		Facets: placed, Rates: rates, Fits: true,
	},
	{
		Name: viewPairs, Title: "Copies between pairs of devices", Shape: figure.Grid, X: figure.Axis{Title: "pair"},
		Note:   "Each pair by itself: data move from rank (row) to rank (column).",
		Facets: append(slices.Clone(facets), figure.Facet{Title: "clock", Values: []string{"device", "host"}, One: true}, figure.Facet{Title: "size", One: true}),
		Rates:  rates, Reverse: true, // largest size first
	},
	{
		Name: viewSwaps, Title: "Swaps of blocks", Shape: figure.Lines, X: figure.Axis{Title: "bytes of a swap", Bytes: true},
		Note: "Each swap by the host's clock, from before its first call until the device has made its last copy, over the number of blocks.",
		Facets: []figure.Facet{
			facets[0], facets[2], {Title: "submission", Values: Submissions()}, {Title: "layout", Values: Layouts()}, {Title: "profile", Values: Profiles()}, {Title: "bytes of a block", Number: true},
		},
		Rates: rates, Fits: true,
	},
}

// rates are the rates of the charts: the payload.
var rates = []figure.Rate{{Name: "rate", Title: "rate", Unit: "GB/s"}}
