package report

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/collectivex/collectivex/pkg/figure"

	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Clocks of a burst. A chart shows one of them at a time.
const (
	clockPrepared   = "with preparation"    // from making the first handle to the end of the last request
	clockUnprepared = "without preparation" // posting and waiting: the sum of their medians
)

var transferViews = []figure.View{{
	Name: "transfers", Title: "Transfers", Shape: figure.Lines, X: figure.Axis{Title: "context", Unit: "tokens"},
	Note: "Bursts of requests that move a KV cache, over the tokens of a request (context) or the requests of a burst (batch). The clock with " +
		"preparation includes making descriptor lists and handles. Without it, the latency is the sum of the medians of posting and waiting.",
	Facets: []figure.Facet{
		{Title: "operation", Values: vocab.TransferOps(), One: true},
		{Title: "clock", Values: []string{clockPrepared, clockUnprepared}, One: true},
		{Title: "cache", One: true},
		{Title: "lane", Values: vocab.Lanes()},
		{Title: "arrangement", Values: vocab.Arrangements()},
		{Title: "blocks", Number: true}, // of the burst: as one (bulk), or so many tokens each
		{Title: "batch", Number: true},
	},
	Swap: "batch", Rates: payloadRate,
}}

var payloadRate = []figure.Rate{{Name: "rate", Title: "rate", Unit: "GB/s"}}

func transferSeries(doc result.Document) []figure.Series {
	d := doc.(*result.TransferDocument)
	t, m := d.Identity.Case.Transfer(), &d.Measurement
	why := ""
	switch {
	case m.Lane == "":
		why = "incomplete: the case ended before its lane was known"
	case m.Lane != t.Mode:
		why = fmt.Sprintf("invalid: lane %s instead of %s", m.Lane, t.Mode)
	}
	reasons := figure.RowReasons(&d.Envelope, len(m.Rows), func(i int) string {
		return cmp.Or(figure.Verified(m.Rows[i].Complete, m.Rows[i].Verify.Passed, m.Rows[i].Verify.Detail), why)
	})
	var all figure.Collected
	for i := range m.Rows {
		r := &m.Rows[i]
		blocks := r.Kind
		if r.PageTokens != nil {
			blocks = fmt.Sprintf("pages of %d", *r.PageTokens)
		}
		work := []float64{float64(r.ReqBytes) * float64(r.Batch) / 1e3}
		for _, clock := range []struct {
			name string
			time result.Burst
		}{
			{clockPrepared, r.Latency},
			{clockUnprepared, result.Burst{P50: r.Parts.Post + r.Parts.Wait, N: r.Latency.N}},
		} {
			all.Add("transfers", []string{r.Op, clock.name, t.Workload, laneBy(t.Mode, t.Handle), t.Routing, blocks, strconv.Itoa(r.Batch)}, figure.Point{
				X: int64(r.ISL), Time: figure.MicrosecondsOf(clock.time, 1e3), Work: work, Samples: clock.time.N, Reason: reasons[i],
			})
		}
	}
	return all.Series
}
