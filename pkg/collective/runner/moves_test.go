package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/numeric"
)

// The bounds of the operations, by hand: k is the count of an extent, n the
// ranks. NVLS all_reduce moves k off and onto a rank, a multicast all_gather k
// off, and any library (n-1)k onto it.
func TestMoves(t *testing.T) {
	const k, n = 1024, 4
	each := func(rank int) int { return rank }
	for _, tt := range []struct {
		op        Op
		off, onto int64
		memory    int64 // out of place
		inPlace   int64
	}{
		{AllReduce, k, k, 2 * k, 2 * k},
		{AllGather, k, (n - 1) * k, (n + 1) * k, n * k},
		{ReduceScatter, (n - 1) * k, k, n * k, n * k},
		{AllToAll, (n - 1) * k, (n - 1) * k, 2 * n * k, 0},
		{Broadcast, k, k, 2 * k, k},
		{SendRecv, k, k, 2 * k, 0},
		{Reduce, k, k, k, k},
		{Gather, k, (n - 1) * k, (n + 1) * k, (n - 1) * k},
		{Scatter, (n - 1) * k, k, (n + 1) * k, (n - 1) * k},
		{P2P, k, k, k, 0},
		{P2PBidir, k, k, 2 * k, 0},
		{Hypercube, k, (n - 1) * k, (n + 1) * k, n * k},
		{Halo, 2 * k, 2 * k, 4 * k, 0},
	} {
		f := Form{Op: tt.op, Type: numeric.Float, World: n, Root: 1, Pair: Pair{Src: 2, Dst: 3}}
		size := int64(k * 4)
		s := shapes[tt.op]
		size *= max(s.send.parts(n), s.recv.parts(n))
		e := f.Extent(size)
		require.Equal(t, int64(k), e.Count)
		require.Equal(t, moves{Off: tt.off, Onto: tt.onto, Memory: tt.memory}, f.moves(e, false, each), tt.op)
		if tt.op.InPlace() {
			require.Equal(t, moves{Off: tt.off, Onto: tt.onto, Memory: tt.inPlace}, f.moves(e, true, each), "%s in place", tt.op)
		}
		one := f
		if one.World, one.Root = 1, 0; !tt.op.Pairwise() {
			m := one.moves(one.Extent(size), false, each)
			require.Zero(t, m.Off+m.Onto, "%s of one rank moves nothing off it", tt.op)
			require.Positive(t, m.Memory, tt.op)
		}
	}
}

// What stays with a rank, or within a domain, is not counted.
func TestMovesOfTrafficAndDomains(t *testing.T) {
	f := Form{Op: AllToAllV, Type: numeric.Float, World: 4, Traffic: [][]int64{
		{4000, 400, 40, 0},
		{0, 0, 0, 80},
		{0, 0, 0, 8},
		{12, 0, 0, 0},
	}}
	e := f.Extent(4440)
	require.Equal(t, moves{Off: 110, Onto: 100, Memory: 2113}, f.moves(e, false, func(r int) int { return r }))
	require.Equal(t, moves{Off: 30, Onto: 30}, f.moves(e, false, func(r int) int { return r / 2 }))

	reduce := Form{Op: AllReduce, Type: numeric.Float, World: 4}
	require.Equal(t, moves{Off: 16, Onto: 16}, reduce.moves(reduce.Extent(64), false, func(r int) int { return r / 2 }), "one partial sum of a domain")
	gather := Form{Op: AllGather, Type: numeric.Float, World: 4}
	require.Equal(t, moves{Off: 32, Onto: 32}, gather.moves(gather.Extent(256), false, func(r int) int { return r / 2 }))
}

// No algorithm needs less than busbw counts at most: the bound never exceeds the
// part of the data that nccl-tests says must cross each rank's link.
func TestMovesAreNotMoreThanBusBandwidthCounts(t *testing.T) {
	for _, op := range Ops() {
		if op == AllToAllV {
			continue
		}
		for _, n := range []int{2, 4, 8} {
			f := Form{Op: op, Type: numeric.Float, World: n, Pair: Pair{Src: 0, Dst: 1}}
			e := f.Extent(1 << 20)
			m := f.moves(e, false, func(r int) int { return r })
			bus := float64(e.Bytes) * collective.AlgFactor(op.String(), n) * op.BusFactor(n)
			require.LessOrEqual(t, float64(4*max(m.Off, m.Onto)), bus, "%s of %d", op, n)
		}
	}
}
