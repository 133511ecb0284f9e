package collective

import (
	"fmt"
	"math/bits"

	"github.com/collectivex/collectivex/pkg/vocab"
)

// The functions of this file return why no library can do something, or "" if one can. Definitions,
// plans, flags and ranks check them.

// TooEarly checks operations in timing modes on buffers in a state.
func TooEarly(buffers string, modes ...string) string {
	for _, mode := range modes {
		if vocab.InputWritten(buffers) && mode != vocab.Blocking {
			return fmt.Sprintf("buffers %s need the timing mode %s alone: only it has time to write them before an operation", buffers, vocab.Blocking)
		}
	}
	return ""
}

// Ungrouped checks several calls of an operation in one group.
func Ungrouped(op string, calls int) string {
	if vocab.Op(op).PowerOfTwo && calls > 1 {
		return fmt.Sprintf("the steps of %s follow each other, so it has no group calls", op)
	}
	return ""
}

// WrongWorld checks an operation on a number of ranks.
func WrongWorld(op string, world int) string {
	switch o := vocab.Op(op); {
	case o.PowerOfTwo && bits.OnesCount(uint(world)) != 1:
		return fmt.Sprintf("operation %s needs a power of two of ranks, not %d", op, world)
	case o.Pairs != vocab.NoPairs && world < 2:
		return fmt.Sprintf("operation %s needs two ranks", op)
	}
	return ""
}
