// Package steps is the schedule family: collectives as the explicit steps of a program of package
// schedule. Its cases are measured as those of the collective family, by its runner and with its
// rows; package runner puts a program in the place of the library's operation.
package steps

import (
	"embed"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
)

// Name is the name of the family.
const Name plan.Family = "schedule"

// recordType is the record type of documents.
const recordType = "schedule-attempt"

//go:embed case.go document.go
var source embed.FS

// Family describes the family.
var Family = family.Family{
	Plan: plan.Descriptor{Name: Name, Block: &Block{}},
	Catalog: catalog.Family{
		Name: string(Name), Cases: "schedules", Suite: &SuiteBlock{}, Backend: &Backend{}, Support: &catalog.Worlds{}, MinWorld: 1,
	},
	Planner: planner.Family{Name: Name, Cases: cases, Fit: fits, Seconds: seconds},
	Result: result.Family{
		Name:       Name,
		Records:    []result.Record{{Type: recordType, Title: "CollectiveX document of a schedule case"}},
		RecordType: func(*plan.Case) string { return recordType },
		Document:   Document{}, Factors: plan.Case{},
		New:        newDocument,
		Comparison: comparisonOf,
		Check:      check,
		Source:     source,
	},
	Figures: figures,
	Spans:   spans,
	Views:   views,
	Summary: summary,
}
