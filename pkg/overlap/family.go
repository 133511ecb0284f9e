// Package overlap is the overlap family: matrix products on one stream and communication on another. Each side alone, both
// together and both in series are measured in turns. Package runner measures them.
//
// Form beside has products and collectives that do not depend on each other. The linear forms are a column-parallel linear
// layer. Each rank has rows of X and columns of the layer, and multiplies the rows of a peer as soon as they have arrived.
package overlap

import (
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
)

// Name is the name of the family.
const Name plan.Family = "overlap"

// Contract is the timing contract of overlap. The clock runs from the opening of the start gate, after a barrier of all ranks, to
// the end of both sides.
const Contract = "overlap-gate-v1"

// Family describes the family.
var Family = family.Family{
	Plan: plan.Descriptor{Name: Name, Block: &Block{}},
	Catalog: catalog.Family{
		Cases: "overlap", Suite: &SuiteBlock{}, Backend: &Backend{}, Support: &catalog.Worlds{}, Sampling: &Sampling{},
		MinWorld: minWorld, Added: true,
	},
	Planner: planner.Family{Cases: cases, Fit: fit, Seconds: seconds},
	Result: result.Family{
		Records:    []result.Record{{Type: "overlap-attempt", Title: "CollectiveX document of computation beside communication"}},
		Document:   Document{},
		New:        newDocument,
		Comparison: comparison,
		Settled:    settled,
		Trials:     func(c *plan.Case) int { return len(Asked(c)) * Of(c).Timing.Iterations },
		Check:      check,
	},
	Multiplies: true,
	Figures:    figures,
	Views:      views,
	Summary: family.Summary{
		Rows: func(doc result.Document) (measured, asked int) {
			d := doc.(*Document)
			return family.Count(d.Measurement.Rows, (*Row).Good), len(Of(&d.Identity.Case).Sizes)
		},
		Headline: func(doc result.Document) (string, any) { return list, headlineOf(doc.(*Document)) },
		Lists:    []string{list},
		Sections: sections,
	},
}
