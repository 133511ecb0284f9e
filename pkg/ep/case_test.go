package ep_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/ep"
)

// The figures of docs/reliability.md.
func TestAlternatingCalls(t *testing.T) {
	c := ep.Block{EPSize: 8, Hidden: 7168, TopK: 8}
	for tokens, want := range map[int]int{1: 64, 117: 64, 118: 62, 256: 28, 512: 14, 748: 10, 749: 8, 8192: 8, 1 << 30: 8} {
		require.Equal(t, want, c.AlternatingCalls(tokens), tokens)
	}
	two := ep.Block{EPSize: 2, Hidden: 7168, TopK: 8} // a token reaches at most two ranks
	require.Equal(t, 28, two.AlternatingCalls(512+128))
}
