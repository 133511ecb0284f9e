package transfer

import (
	"slices"

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

// FaultKinds lists them.
func FaultKinds() []string {
	return []string{FaultFlip, FaultHalf, FaultNotWritten, FaultStale, FaultSwap, FaultGuard, FaultSource, FaultLate}
}

// checkFaults refuses a data fault of a rank whose pool is no destination of the case, or
// no source if the fault is of one: it would change nothing.
func checkFaults(s *rank.Session, ops []string) error {
	for _, kind := range FaultKinds() {
		if _, ok := s.Fault(kind); !ok {
			continue
		}
		strikes := func(op string) bool { return destinationOf(op) == s.Rank != (kind == FaultSource) }
		if !slices.ContainsFunc(ops, strikes) {
			return rank.Refused("fault %s has no effect: the pool of rank %d is not what it changes in %v; inject it into the other rank", kind, s.Rank, ops)
		}
	}
	return nil
}

// destinationOf is the rank into whose pool an operation writes.
func destinationOf(op string) int {
	if op == vocab.Pull {
		return 1
	}
	return 0
}

// injure does the data faults of a destination after a burst, normally none.
func injure(s *rank.Session, dst, src origin, pool []uint64, blocks []span) {
	has := func(kind string) bool {
		_, ok := s.Fault(kind)
		return ok
	}
	b := blocks[0]
	block := pool[b.dst : b.dst+b.n]
	if has(FaultFlip) {
		block[b.n/2] ^= 1 << 58
	}
	if has(FaultHalf) {
		for i := b.n / 2; i < b.n; i++ {
			block[i] = dst.word(b.dst + i)
		}
	}
	if has(FaultNotWritten) {
		for i := range block {
			block[i] = dst.word(b.dst + i)
		}
	}
	if has(FaultStale) {
		old := src
		old.nonce--
		for i := range block {
			block[i] = old.word(b.src + i)
		}
	}
	if has(FaultSwap) {
		one, two := block[:b.n/2], block[b.n/2:b.n/2*2]
		if last := blocks[len(blocks)-1]; len(blocks) > 1 && last.n == b.n {
			one, two = block, pool[last.dst:last.dst+last.n]
		}
		for i := range one {
			one[i], two[i] = two[i], one[i]
		}
	}
	if has(FaultGuard) {
		pool[0] = src.word(0)
	}
}

// disturb does the fault of a late write, normally none.
func disturb(s *rank.Session, pool []uint64) {
	if _, ok := s.Fault(FaultLate); ok {
		pool[len(pool)/2] ^= 1
	}
}

// spoil does the fault of a changed source, normally none.
func spoil(s *rank.Session, pool []uint64) {
	if _, ok := s.Fault(FaultSource); ok {
		pool[len(pool)/2] ^= 1
	}
}
