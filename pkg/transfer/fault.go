package transfer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Kinds of data faults, for rank.FaultVariable: what a broken library would leave in the
// pool of a rank. They are done to the pool itself, between a burst and its check.
const (
	FaultFlip       = "flip-bit"    // one bit of a word that arrived is flipped: corrupted
	FaultHalf       = "half-block"  // half of a block did not arrive: torn
	FaultNotWritten = "not-written" // a block did not arrive
	FaultStale      = "stale"       // a block is that of the burst before
	FaultSwap       = "swap"        // two blocks, or the halves of one, stand in each other's place: misplaced
	FaultGuard      = "guard"       // a word outside of all blocks has changed
	FaultSource     = "source"      // a word of the source has changed
	FaultLate       = "late"        // a word changes after the notification, and after the release
)

// PoolFaults lists them.
func PoolFaults() []string {
	return []string{FaultFlip, FaultHalf, FaultNotWritten, FaultStale, FaultSwap, FaultGuard, FaultSource, FaultLate}
}

// Kinds of faults of the calls themselves: what a library may accept, and the runner refuses.
const (
	FaultShortList  = "short-list"       // a list of this rank lacks its last block
	FaultCutBlock   = "cut-block"        // the last block of a list of this rank is a word shorter
	FaultEmptyList  = "empty-list"       // a list of this rank has no block
	FaultTwice      = "register-twice"   // the rank registers a second pool before it ends the first
	FaultUnregister = "early-unregister" // the rank ends its pool while the peer may use it
)

func callFaults() []string {
	return []string{FaultShortList, FaultCutBlock, FaultEmptyList, FaultTwice, FaultUnregister}
}

// FaultKinds lists the kinds of faults of a transfer.
func FaultKinds() []string { return append(PoolFaults(), callFaults()...) }

// Idle is the rank.Idle of transfers: a fault of a rank whose pool is no destination of the
// case, or no source if the fault is of one, changes nothing.
func Idle(f rank.Fault, c *plan.Case) string {
	if why := rank.IdleUnless(f, plan.FamilyTransfer, FaultKinds()); why != "" {
		return why
	}
	if slices.Contains(callFaults(), f.Kind) {
		return ""
	}
	ops, side := c.Transfer().Ops, "destination"
	if f.Kind == FaultSource {
		side = "source"
	}
	strikes := func(op string) bool { return destinationOf(op) == f.Rank != (f.Kind == FaultSource) }
	if !slices.ContainsFunc(ops, strikes) {
		return fmt.Sprintf("the pool of rank %d is not the %s of a %s; inject it into rank %d", f.Rank, side, strings.Join(ops, " or "), 1-f.Rank)
	}
	return ""
}

// destinationOf is the rank into whose pool an operation writes.
func destinationOf(op string) int {
	if op == vocab.Pull {
		return 1
	}
	return 0
}

// Injure does the data faults of a destination after a burst, normally none.
func Injure(s *rank.Session, dst, src Origin, pool Memory, blocks []Span) error {
	has := func(kind string) bool {
		_, ok := s.Fault(kind)
		return ok
	}
	if !slices.ContainsFunc(PoolFaults(), has) {
		return nil
	}
	b, last := blocks[0], blocks[len(blocks)-1]
	block, err := pool.Read(b.Dst, b.N)
	if err != nil {
		return err
	}
	block = slices.Clone(block)
	if has(FaultFlip) {
		block[b.N/2] ^= 1 << 58
	}
	if has(FaultHalf) {
		for i := b.N / 2; i < b.N; i++ {
			block[i] = dst.Word(b.Dst + i)
		}
	}
	if has(FaultNotWritten) {
		for i := range block {
			block[i] = dst.Word(b.Dst + i)
		}
	}
	if has(FaultStale) {
		old := src
		old.Nonce--
		for i := range block {
			block[i] = old.Word(b.Src + i)
		}
	}
	if has(FaultSwap) {
		if len(blocks) > 1 && last.N == b.N {
			other, err := pool.Read(last.Dst, last.N)
			if err != nil {
				return err
			}
			other = slices.Clone(other)
			if err := pool.Write(last.Dst, block); err != nil {
				return err
			}
			block = other
		} else {
			half := b.N / 2
			block = slices.Concat(block[half:2*half], block[:half], block[2*half:])
		}
	}
	if has(FaultGuard) {
		if err := pool.Write(0, []uint64{src.Word(0)}); err != nil {
			return err
		}
	}
	return pool.Write(b.Dst, block)
}

// disturb does the fault of a late write, normally none.
func disturb(s *rank.Session, pool Memory) error { return strike(s, FaultLate, pool) }

// Spoil does the fault of a changed source, normally none.
func Spoil(s *rank.Session, pool Memory) error { return strike(s, FaultSource, pool) }

// strike changes a word in the middle of the pool if the fault is injected.
func strike(s *rank.Session, kind string, pool Memory) error {
	if _, ok := s.Fault(kind); !ok {
		return nil
	}
	at := pool.Words() / 2
	words, err := pool.Read(at, 1)
	if err != nil {
		return err
	}
	return pool.Write(at, []uint64{words[0] ^ 1})
}
