// Package transfer is the transfer family: bursts of requests that move a KV cache between the memory
// of two ranks, their cost, and the proof that every word arrived. Package runner measures them; the
// packages beside it are the backends.
package transfer

import (
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
)

// Name is the name of the family.
const Name plan.Family = "transfer"

// Contract is the timing contract of transfers: the time to prepare, post and complete all requests of
// a burst, on the rank that posts them.
const Contract = "handle-post-wait-v1"

// Family describes the family.
var Family = family.Family{
	Plan: plan.Descriptor{Name: Name, Block: &Block{}, Upstream: upstream},
	Catalog: catalog.Family{
		Cases: "transfers", Suite: &SuiteBlock{}, Backend: &Backend{}, Support: &Support{}, Sampling: &Sampling{}, Added: true,
		Lists: []catalog.List{{Kind: "kv cache", Key: "caches,optional", Of: []Cache{}}},
	},
	Planner: planner.Family{
		Cases: cases, Place: place, Fit: lacks, Key: key, Seconds: seconds, Times: times,
		Lane: func(c *plan.Case) string { return Of(c).Mode },
	},
	Result: result.Family{
		Records: []result.Record{ // readers distinguish the first from another family's record by the suite
			{Type: result.RecordUpstream, Title: "CollectiveX document of a KV-cache transfer", Name: "kv-case-attempt"},
			{Type: "transfer-attempt", Title: "CollectiveX document of a transfer beyond CollectiveX's own plan"},
		},
		Document:   Document{},
		New:        newDocument,
		Comparison: comparison,
		Settled:    settled,
		Older:      older,
		Trials:     repeatable,
		Check:      check,
	},
	Figures: figures,
	Views:   views,
	Summary: family.Summary{
		Rows: func(doc result.Document) (measured, asked int) {
			d := doc.(*Document)
			return family.Count(d.Measurement.Rows, (*Row).Good), len(d.Asked())
		},
		Dropped:  func(doc result.Document) string { return droppedPoints(doc.(*Document).Workload.Dropped) },
		Headline: func(doc result.Document) (string, any) { return list, headlineOf(doc.(*Document)) },
		Lists:    []string{list},
		Sections: sections,
	},
}
