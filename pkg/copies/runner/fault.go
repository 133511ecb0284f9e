package runner

import (
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

// FaultVictim makes the victim do half of its work.
const FaultVictim = "half-victim"

// FaultKinds lists the kinds of data faults of copies: the faults of transfers except a late write, since copies have no
// notification, and the victim's.
func FaultKinds() []string {
	return append(slices.DeleteFunc(pool.Faults(), func(kind string) bool { return kind == pool.FaultLate }), FaultVictim)
}

// Measurer measures copies.
var Measurer = rank.Measurer{Family: copies.Name, Assemble: Assemble, Faults: FaultKinds(), NoEffect: noEffect}

// noEffect returns why a fault would change nothing: the rank has no destination, or no source for a fault of a source.
func noEffect(f rank.Fault, c *plan.Case) string {
	side, test := "destination", copies.TestOf(copies.Of(c).Test)
	if f.Kind == FaultVictim {
		switch {
		case !copies.Of(c).Victim:
			return "the case has no victim"
		case f.Rank != test.Ranks-1:
			return fmt.Sprintf("rank %d runs no victim in %s; inject it into rank %d", f.Rank, test.Name, test.Ranks-1)
		}
		return ""
	}
	if f.Kind == pool.FaultSwap && !slices.ContainsFunc(copies.Asked(c), exchangeable) {
		return "a copy of less than 16 bytes cannot be split into two parts; choose a larger one, or a swap of several blocks"
	}
	source := f.Kind == pool.FaultSource
	if source {
		side = "source"
	}
	if test.Ranks != 2 || copies.Of(c).Each || test.Both || source == (test.Out == (f.Rank == 1)) {
		return ""
	}
	return fmt.Sprintf("rank %d has no %s in %s; inject it into rank %d", f.Rank, side, test.Name, 1-f.Rank)
}

// exchangeable reports whether a copy has two blocks, or two halves of whole words, to exchange.
func exchangeable(r copies.Row) bool {
	return r.BlockBytes > 0 && r.Pieces > 1 || r.Bytes >= 2*wordBytes
}
