// Package shard runs one cell: its cases in order, in warm groups of ranks,
// each within its budget, with a document for every case whatever happens.
package shard

import (
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Assembler fills the document of a case, as result.New made it, with what its
// ranks left, in rank order: Implementation, the family's own blocks (and with
// them Identity.CaseFactors), and Outcome (success or invalid, with reasons).
// The shard fills Runtime, Topology.DeviceProduct and Provenance from the
// ranks' facts, and the outcome where a rank did not end the case.
//
// It takes whatever is there: torn streams, or none of a rank, give a document
// with the rows that can be made, marked incomplete where samples are missing,
// and never a success. An error means that the streams make no sense.
type Assembler func(d result.Document, streams []rank.Stream) error

// Family is what a family brings to both sides of the store.
type Family struct {
	Assemble Assembler
	// Backends open the runners of the ranks, by the name a case gives.
	Backends map[string]rank.Opener
}

// Registry holds the families of a program.
type Registry map[plan.Family]Family
