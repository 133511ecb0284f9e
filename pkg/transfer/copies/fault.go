package copies

import (
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// FaultKinds lists the kinds of data faults of copies: those of transfers, of which a late
// write is none, since no copy is notified.
func FaultKinds() []string {
	return slices.DeleteFunc(transfer.PoolFaults(), func(kind string) bool { return kind == transfer.FaultLate })
}

// Idle is the rank.Idle of copies: a fault of a rank that has no destination, or no source if
// the fault is of one, changes nothing.
func Idle(f rank.Fault, c *plan.Case) string {
	if why := rank.IdleUnless(f, plan.FamilyCopy, FaultKinds()); why != "" {
		return why
	}
	side, test := "destination", vocab.Copy(c.Copy().Test)
	source := f.Kind == transfer.FaultSource
	if source {
		side = "source"
	}
	if test.Ranks == 1 || test.Both || source == (test.Out == (f.Rank == 1)) {
		return ""
	}
	return fmt.Sprintf("rank %d has no %s in %s; inject it into rank %d", f.Rank, side, test.Name, 1-f.Rank)
}
