// Package copies is the copy family: copies between the memories of a device, the host and a second device, by
// two clocks. Package runner measures them; the packages beside it are the backends.
package copies

import (
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
)

// Name is the name of the family.
const Name plan.Family = "copy"

// Contract is the timing contract of copies: a window of copies between two events of the device, and one from
// its first call to the end of the last copy by the host's clock.
const Contract = "copy-window-v1"

// SwapContract is the timing contract of swaps of blocks: each swap by the host's clock, from before its first call
// until the stream has been waited for.
const SwapContract = "drained-swap-v1"

// ContractOf returns the timing contract of a test.
func ContractOf(test string) string {
	if TestOf(test).Swap {
		return SwapContract
	}
	return Contract
}

// Family describes the family.
var Family = family.Family{
	Plan: plan.Descriptor{Name: Name, Block: &Block{}},
	// A platform lists 1, and 2 and more if its devices can access each other.
	Catalog: catalog.Family{
		Cases: "copies", Suite: &SuiteBlock{}, Backend: &Backend{}, Support: &catalog.Worlds{}, Sampling: &Sampling{},
		MinWorld: 1, Added: true,
	},
	Planner: planner.Family{Filters: filters, Cases: cases, Fit: lacks, Seconds: seconds},
	Result: result.Family{
		Records:    []result.Record{{Type: "copy-attempt", Title: "CollectiveX document of copies of memory"}},
		Document:   Document{},
		New:        newDocument,
		Comparison: comparison,
		Trials:     func(c *plan.Case) int { return len(Asked(c)) * Of(c).Timing.Trials },
		Check:      check,
	},
	Figures: figures,
	Views:   views,
	Summary: family.Summary{
		Rows: func(doc result.Document) (measured, asked int) {
			d := doc.(*Document)
			return family.Count(d.Measurement.Rows, (*Row).Good), len(Asked(&d.Identity.Case))
		},
		Headline: func(doc result.Document) (string, any) { return list, headlineOf(doc.(*Document)) },
		Lists:    []string{list},
		Sections: sections,
	},
}
