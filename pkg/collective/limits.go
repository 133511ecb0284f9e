package collective

import (
	"fmt"
	"math/bits"

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
