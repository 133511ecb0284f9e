// Package steps is the schedule family: collectives as the explicit steps of a program of package schedule. Cases are measured by
// the runner of the collective family, in which package runner replaces the library's operation by a program. They have the rows
// of the collective family.
package steps

import (
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
)

// Name is the name of the family.
const Name plan.Family = "schedule"

// Family describes the family.
var Family = family.Family{
	Plan: plan.Descriptor{Name: Name, Block: &Block{}},
	Catalog: catalog.Family{
		Cases: "schedules", Suite: &SuiteBlock{}, Backend: &Backend{}, Support: &catalog.Worlds{}, MinWorld: 1,
	},
	Planner: planner.Family{Cases: cases, Fit: fits, Seconds: seconds},
	Result: result.Family{
		Records:    []result.Record{{Type: "schedule-attempt", Title: "CollectiveX document of a schedule case"}},
		Document:   Document{},
		New:        newDocument,
		Comparison: comparisonOf,
		Trials:     func(c *plan.Case) int { return Of(c).Measure.TrialsOf(Of(c).Modes) },
		Check:      check,
	},
	Figures: figures,
	Spans:   spans,
	Views:   views,
	Summary: summary,
}
