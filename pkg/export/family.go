package export

import (
	"encoding/json"

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
	Spans func(d result.Document, kind string, data json.RawMessage) ([]Span, error)
}

var families = registry.New(func(f Family) string { return string(f.Name) },
	Family{plan.FamilyEP, epRows, epSpans}, Family{plan.FamilyCollective, collectiveRows, collectiveSpans},
	Family{plan.FamilyTransfer, transferRows, nil},
	Family{plan.FamilySchedule, scheduleRows, scheduleSpans},
	Family{plan.FamilyCopy, copyRows, nil},
	Family{plan.FamilyOverlap, overlapRows, nil},
	Family{plan.FamilySimulation, simulationRows, nil})

// Register adds a family. It is for init functions: it panics if the family is
// registered already, and once a document was exported.
func Register(f Family) { families.Add(f) }

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
