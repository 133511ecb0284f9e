package pool

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/result"
)

// What can happen to a block of odd bytes has a class, and the first wrong word is named.
func TestClassesOfWrongBytes(t *testing.T) {
	dst, src := Origin{Of(1), 7}, Origin{Of(0), 7}
	stale := Origin{Of(0), 6}
	parts := []Part{{Dst: 83, Src: 305, N: 61}, {Dst: 144, Src: 201, N: 61}}
	put := func(pool hostMemory, data []byte, at int64) { require.NoError(t, writeBytes(pool, at, data)) }
	arrived := func() hostMemory {
		pool := make(hostMemory, 64)
		require.NoError(t, PaintMixed(dst, pool))
		for _, p := range parts {
			put(pool, mixedBytes(src, p.Src, p.N), p.Dst)
		}
		return pool
	}
	find := func(pool hostMemory) Finding {
		f, err := DestinationParts(dst, src, pool, parts)
		require.NoError(t, err)
		return f
	}
	require.Equal(t, Finding{Checked: 64}, find(arrived()))
	flipped := func(at int64) func(hostMemory) {
		return func(p hostMemory) { p[at/8] ^= 1 << (at % 8 * 8) }
	}
	for name, tc := range map[string]struct {
		change func(hostMemory)
		class  string
		word   int64
	}{
		"nothing came":         {func(p hostMemory) { put(p, mixedBytes(dst, 83, 61), 83) }, "not written", 10},
		"the burst before":     {func(p hostMemory) { put(p, mixedBytes(stale, 305, 61), 83) }, "stale", 10},
		"another block":        {func(p hostMemory) { put(p, mixedBytes(src, 201, 61), 83) }, "misplaced", 10},
		"a byte too far":       {func(p hostMemory) { put(p, mixedBytes(src, 304, 61), 83) }, "misplaced", 10},
		"the end did not come": {func(p hostMemory) { put(p, mixedBytes(dst, 200, 5), 200) }, "torn", 25},
		"the first byte":       {flipped(83), "corrupted", 10},
		"the last byte":        {flipped(204), "corrupted", 25},
		"in front of a block":  {flipped(82), "guard", 10},
		"behind the last one":  {flipped(205), "guard", 25},
		"the first of all":     {flipped(0), "guard", 0},
		"the last of all":      {flipped(511), "guard", 63},
	} {
		pool := arrived()
		tc.change(pool)
		f := find(pool)
		require.Equal(t, tc.class, f.Class, name)
		require.Equal(t, tc.word*WordBytes, f.At, name)
		for _, c := range f.Wrong.Classes() {
			require.Equal(t, c.Name == tc.class, *c.Count > 0, "%s: %d of %s", name, *c.Count, c.Name)
		}
	}

	own := make(hostMemory, 64)
	require.NoError(t, PaintMixed(src, own))
	f, err := UnchangedMixed(src, own, "source")
	require.NoError(t, err)
	require.Equal(t, Finding{Checked: 64}, f)
	flipped(30)(own)
	f, err = UnchangedMixed(src, own, "source")
	require.NoError(t, err)
	require.Equal(t, Finding{64, result.Wrong{Source: 1}, "source", 24}, f)
}

// Words are mixed and back, and any byte of a word differs from that of most other words, and from that at its place
// in another pool and in the burst before.
func TestMixedWords(t *testing.T) {
	o := Origin{Of(1), 300}
	for _, i := range []int{0, 1, 77, 1 << 27} {
		require.Equal(t, o.Word(i), unmixed(o.mixed(i)))
	}
	for b := range WordBytes {
		values := map[byte]bool{}
		for i := range 256 {
			values[byte(o.mixed(i)>>(8*b))] = true
		}
		require.Greater(t, len(values), 100, "byte %d", b)
		for _, other := range []Origin{{Of(0), o.Nonce}, {o.Pool, o.Nonce - 1}} {
			same := 0
			for i := range 256 {
				if byte(o.mixed(i)>>(8*b)) == byte(other.mixed(i)>>(8*b)) {
					same++
				}
			}
			require.Less(t, same, 16, "byte %d of %v and %v", b, o, other)
		}
	}
}

// Parts of whole words are spans, and no others.
func TestSpansOfParts(t *testing.T) {
	spans, whole := Spans([]Part{{8, 16, 24}, {64, 0, 8}})
	require.True(t, whole)
	require.Equal(t, []Span{{1, 2, 3}, {8, 0, 1}}, spans)
	for _, p := range []Part{{1, 0, 8}, {0, 1, 8}, {0, 0, 9}} {
		_, whole = Spans([]Part{{0, 0, 8}, p})
		require.False(t, whole)
	}
}
