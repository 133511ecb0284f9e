package export

import (
	"cmp"
	"encoding/json"

	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/registry"
	"github.com/collectivex/collectivex/pkg/result"
)

// Family is what the table says of the documents of one family.
type Family struct {
	Name plan.Family
	// Rows returns a row for each figure of a document. head has the columns that all of
	// them share; the family sets the others.
	Rows func(d result.Document, head Row) []Row
	// Spans returns the windows and checks of a record among the raw samples of a document,
	// none for a record without any. It is nil if the family has no traces.
	Spans func(d result.Document, kind string, data json.RawMessage) ([]figure.Span, error)
}

// unmoved are the families that have no package of their own yet.
var unmoved = registry.New(func(f Family) string { return string(f.Name) },
	Family{plan.FamilyCollective, collectiveRows, collectiveSpans},
	Family{plan.FamilySchedule, scheduleRows, scheduleSpans})

// rowsOf returns the rows of the figures of a document.
func rowsOf(d result.Document, head Row) (rows []Row) {
	if old, ok := unmoved.Find(head.Family); ok {
		return old.Rows(d, head)
	}
	f := family.Find(plan.Family(head.Family))
	if f == nil {
		return nil
	}
	for _, of := range f.Figures(d) {
		row := head
		row.ComparisonKey = cmp.Or(of.Key, head.ComparisonKey)
		row.OpOrPhase, row.Mode, row.DType, row.XName, row.X = of.Op, of.Mode, of.DType, of.XName, whole(of.X)
		row.Placement, row.Src, row.Dst, row.Timing = of.Placement, maybe(of.Src), maybe(of.Dst), of.Timing
		row.Complete, row.Passed = of.Complete, of.Passed
		for _, fig := range of.Figures {
			row.Metric, row.Stat, row.Unit, row.Value, row.SampleCount = fig.Name, fig.Stat, fig.Unit, fig.Value, known(fig.Samples)
			rows = append(rows, row)
		}
	}
	return rows
}

// spansOf returns how a family shows the records of its raw samples in traces, nil if it does not.
func spansOf(name plan.Family) func(d result.Document, kind string, data json.RawMessage) ([]figure.Span, error) {
	if old, ok := unmoved.Find(string(name)); ok {
		return old.Spans
	}
	if f := family.Find(name); f != nil {
		return f.Spans
	}
	return nil
}

// percentiles appends a row for each percentile that is there; prefix is put before its name.
func percentiles(to []Row, row Row, prefix string, p result.Percentiles) []Row {
	for _, s := range []struct {
		name  string
		value *float64
	}{{"p50", &p.P50}, {"p90", p.P90}, {"p95", p.P95}, {"p99", p.P99}} {
		if s.value != nil {
			row.Stat, row.Value = prefix+s.name, *s.value
			to = append(to, row)
		}
	}
	return to
}
