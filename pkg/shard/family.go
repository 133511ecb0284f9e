// Package shard runs one cell: its cases in order, in warm groups of ranks,
// each within its budget, with a document for every case whatever happens.
package shard

import (
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Assembler builds a family's document of a case from what its ranks left, in
// rank order. It fills the record type, Identity.CaseFactors.Case,
// Implementation, the family's own blocks and Outcome (success or invalid, with
// reasons); the shard fills the rest of the envelope, and the outcome where a
// rank did not end the case.
//
// It takes whatever is there: without streams, or with torn ones, the document
// has the rows that are whole, the others marked incomplete, and is not a
// success. An error means that the streams make no sense; the shard then asks
// again without streams, which must not fail.
type Assembler func(c plan.Case, streams []rank.Stream) (result.Document, error)

// Family is what a family brings to both sides of the store.
type Family struct {
	Assemble Assembler
	// Backends open the runners of the ranks, by the name a case gives.
	Backends map[string]rank.Opener
}

// Registry holds the families of a program.
type Registry map[plan.Family]Family
