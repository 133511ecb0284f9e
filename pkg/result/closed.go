package result

import (
	"maps"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Closed returns the closed lists of values of documents and of the matrix, by
// type and JSON name. The JSON Schemas and the reading of documents have them from
// here.
func Closed() map[string][]any {
	all := plan.Closed()
	maps.Copy(all, map[string][]any{
		"Envelope.version":                {Version},
		"Outcome.status":                  {Success, Invalid, Failed, Unsupported},
		"Component.availability":          {Measured, Derived, Unavailable},
		"Component.origin":                {OriginMeasured, OriginPercentileSum, OriginChainedMedian, OriginChainedRankMin},
		"Runtime.vendor":                  plan.Values(vocab.Vendors()),
		"CollectiveRow.placement":         plan.Values(vocab.Placements()),
		"EPCopies.wire":                   {WirePerRank, WirePerAssignment},
		"EPMeasurement.combine_dtype":     {"bf16"},
		"EPMeasurement.combine_semantics": {"activation-only"},
		"EPMeasurement.payload_unit":      {"token-rank"},
	})
	return all
}
