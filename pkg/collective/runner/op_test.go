package runner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBandwidthFactors(t *testing.T) {
	for op, want := range map[Op]float64{
		AllReduce: 1.75, AllGather: 0.875, ReduceScatter: 0.875, AllToAll: 0.875, Gather: 0.875, Scatter: 0.875,
		Broadcast: 1, Reduce: 1, SendRecv: 1, P2P: 1, P2PBidir: 1, Hypercube: 1, AllToAllV: 0.875, Halo: 1,
	} {
		require.InDelta(t, want, op.BusFactor(8), 1e-12, op)
	}
	require.InDelta(t, 2.0, AlgBW(1e6, 500), 1e-12)
	require.InDelta(t, 0.875, Hypercube.algFactor(8), 1e-12)
	require.InDelta(t, 1, AllGather.algFactor(8), 1e-12)
}

func TestInPlaceOffsets(t *testing.T) {
	for _, c := range []struct {
		op         Op
		send, recv int64
	}{{AllReduce, 0, 0}, {AllGather, 300, 0}, {Gather, 300, 0}, {ReduceScatter, 0, 300}, {Scatter, 0, 300}, {Broadcast, 0, 0}} {
		send, recv := c.op.InPlaceOffsets(100, 3)
		require.Equal(t, []int64{c.send, c.recv}, []int64{send, recv}, c.op)
	}
	require.False(t, AllToAll.InPlace())
	require.False(t, SendRecv.InPlace())
	require.False(t, AllToAllV.InPlace())
}

func TestOpNames(t *testing.T) {
	for _, op := range Ops() {
		got, err := ParseOp(op.String())
		require.NoError(t, err)
		require.Equal(t, op, got)
	}
	_, err := ParseOp("allreduce")
	require.Error(t, err)
}
