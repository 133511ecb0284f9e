package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

// A fault that changes nothing is named before anything runs.
func TestIdle(t *testing.T) {
	const read, write = "device_to_device_memcpy_read_ce", "device_to_device_memcpy_write_ce"
	for _, tt := range []struct{ test, kind, want string }{
		{read, pool.FaultFlip, "rank 0 has no destination in " + read + "; inject it into rank 1"},
		{write, pool.FaultFlip, ""},
		{write, pool.FaultSource, "rank 0 has no source in " + write + "; inject it into rank 1"},
		{"device_local_copy", FaultVictim, "the case has no victim"},
		{"swap_blocks_h2d", FaultVictim, "the case has no victim"},
		{"swap_blocks_h2d", pool.FaultSwap, ""},
	} {
		c := plan.Case{Block: &copies.Block{Test: tt.test, Sizes: []int64{4096}, Streams: []int{1}}}
		require.Equal(t, tt.want, Measurer.Idle(rank.Fault{Kind: tt.kind, At: rank.FaultAtStart}, &c), "%s %s", tt.test, tt.kind)
	}
	for _, tt := range []struct {
		bytes   int64
		blocks  int
		strikes bool
	}{{1, 1, false}, {15, 1, false}, {16, 1, true}, {1, 2, true}} {
		c := plan.Case{World: 1, Block: &copies.Block{Test: "swap_blocks_h2d", Streams: []int{1}, BlockBytes: []int64{tt.bytes}, NumBlocks: []int{tt.blocks}, MaxPayload: 64}}
		why := Measurer.Idle(rank.Fault{Kind: pool.FaultSwap, At: rank.FaultAtStart}, &c)
		require.Equal(t, tt.strikes, why == "", "%d blocks of %d bytes: %s", tt.blocks, tt.bytes, why)
	}
}
