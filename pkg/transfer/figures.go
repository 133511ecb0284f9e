package transfer

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// burst is the timing of transfers, and the name of their clock in comparisons: from preparing the
// first request to the end of the last one.
const burst = "burst"

// figures returns rows with the bytes of a burst as X, and its other properties as the placement.
func figures(doc result.Document) (rows []figure.Row) {
	d := doc.(*Document)
	t, m := Of(&d.Identity.Case), &d.Measurement
	why := ""
	switch {
	case m.Lane == "":
		why = "incomplete: the case ended before its lane was known"
	case m.Lane != t.Mode:
		why = fmt.Sprintf("invalid: lane %s instead of %s", m.Lane, t.Mode)
	case t.Handle != "" && m.Transport != t.Handle:
		why = fmt.Sprintf("invalid: handle %s instead of %s", m.Transport, t.Handle)
	}
	head := figure.Labels{Mode: t.Mode, DType: d.Identity.Case.Precision, XName: "burst_bytes", Timing: burst}
	for i := range m.Rows {
		r := &m.Rows[i]
		row := rowFigures(head, t, r, cmp.Or(figure.Verified(r.Complete, r.Verify.Passed, r.Verify.Detail), why))
		row.Passed = r.Verify.Passed && why == ""
		rows = append(rows, row)
	}
	for i := range m.Sustained {
		s := &m.Sustained[i]
		row := figure.Row{Labels: head, Complete: true, Passed: s.Verify.Passed && why == "", Figures: []figure.Figure{
			{Name: "rate", Stat: "mean", Unit: figure.GBPerSecond, Value: s.GBps},
			{Name: "cpu_s_per_gb", Stat: "mean", Unit: figure.Dimensionless, Value: s.CPU},
		}}
		row.Op, row.X, row.Placement = s.Op, s.Bytes/int64(max(1, s.Bursts)), "sustained"
		rows = append(rows, row)
	}
	return rows
}

// rowFigures returns the figures of a row. A non-empty reason says why the row does not count.
func rowFigures(head figure.Labels, t *Block, r *Row, reason string) figure.Row {
	const us = 1e3 // per millisecond
	bytes := r.ReqBytes * int64(r.Batch)
	row := figure.Row{
		Labels: head, Complete: r.Complete, Lines: lines(t, r, reason),
		Rung: &figure.Rung{Clock: burst, Size: bytes, Label: r.Name()},
	}
	row.Op, row.X, row.Placement = r.Op, bytes, fmt.Sprintf("%s isl%d", r.Kind, r.ISL)
	if r.PageTokens != nil {
		row.Placement += fmt.Sprintf(" page%d batch%d", *r.PageTokens, r.Batch)
	}
	row.Figures = append(figure.Burst(figure.Latency, r.Latency, us, true), figure.Burst("request", r.Request, us, true)...)
	row.Figures = append(row.Figures,
		figure.Figure{Name: "prepare", Stat: "p50", Unit: figure.Microseconds, Value: us * r.Parts.Prepare},
		figure.Figure{Name: "post", Stat: "p50", Unit: figure.Microseconds, Value: us * r.Parts.Post},
		figure.Figure{Name: "rate", Stat: "at_p50", Unit: figure.GBPerSecond, Value: r.Rate()},
		figure.Figure{Name: "wrong_words", Stat: "total", Unit: figure.Dimensionless, Value: float64(r.Verify.Wrong.Total())})
	return row
}

// lines returns the points of a row in the chart: one for each clock.
func lines(t *Block, r *Row, reason string) (lines []figure.Line) {
	blocks := r.Kind
	if r.PageTokens != nil {
		blocks = fmt.Sprintf("pages of %d", *r.PageTokens)
	}
	for _, clock := range []struct {
		name string
		time result.Burst
	}{
		{clockPrepared, r.Latency},
		{clockUnprepared, result.Burst{P50: r.Parts.Post + r.Parts.Wait, N: r.Latency.N}},
	} {
		lines = append(lines, figure.Line{
			View:   view,
			Facets: []string{r.Op, clock.name, t.Workload, laneBy(t.Mode, t.Handle), t.Routing, blocks, strconv.Itoa(r.Batch)},
			Point: figure.Point{
				X: int64(r.ISL), Time: figure.MicrosecondsOf(clock.time, 1e3), Work: []float64{float64(r.ReqBytes) * float64(r.Batch) / 1e3},
				Samples: clock.time.N, Reason: reason,
			},
		})
	}
	return lines
}

// Clocks of a burst. A chart shows one of them at a time.
const (
	clockPrepared   = "with preparation"    // from preparing the first request to the end of the last
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
		{Title: "blocks", Number: true}, // of the burst: one (bulk), or the tokens of each
		{Title: "batch", Number: true},
	},
	Swap: "batch", Rates: []figure.Rate{{Name: "rate", Title: "rate", Unit: "GB/s"}},
}}
