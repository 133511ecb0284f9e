package collective

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/collectivex/collectivex/pkg/vocab"
)

// The functions of this file check rules that hold for all libraries. They return why a combination is
// invalid, or "" if it is valid. Definitions, plans, flags and ranks all call them.

// TooEarly checks timing modes with a state of the buffers.
func TooEarly(buffers string, modes ...string) string {
	for _, mode := range modes {
		if vocab.InputWritten(buffers) && mode != vocab.Blocking {
			return fmt.Sprintf("buffers %s require timing mode %s alone: in other modes there is no time to write them before an operation", buffers, vocab.Blocking)
		}
	}
	return ""
}

// WrongGroups checks the groups of a case of an operation on a number of ranks.
func WrongGroups(b *Block, world int) string {
	if len(b.Groups) == 0 {
		return ""
	}
	ranks := slices.Sorted(slices.Values(slices.Concat(b.Groups...)))
	switch {
	case vocab.Op(b.Op).Pairs != vocab.NoPairs || vocab.Op(b.Op).Traffic:
		return fmt.Sprintf("operation %s is not measured in groups", b.Op)
	case slices.ContainsFunc(b.Groups, func(g []int) bool { return len(g) != len(b.Groups[0]) || !slices.IsSorted(g) }):
		return "groups differ in their number of ranks, and a size has different counts in them"
	case len(ranks) != world || ranks[0] != 0 || ranks[world-1] != world-1 || len(slices.Compact(ranks)) != world:
		return fmt.Sprintf("groups must have each of %d ranks once", world)
	}
	return ""
}

// Unwaited checks what the host waits for in windows of timing modes, with a number of calls in one group call.
func Unwaited(wait string, calls int, modes ...string) string {
	switch {
	case wait == "":
		return ""
	case slices.Contains(modes, vocab.Graph) || slices.Contains(modes, vocab.Blocking):
		return fmt.Sprintf("a wait after each %s belongs to timing mode %s alone", wait, vocab.Pipelined)
	case calls > 1:
		return "the operations of a group call start when it ends, so there is nothing to wait for between them"
	}
	return ""
}

// Ungrouped checks a number of calls of an operation in one group call.
func Ungrouped(op string, calls int) string {
	if vocab.Op(op).PowerOfTwo && calls > 1 {
		return fmt.Sprintf("operation %s has no group calls, since its steps depend on each other", op)
	}
	return ""
}

// WrongWorld checks an operation on a number of ranks.
func WrongWorld(op string, world int) string {
	switch o := vocab.Op(op); {
	case o.PowerOfTwo && bits.OnesCount(uint(world)) != 1:
		return fmt.Sprintf("operation %s requires a power of two of ranks, not %d", op, world)
	case o.Pairs != vocab.NoPairs && world < 2:
		return fmt.Sprintf("operation %s requires at least two ranks", op)
	}
	return ""
}
