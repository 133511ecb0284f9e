// Package ep is the EP family: expert-parallel dispatch and combine of tokens. Package runner
// measures them and checks them with the oracle; the packages beside it are the backends.
package ep

import (
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
)

// Name is the name of the family.
const Name plan.Family = "ep"

// RecordOther is the record type of EP cases that CollectiveX itself does not plan, in the same
// format as result.RecordUpstream.
const RecordOther = "ep-attempt"

// Family describes the family.
var Family = family.Family{
	Plan: plan.Descriptor{Name: Name, Block: &Block{}, Upstream: upstream},
	Catalog: catalog.Family{Suite: &SuiteBlock{}, Backend: &Backend{}, Support: &Support{}, Sampling: &Sampling{}, Lists: []catalog.List{
		{Kind: "workload", Key: "workloads", Of: []Shape{}}, {Kind: "routing", Key: "routings", Of: []RoutingRule{}},
	}},
	Planner: planner.Family{Filters: filters, Cases: cases, Fit: lacks, Key: key, Seconds: seconds},
	Result: result.Family{
		Records: []result.Record{
			{Type: result.RecordUpstream, Title: "CollectiveX document of an expert-parallel case"},
			{Type: RecordOther, Title: "CollectiveX document of an expert-parallel case beyond CollectiveX's own plan"},
		},
		Document: Document{}, Factors: Factors{},
		New:        newDocument,
		Comparison: comparison,
		Trials:     func(c *plan.Case) int { return Of(c).Timing.TrialsPerPoint + Of(c).Timing.ChainTrialsPerPoint },
		Check:      check,
		Older:      older,
	},
	Figures: figures,
	Views:   views,
	Summary: family.Summary{
		Rows: func(doc result.Document) (measured, asked int) {
			d := doc.(*Document)
			return family.Count(d.Measurement.Rows, (*Row).Good), len(Of(&d.Identity.Case).Ladder) - len(d.Workload.LadderDropped)
		},
		Headline: func(doc result.Document) (string, any) { return list, headlineOf(doc.(*Document)) },
		Lists:    []string{list},
		Sections: sections,
	},
	Spans: spans,
}
