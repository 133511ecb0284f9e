// Package shard runs one cell: its cases in order, in warm groups of ranks, each within its
// budget. Every case ends in a document, also if it fails, hangs or is skipped.
package shard

import (
	"context"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Assembler fills the document of a case, as result.New made it, from what its ranks left,
// in rank order: Implementation, the blocks of the family (and with them
// Identity.CaseFactors), and Outcome (success or invalid, with reasons). The shard fills
// Runtime, Topology.DeviceProduct and Provenance from the ranks' facts, and Outcome if a
// rank did not run the case to its end; see outcome.
//
// Streams may be incomplete, or missing for some ranks. The document then has the rows that
// can be made, marked incomplete if samples are missing. It is never a success, and invalid
// only if data or times are wrong. An error means that the streams contradict each other or
// the case.
type Assembler func(d result.Document, streams []rank.Stream) error

// Compute fills the document of a case, as result.New made it, in the process of the shard:
// the blocks of the family, and Outcome. It must not write anything about this machine into the
// document. The error is why the case cannot be computed; its text is private. Compute returns
// when ctx ends.
type Compute func(ctx context.Context, d result.Document) error

// Family is what a family provides for both sides of the store. Its cases are either run by
// ranks or computed.
type Family struct {
	Assemble Assembler
	// Backends opens the runners of the ranks, by the name of the backend in a case.
	Backends map[string]rank.Opener
	// Computes has what computes cases instead, by the name of the backend.
	Computes map[string]Compute
}

// Registry has the families of a program.
type Registry map[plan.Family]Family
