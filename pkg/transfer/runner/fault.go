package runner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

// Kinds of faults in the calls themselves, which a library may accept and the runner refuses.
const (
	FaultShortList  = "short-list"       // a list of this rank lacks its last block
	FaultCutBlock   = "cut-block"        // the last block of a list of this rank is a word shorter
	FaultEmptyList  = "empty-list"       // a list of this rank has no block
	FaultTwice      = "register-twice"   // the rank registers a second pool before it ends the first
	FaultUnregister = "early-unregister" // the rank frees its pool while the peer may use it
)

func callFaults() []string {
	return []string{FaultShortList, FaultCutBlock, FaultEmptyList, FaultTwice, FaultUnregister}
}

// FaultKinds lists the kinds of faults of a transfer.
func FaultKinds() []string { return append(pool.Faults(), callFaults()...) }

// Measurer measures transfers.
var Measurer = rank.Measurer{Family: transfer.Name, Assemble: Assemble, Faults: FaultKinds(), NoEffect: noEffect}

// noEffect returns why a fault would change nothing: the rank's pool is not a destination of the case,
// or not a source for a fault of a source.
func noEffect(f rank.Fault, c *plan.Case) string {
	if slices.Contains(callFaults(), f.Kind) {
		return ""
	}
	ops, side := transfer.Of(c).Ops, "destination"
	if f.Kind == pool.FaultSource {
		side = "source"
	}
	strikes := func(op string) bool { return destinationOf(op) == f.Rank != (f.Kind == pool.FaultSource) }
	if !slices.ContainsFunc(ops, strikes) {
		return fmt.Sprintf("the pool of rank %d is not the %s of a %s; inject it into rank %d", f.Rank, side, strings.Join(ops, " or "), 1-f.Rank)
	}
	return ""
}

// destinationOf returns the rank into whose pool an operation writes.
func destinationOf(op string) int {
	if op == transfer.Pull {
		return 1
	}
	return 0
}
