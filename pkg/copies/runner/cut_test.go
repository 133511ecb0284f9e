package runner

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/copies"
)

// The blocks of a swap are copied in the order of the source. They keep it in the destination or, in layout random, have
// each other's places in an order that the seed alone decides.
func TestLayouts(t *testing.T) {
	row := copies.Row{Bytes: 257 * 64, Streams: 1, Pieces: 64, BlockBytes: 257}
	places := func(layout string, seed uint64) (dst []int64) {
		pieces := cut(&copies.Block{Test: "swap_blocks_h2d", Layout: layout, Seed: seed}, row)
		require.Len(t, pieces, 1)
		for i, p := range pieces[0] {
			require.Equal(t, int64(i)*257, p.src)
			require.Equal(t, int64(257), p.bytes)
			dst = append(dst, p.dst)
		}
		return dst
	}
	contiguous, random := places(copies.Contiguous, 1), places(copies.Random, 1)
	require.True(t, slices.IsSorted(contiguous))
	require.NotEqual(t, contiguous, random)
	require.ElementsMatch(t, contiguous, random)
	require.Equal(t, random, places(copies.Random, 1))
	require.NotEqual(t, random, places(copies.Random, 2))
}
