package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/numeric"
)

func TestBandwidthFactors(t *testing.T) {
	for op, want := range map[Op]float64{
		AllReduce: 1.75, AllGather: 0.875, ReduceScatter: 0.875, AllToAll: 0.875, Gather: 0.875, Scatter: 0.875,
		Broadcast: 1, Reduce: 1, SendRecv: 1, P2P: 1, P2PBidir: 1, Hypercube: 1, AllToAllV: 0.875, Halo: 1,
	} {
		require.InDelta(t, want, op.BusFactor(8), 1e-12, op)
	}
	require.InDelta(t, 2.0, AlgBW(1e6, 500), 1e-12)
	for _, op := range []Op{AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, SendRecv, Reduce, Gather, Scatter, P2P, P2PBidir, Hypercube, Halo} {
		e := Form{Op: op, Type: numeric.Float, World: 4, Pair: Pair{Src: 0, Dst: 1}}.Extent(1 << 20)
		require.Equal(t, e.Bytes, 4*e.Count*collective.Parts(op.String(), 4), op)
	}
	require.InDelta(t, 0.875, collective.AlgFactor(Hypercube.String(), 8), 1e-12)
	require.InDelta(t, 1, collective.AlgFactor(AllGather.String(), 8), 1e-12)
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
