package export

import (
	"cmp"
	"encoding/json"

	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// rowsOf returns the rows of the figures of a document. head has their common columns.
func rowsOf(d result.Document, head Row) (rows []Row) {
	f := family.Find(plan.Family(head.Family))
	if f == nil {
		return nil
	}
	for _, of := range f.Rows(d) {
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

// spansOf returns the function that returns trace spans of a family's raw samples, or nil.
func spansOf(name plan.Family) func(d result.Document, kind string, data json.RawMessage) ([]figure.Span, error) {
	if f := family.Find(name); f != nil {
		return f.Spans
	}
	return nil
}
