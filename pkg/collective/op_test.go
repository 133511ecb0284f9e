package collective

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// What nccl-tests prints in its size and count columns for the requested bytes.
func TestExtentIsThatOfNCCLTests(t *testing.T) {
	for _, c := range []struct {
		name  string
		op    Op
		dtype numeric.Type
		world int
		bytes int64
		want  Extent
	}{
		{"all_reduce", AllReduce, numeric.Float, 8, 1024, Extent{Bytes: 1024, Count: 256, Send: 256, Recv: 256}},
		{"whole elements", AllReduce, numeric.Double, 8, 1020, Extent{Bytes: 1016, Count: 127, Send: 127, Recv: 127}},
		{"all_gather", AllGather, numeric.Float, 8, 1024, Extent{Bytes: 1024, Count: 32, Send: 32, Recv: 256}},
		{"all_gather rounds a part to 16 bytes", AllGather, numeric.Float, 3, 1024, Extent{Bytes: 1008, Count: 84, Send: 84, Recv: 252}},
		{"all_gather of nothing", AllGather, numeric.Float, 8, 64, Extent{}},
		{"reduce_scatter", ReduceScatter, numeric.Half, 4, 1024, Extent{Bytes: 1024, Count: 128, Send: 512, Recv: 128}},
		{"alltoall", AllToAll, numeric.Int8, 4, 100, Extent{Bytes: 64, Count: 16, Send: 64, Recv: 64}},
		{"broadcast", Broadcast, numeric.BFloat16, 4, 10, Extent{Bytes: 10, Count: 5, Send: 5, Recv: 5}},
		{"sendrecv", SendRecv, numeric.Float, 4, 8, Extent{Bytes: 8, Count: 2, Send: 2, Recv: 2}},
		{"reduce", Reduce, numeric.Float, 4, 8, Extent{Bytes: 8, Count: 2, Send: 2, Recv: 2}},
		{"gather", Gather, numeric.Float, 2, 64, Extent{Bytes: 64, Count: 8, Send: 8, Recv: 16}},
		{"scatter", Scatter, numeric.Float, 2, 64, Extent{Bytes: 64, Count: 8, Send: 16, Recv: 8}},
		{"less than an element", AllReduce, numeric.Double, 2, 7, Extent{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, c.op.Extent(c.bytes, c.dtype, c.world))
		})
	}
}

func TestBandwidthFactors(t *testing.T) {
	for op, want := range map[Op]float64{
		AllReduce: 1.75, AllGather: 0.875, ReduceScatter: 0.875, AllToAll: 0.875, Gather: 0.875, Scatter: 0.875,
		Broadcast: 1, Reduce: 1, SendRecv: 1,
	} {
		require.InDelta(t, want, op.BusFactor(8), 1e-12, op)
	}
	require.InDelta(t, 2.0, AlgBW(1e6, 500), 1e-12)
}

// Every element of every output is some rank's input, and that rank has it.
func TestOutputsComeFromInputs(t *testing.T) {
	const world, root = 4, 2
	for _, op := range Ops() {
		e := op.Extent(1<<10, numeric.Float, world)
		received := int64(0)
		for rank := range world {
			for _, out := range op.Outputs(e, rank, world, root) {
				require.LessOrEqual(t, out.Offset+out.Count, e.Recv, op)
				received += out.Count
				if out.Source == workload.AllRanks {
					require.True(t, op.Reduces())
					require.LessOrEqual(t, out.First+out.Count, e.Send, op)
					continue
				}
				in := op.Inputs(e, out.Source, root)
				require.Len(t, in, 1, op)
				require.GreaterOrEqual(t, out.First, in[0].First, op)
				require.LessOrEqual(t, out.First+out.Count, in[0].First+in[0].Count, op)
			}
		}
		want := world * e.Recv
		if op == Reduce || op == Gather {
			want = e.Recv
		}
		require.Equal(t, want, received, op)
	}
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
