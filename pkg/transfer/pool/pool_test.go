package pool

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/result"
)

// What can happen to a block has a class each, and the first wrong byte is named.
func TestClassesOfWrongWords(t *testing.T) {
	dst, src := Origin{Of(1), 7}, Origin{Of(0), 7}
	stale := Origin{Of(0), 6}
	blocks := []Span{{Dst: 10, Src: 40, N: 8}, {Dst: 30, Src: 20, N: 8}}
	arrived := func() []uint64 {
		pool := painted(t, dst)
		for _, b := range blocks {
			for i := range b.N {
				pool[b.Dst+i] = src.Word(b.Src + i)
			}
		}
		return pool
	}
	find := func(pool hostMemory) Finding {
		f, err := Destination(dst, src, pool, blocks)
		require.NoError(t, err)
		return f
	}
	require.Equal(t, Finding{Checked: 64}, find(arrived()))
	for name, tc := range map[string]struct {
		change func(hostMemory)
		want   result.Wrong
		class  string
		word   int64
	}{
		"nothing came":          {func(p hostMemory) { copyWords(p, dst, 10, 10, 8) }, result.Wrong{NotWritten: 8}, "not written", 10},
		"the burst before":      {func(p hostMemory) { copyWords(p, stale, 10, 40, 8) }, result.Wrong{Stale: 8}, "stale", 10},
		"another block":         {func(p hostMemory) { copyWords(p, src, 30, 40, 8) }, result.Wrong{Misplaced: 8}, "misplaced", 30},
		"half a block":          {func(p hostMemory) { copyWords(p, dst, 14, 14, 4) }, result.Wrong{Torn: 4}, "torn", 14},
		"half from before":      {func(p hostMemory) { copyWords(p, stale, 10, 40, 3) }, result.Wrong{Torn: 3}, "torn", 10},
		"two that did not come": {func(p hostMemory) { copyWords(p, stale, 10, 40, 4); copyWords(p, dst, 14, 14, 4) }, result.Wrong{Torn: 8}, "torn", 10},
		"a flipped bit":         {func(p hostMemory) { p[31] ^= 1 << 60 }, result.Wrong{Corrupted: 1}, "corrupted", 31},
		"in front of a block":   {func(p hostMemory) { copyWords(p, src, 9, 39, 1) }, result.Wrong{Guard: 1}, "guard", 9},
		"behind the last block": {func(p hostMemory) { p[63] = 0 }, result.Wrong{Guard: 1}, "guard", 63},
		"two faults":            {func(p hostMemory) { p[63] = 0; p[12] = 0 }, result.Wrong{Guard: 1, Corrupted: 1}, "corrupted", 12},
	} {
		pool := arrived()
		tc.change(pool)
		require.Equal(t, Finding{64, tc.want, tc.class, tc.word * WordBytes}, find(pool), name)
	}

	clean := find(arrived())
	pool := arrived()
	pool[12] = 0
	clean.Later(find(pool))
	require.Equal(t, Finding{128, result.Wrong{Late: 1}, "late", 12 * WordBytes}, clean)
	pool[63] = 0
	first := find(pool)
	pool[12] = src.Word(42)
	first.Later(find(pool))
	require.Equal(t, Finding{128, result.Wrong{Guard: 1, Late: 1}, "late", 12 * WordBytes}, first, "what came is late, what did not is not")

	own := painted(t, src)
	whole, err := Unchanged(src, own, "source")
	require.NoError(t, err)
	require.Equal(t, Finding{Checked: 64}, whole)
	own[3]++
	changed, err := Unchanged(src, own, "source")
	require.NoError(t, err)
	require.Equal(t, Finding{64, result.Wrong{Source: 1}, "source", 24}, changed)
}

// The byte behind a block differs from the one behind its source if the two blocks are an even number of words apart.
func TestAByteTooMany(t *testing.T) {
	for rank := range 8 {
		dst, src := Origin{Of(rank + 1), 7}, Origin{Of(rank), 7}
		for from := range 128 {
			for to := from % 2; to < 128; to += 2 {
				require.NotEqual(t, byte(dst.Word(to)), byte(src.Word(from)), "from word %d to %d", from, to)
			}
		}
	}
}

func painted(t *testing.T, o Origin) hostMemory {
	pool := make(hostMemory, 64)
	require.NoError(t, pool.Paint(o.Word(0)))
	return pool
}

func copyWords(pool []uint64, from Origin, at, index, n int) {
	for i := range n {
		pool[at+i] = from.Word(index + i)
	}
}
