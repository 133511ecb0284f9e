package report

import (
	"cmp"
	"slices"

	"github.com/collectivex/collectivex/pkg/figure"

	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// epOperation is a component of a row that the page shows, and what it moves.
type epOperation struct {
	name   string
	time   func(r *result.EPRow) *result.Component
	bytes  func(b *result.EPBytes) *result.ByteCount // nil: none
	tokens bool                                      // it handles all tokens of the row
}

var (
	dispatchBytes  = func(b *result.EPBytes) *result.ByteCount { return &b.Dispatch }
	combineBytes   = func(b *result.EPBytes) *result.ByteCount { return &b.Combine }
	stageBytes     = func(b *result.EPBytes) *result.ByteCount { return &b.Stage }
	roundtripBytes = func(b *result.EPBytes) *result.ByteCount { return &b.Roundtrip }
)

var epOperations = []epOperation{
	{"pair period", func(r *result.EPRow) *result.Component { return &r.Components.PairPeriod }, roundtripBytes, true},
	{"roundtrip", func(r *result.EPRow) *result.Component { return &r.Components.Roundtrip }, roundtripBytes, true},
	{"dispatch", func(r *result.EPRow) *result.Component { return &r.Components.Dispatch }, dispatchBytes, false},
	{"combine", func(r *result.EPRow) *result.Component { return &r.Components.Combine }, combineBytes, false},
	{"stage", func(r *result.EPRow) *result.Component { return &r.Components.Stage }, stageBytes, false},
	{"isolated sum", func(r *result.EPRow) *result.Component { return &r.Components.IsolatedSum }, nil, false},
	{"dispatch floor", func(r *result.EPRow) *result.Component { return &r.ChainFloor.Dispatch }, nil, false},
	{"combine floor", func(r *result.EPRow) *result.Component { return &r.ChainFloor.Combine }, nil, false},
}

var epViews = []figure.View{{
	Name: "ep", Title: "Expert parallelism", Shape: figure.Lines, X: figure.Axis{Title: "tokens per rank"},
	Note: "The pair period is the time from one dispatch to the next in a chain of dispatch and combine, and the floors are the fastest rank's " +
		"share of it. Dispatch, combine and roundtrip start from rest and are of the slowest rank. Bandwidth is logical bytes per GPU.",
	Facets: []figure.Facet{
		{Title: "operation", Values: epOperationNames(), One: true},
		{Title: "phase", Values: vocab.Phases(), One: true},
		{Title: "mode", Values: vocab.EPModes()},
		{Title: "precision", Values: vocab.Precisions()},
		{Title: "workload"},
		{Title: "routing"},
		{Title: "timing", Values: vocab.EPTimingModes()},
	},
	Rates: []figure.Rate{
		{Name: "tokens", Title: "token rate", Unit: "tokens/s"},
		{Name: "bandwidth", Title: "bandwidth per GPU", Unit: "GB/s"},
	},
	Latency: true,
}}

func epOperationNames() []string {
	names := make([]string, len(epOperations))
	for i, o := range epOperations {
		names[i] = o.name
	}
	return names
}

func epSeries(doc result.Document) []figure.Series {
	d := doc.(*result.EPDocument)
	f := d.Factors()
	mode := f.Mode
	if layout := d.Identity.Case.EP().Layout; layout != "" && layout != vocab.ExpertMajor { // which may not be named
		mode += " " + layout
	}
	var out []figure.Series
	for _, o := range epOperations {
		s := figure.Series{View: "ep", Facets: []string{o.name, f.Phase, mode, f.Precision, f.Workload, f.Routing, cmp.Or(d.Identity.Case.EP().TimingMode, vocab.Eager)}}
		s.Points = make([]figure.Point, 0, len(d.Measurement.Rows))
		works := make([]float64, 2*len(d.Measurement.Rows))
		var bases []string
		for i := range d.Measurement.Rows {
			r := &d.Measurement.Rows[i]
			c := o.time(r)
			if c.Percentiles == nil {
				continue
			}
			work := works[2*i : 2*i+2 : 2*i+2]
			if o.tokens {
				work[0] = float64(r.GlobalTokens) * 1e6
			}
			if wire := r.Wire(); o.bytes != nil && f.EP > 0 {
				work[1] = float64(o.bytes(&wire).Total) / 1e3 / float64(f.EP)
				bases = append(bases, epBasis(r))
			}
			s.Points = append(s.Points, figure.Point{
				X: int64(r.TokensPerRank), Time: *c.Percentiles, Work: work, Samples: c.SampleCount,
				Reason: figure.ReasonOf(r.Complete, r.Correctness.Passed, r.Correctness.Reasons),
			})
		}
		if len(s.Points) == 0 {
			continue
		}
		if slices.Sort(bases); len(bases) > 0 {
			s.Basis = bases[0]
			if last := bases[len(bases)-1]; last != s.Basis {
				s.Basis += " and " + last
			}
		}
		out = append(out, s)
	}
	return out
}

// epBasis says what the bytes of a row count.
func epBasis(r *result.EPRow) string {
	if r.WireBytes == nil {
		return result.WirePerRank // the only one there was
	}
	return r.LogicalCopies.Wire
}
