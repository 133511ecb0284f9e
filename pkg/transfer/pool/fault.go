package pool

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/rank"
)

// Kinds of data faults, for rank.FaultVariable: what a broken library could leave in the pool of a rank.
// They change the pool between a burst and its check.
const (
	FaultFlip       = "flip-bit"    // one bit of a word that arrived is flipped: corrupted
	FaultHalf       = "half-block"  // half of a block did not arrive: torn
	FaultNotWritten = "not-written" // a block did not arrive
	FaultStale      = "stale"       // a block of the previous burst
	FaultSwap       = "swap"        // two blocks, or the halves of one, are swapped: misplaced
	FaultGuard      = "guard"       // a word outside of all blocks has changed
	FaultSource     = "source"      // a word of the source has changed
	FaultLate       = "late"        // a word changes after the notification, and after the release
)

// Faults lists the kinds of data faults.
func Faults() []string {
	return []string{FaultFlip, FaultHalf, FaultNotWritten, FaultStale, FaultSwap, FaultGuard, FaultSource, FaultLate}
}

// Injure applies the data faults of a destination after a burst, normally none.
func Injure(s *rank.Session, dst, src Origin, pool Memory, blocks []Span) error {
	if !slices.ContainsFunc(Faults(), s.HasFault) {
		return nil
	}
	parts := make([]Part, len(blocks))
	for i, b := range blocks {
		parts[i] = Part{int64(b.Dst) * WordBytes, int64(b.Src) * WordBytes, int64(b.N) * WordBytes}
	}
	return injure(s, dst, src, pool, parts, Origin.Word)
}

// injure applies data faults to the bytes of a destination, in pools whose words word returns.
func injure(s *rank.Session, dst, src Origin, pool Memory, blocks []Part, word words) error {
	has := s.HasFault
	b, last := blocks[0], blocks[len(blocks)-1]
	block, err := readBytes(pool, b.Dst, b.N)
	if err != nil {
		return err
	}
	half := b.N / 2 &^ (WordBytes - 1)
	if has(FaultFlip) { // a bit of the pool's number
		block[min(b.N-1, half+WordBytes-1-(b.Src+half)%WordBytes)] ^= 1 << 2
	}
	if has(FaultHalf) {
		copy(block[half:], word.bytes(dst, b.Dst, b.N)[half:])
	}
	if has(FaultNotWritten) {
		block = word.bytes(dst, b.Dst, b.N)
	}
	if has(FaultStale) {
		old := src
		old.Nonce--
		block = word.bytes(old, b.Src, b.N)
	}
	if has(FaultSwap) {
		if last.N == b.N && last.Src != b.Src {
			other, err := readBytes(pool, last.Dst, last.N)
			if err != nil {
				return err
			}
			if err := writeBytes(pool, last.Dst, block); err != nil {
				return err
			}
			block = other
		} else {
			block = slices.Concat(block[half:2*half], block[:half], block[2*half:])
		}
	}
	if has(FaultGuard) {
		if err := pool.Write(0, []uint64{src.Word(0)}); err != nil {
			return err
		}
	}
	return writeBytes(pool, b.Dst, block)
}

// Disturb applies the fault of a late write, normally none.
func Disturb(s *rank.Session, pool Memory) error { return strike(s, FaultLate, pool) }

// Spoil applies the fault of a changed source, normally none.
func Spoil(s *rank.Session, pool Memory) error { return strike(s, FaultSource, pool) }

// strike changes a word in the middle of the pool if the fault is injected.
func strike(s *rank.Session, kind string, pool Memory) error {
	if !s.HasFault(kind) {
		return nil
	}
	at := pool.Words() / 2
	words, err := pool.Read(at, 1)
	if err != nil {
		return err
	}
	return pool.Write(at, []uint64{words[0] ^ 1})
}
