package pool

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/rank"
)

// This file is about blocks that begin and end at any byte. The host paints and checks their pools: each word is mixed,
// so that most bytes of two words differ wherever they are cut.

// Part is a block in bytes.
type Part struct{ Dst, Src, N int64 }

// Spans returns the parts in words, or false if one of them does not begin and end with words in both pools.
func Spans(parts []Part) (spans []Span, whole bool) {
	for _, p := range parts {
		if (p.Dst|p.Src|p.N)%WordBytes != 0 {
			return nil, false
		}
		spans = append(spans, Span{int(p.Dst / WordBytes), int(p.Src / WordBytes), int(p.N / WordBytes)})
	}
	return spans, true
}

// mixed returns word i of a pool that PaintMixed painted.
func (o Origin) mixed(i int) uint64 {
	const odd = 0x9e3779b97f4a7c15
	w := o.Word(i)
	w = (w ^ w>>32) * odd // the product's low bytes depend on the pool and the burst too
	return w ^ w>>32
}

// unmixed is the inverse: the word of Origin.Word.
func unmixed(w uint64) uint64 {
	const inverse = 0xf1de83e19937733d
	w = (w ^ w>>32) * inverse
	return w ^ w>>32
}

// pieceBytes is the maximum part of a pool that is painted or compared at a time, in bytes.
const pieceBytes = 1 << 20

// PaintMixed paints a pool for blocks that begin and end at any byte.
func PaintMixed(o Origin, pool Memory) error {
	piece := make([]uint64, min(pool.Words(), pieceBytes/WordBytes))
	for at := 0; at < pool.Words(); at += len(piece) {
		piece = piece[:min(len(piece), pool.Words()-at)]
		for i := range piece {
			piece[i] = o.mixed(at + i)
		}
		if err := pool.Write(at, piece); err != nil {
			return err
		}
	}
	return nil
}

// UnchangedMixed is Unchanged for a pool that PaintMixed painted.
func UnchangedMixed(o Origin, pool Memory, class string) (f Finding, err error) {
	f.Checked = int64(pool.Words())
	err = pieces(pool, 0, f.Checked*WordBytes, func(at int64, has []byte) { f.differ(class, at, has, mixedBytes(o, at, int64(len(has)))) })
	return f, err
}

// InjureParts is Injure for blocks that begin and end at any byte.
func InjureParts(s *rank.Session, dst, src Origin, pool Memory, blocks []Part) error {
	if !slices.ContainsFunc(Faults(), s.HasFault) {
		return nil
	}
	return injure(s, dst, src, pool, blocks, Origin.mixed)
}

// DestinationParts is Destination for parts that begin and end at any byte, in order of the destination. Eight wrong
// bytes, or a rest of them, count as a word. Those of a part larger than pieceBytes are classified piece by piece.
func DestinationParts(dst, src Origin, pool Memory, parts []Part) (f Finding, err error) {
	f.Checked = int64(pool.Words())
	guard := func(at int64, has []byte) { f.differ("guard", at, has, mixedBytes(dst, at, int64(len(has)))) }
	end := int64(0)
	for _, p := range parts {
		if err := pieces(pool, end, p.Dst-end, guard); err != nil {
			return f, err
		}
		if err := pieces(pool, p.Dst, p.N, func(at int64, has []byte) {
			f.part(dst, src, Part{at, p.Src + at - p.Dst, int64(len(has))}, has)
		}); err != nil {
			return f, err
		}
		end = p.Dst + p.N
	}
	return f, pieces(pool, end, f.Checked*WordBytes-end, guard)
}

// pieces calls f with n bytes of a pool from byte at on, piece by piece.
func pieces(pool Memory, at, n int64, f func(at int64, has []byte)) error {
	for end := at + n; at < end; at += pieceBytes {
		has, err := readBytes(pool, at, min(pieceBytes, end-at))
		if err != nil {
			return err
		}
		f(at, has)
	}
	return nil
}

// differ counts the bytes from byte at on that are not as wanted as wrong words of a class.
func (f *Finding) differ(class string, at int64, has, want []byte) {
	if bytes.Equal(has, want) {
		return
	}
	n, first := int64(0), int64(0)
	for i := range has {
		if has[i] != want[i] {
			if n == 0 {
				first = at + int64(i)
			}
			n++
		}
	}
	f.wrong(class, (n+WordBytes-1)/WordBytes, int(first/WordBytes))
}

// part classifies the wrong bytes of a part.
func (f *Finding) part(dst, src Origin, p Part, has []byte) {
	want := mixedBytes(src, p.Src, p.N)
	if bytes.Equal(has, want) {
		return
	}
	painted := mixedBytes(dst, p.Dst, p.N)
	torn := true
	for i := range has {
		torn = torn && (has[i] == want[i] || has[i] == painted[i])
	}
	class := "corrupted"
	switch from, place := src.origin(has); {
	case bytes.Equal(has, painted):
		class = "not written"
	case torn:
		class = "torn"
	case from == src:
		class = "misplaced"
	case from.Pool == src.Pool && place == p.Src:
		class = "stale"
	}
	f.differ(class, p.Dst, has, want)
}

// origin returns where in the pool of o data come from, in a burst of any nonce; the zero Origin if they do not.
func (o Origin) origin(data []byte) (from Origin, place int64) {
	for skip := 0; skip < WordBytes && skip+WordBytes <= len(data); skip++ {
		w := unmixed(binary.LittleEndian.Uint64(data[skip:])) // perhaps the first whole word
		from = Origin{uint8(w >> 56), uint16(w >> 40)}
		place = (int64(w&indexMask)-int64(from.Pool))*WordBytes - int64(skip)
		if from.Pool == o.Pool && place >= 0 && bytes.Equal(data, mixedBytes(from, place, int64(len(data)))) {
			return from, place
		}
	}
	return Origin{}, 0
}

// words returns word i of a pool that o painted.
type words func(o Origin, i int) uint64

// bytes returns n bytes, from byte at on, of a pool that o painted.
func (word words) bytes(o Origin, at, n int64) []byte {
	all := make([]uint64, wordsOf(at, n))
	for i := range all {
		all[i] = word(o, int(at/WordBytes)+i)
	}
	return bytesOf(all)[at%WordBytes:][:n]
}

func mixedBytes(o Origin, at, n int64) []byte { return words(Origin.mixed).bytes(o, at, n) }

// wordsOf returns the number of words that n bytes from byte at on lie in.
func wordsOf(at, n int64) int {
	return int((at+n+WordBytes-1)/WordBytes - at/WordBytes)
}

// readBytes returns a copy of n bytes of a pool from byte at on.
func readBytes(pool Memory, at, n int64) ([]byte, error) {
	all, err := pool.Read(int(at/WordBytes), wordsOf(at, n))
	if err != nil {
		return nil, err
	}
	return slices.Clone(bytesOf(all)[at%WordBytes:][:n]), nil
}

// writeBytes writes data into a pool from byte at on.
func writeBytes(pool Memory, at int64, data []byte) error {
	all, err := pool.Read(int(at/WordBytes), wordsOf(at, int64(len(data))))
	if err != nil {
		return err
	}
	all = slices.Clone(all)
	copy(bytesOf(all)[at%WordBytes:], data)
	return pool.Write(int(at/WordBytes), all)
}

// bytesOf returns the memory of words.
func bytesOf(all []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(all))), len(all)*WordBytes)
}
