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
		"Envelope.version": {Version},
		"Outcome.status":   {Success, Invalid, Failed, Unsupported},
		"Runtime.vendor":   plan.Values(vocab.Vendors()),
	})
	for _, f := range Families() {
		maps.Copy(all, f.Closed)
	}
	return all
}
