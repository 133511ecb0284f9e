// Package collective is the family of collective operations, such as all_reduce and sendrecv. Package
// runner measures them. Packages host, ipc and nccl run them.
package collective

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Name is the name of the family.
const Name plan.Family = "collective"

// Contract is the timing contract of collective cases: the time of the operation only, from its
// enqueueing to its completion.
const Contract = "op-only-v1"

// Family describes the family.
var Family = family.Family{
	Plan: plan.Descriptor{Name: Name, Block: &Block{}},
	Catalog: catalog.Family{
		Cases: "collectives", Suite: &SuiteBlock{}, Backend: &Backend{}, Support: &catalog.Worlds{}, Sampling: &Sampling{}, MinWorld: 1,
	},
	Planner: planner.Family{Filters: filters, Cases: cases, Fit: lacks, Seconds: Seconds},
	Result: result.Family{
		Records:    []result.Record{{Type: "collective-attempt", Title: "CollectiveX document of a collective case"}},
		Document:   Document{},
		New:        func(head result.Envelope) result.Document { return NewDocument(head) },
		Comparison: comparisonOf,
		Trials:     func(c *plan.Case) int { return Of(c).Measure.TrialsOf(Of(c).Modes) },
		Check:      func(p *result.Problems, d result.Document) { CheckDocument(p, d.(*Document)) },
		Older:      older,
	},
	Figures: func(d result.Document) []figure.Row { return Figures(d.(*Document)) },
	Spans:   spans,
	Views:   views,
	Summary: summary,
	ByName:  func(b *catalog.Backend) bool { return catalog.BackendOf[Backend](b).ByName },
	Warning: warning,
}

// warning reports that the library may have used the buffers unregistered.
func warning(doc result.Document) string {
	m := &doc.(*Document).Measurement
	if m.Registration == vocab.Unregistered || len(m.Rows) == 0 || m.RegistrationHandle {
		return ""
	}
	return fmt.Sprintf("-R: the library accepted buffers for registration %s but returned no handle, so it may have used them unregistered", m.Registration)
}
