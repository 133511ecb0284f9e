package runner

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Inputs of two windows in turn share no seed, and every allowed distance is drawn.
func TestSeedsOfTurns(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for _, n := range []uint64{1, 32, timedSeeds / 4} {
		last, distances := uint64(0), map[uint64]bool{}
		for range 10_000 {
			next := drawSeed(chance, last, n)
			require.Less(t, next, uint64(timedSeeds))
			further := (next + timedSeeds - last) % timedSeeds
			require.True(t, n <= further && further <= timedSeeds-n, "%d inputs from seed %d, then from %d", n, last, next)
			distances[further] = true
			last = next
		}
		require.Len(t, distances, int(timedSeeds-2*n+1))
	}
	all := map[uint64]bool{}
	for range 10_000 {
		all[drawSeed(chance, 0, timedSeeds/4+1)] = true
	}
	require.Len(t, all, timedSeeds, "of more inputs, any seed is the first")
}
