// Package simulation is the simulation family: the time of a schedule predicted by a model of a machine, computed without ranks.
package simulation

import (
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
)

// Name is the name of the family. Its cases need no ranks and no devices; World is the number of ranks of the program.
const Name plan.Family = "simulation"

// Contract is the timing contract of simulations: from the common start of all ranks to the end of
// the last rank, in the time of the model.
const Contract = "simulated-makespan-v1"

// Family describes the family. It needs no sample counts.
var Family = family.Family{
	Plan:    plan.Descriptor{Name: Name, Block: &Block{}},
	Catalog: catalog.Family{Cases: "simulations", Suite: &SuiteBlock{}, Backend: &Backend{}, Support: &Support{}},
	Planner: planner.Family{Cases: cases, Place: place, Fit: fit, Seconds: seconds},
	Result: result.Family{
		Records:    []result.Record{{Type: "simulation-attempt", Title: "CollectiveX document of a simulated schedule"}},
		Document:   Document{},
		New:        newDocument,
		Comparison: comparison,
		Check:      check,
	},
	Computed: true,
	Figures:  figures,
	Views:    views,
	Summary: family.Summary{
		Rows: func(doc result.Document) (measured, asked int) {
			d := doc.(*Document)
			return len(d.Simulation.Rows), len(Of(&d.Identity.Case).Sizes)
		},
		Headline: func(doc result.Document) (string, any) { return list, headlineOf(doc.(*Document)) },
		Lists:    []string{list},
		Sections: sections,
	},
}
