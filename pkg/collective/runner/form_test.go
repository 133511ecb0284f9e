package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
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
			require.Equal(t, c.want, Form{Op: c.op, Type: c.dtype, World: c.world}.Extent(c.bytes))
		})
	}
}

// aForm is an operation of four ranks with all it may need.
func aForm(op Op) Form {
	f := Form{Op: op, Type: numeric.Float, World: 4}
	if op.Rooted() {
		f.Root = 2
	}
	if op == AllToAllV {
		f.Traffic = skewed()
	}
	if op.Pairwise() {
		f.Pair = Pair{Src: 3, Dst: 1}
	}
	return f
}

// skewed is traffic in which rank 1 sends nothing, nobody sends rank 2 anything
// but rank 3, and the largest sum is what rank 3 receives.
func skewed() [][]int64 {
	return [][]int64{
		{8, 16, 0, 400},
		{0, 0, 0, 0},
		{4, 0, 0, 300},
		{12, 40, 24, 200},
	}
}

// Every element of every output is some rank's input, and that rank has it.
func TestOutputsComeFromInputs(t *testing.T) {
	need.Full(t)
	for _, op := range Ops() {
		f := aForm(op)
		e := f.Extent(1 << 10)
		received := int64(0)
		for rank := range f.World {
			end := int64(0)
			for _, out := range f.Outputs(e, rank) {
				require.Equal(t, end, out.Offset, "%s: no gaps", op)
				require.Positive(t, out.Count)
				end += out.Count
				require.LessOrEqual(t, end, e.Recv, op)
				received += out.Count
				if out.Source == workload.AllRanks {
					require.True(t, op.Reduces())
					require.LessOrEqual(t, out.First+out.Count, e.Send, op)
					continue
				}
				in := f.Inputs(e, out.Source)
				require.Len(t, in, 1, op)
				require.GreaterOrEqual(t, out.First, in[0].First, op)
				require.LessOrEqual(t, out.First+out.Count, in[0].First+in[0].Count, op)
				require.LessOrEqual(t, in[0].Count, e.Send, op)
			}
		}
		want := int64(f.World) * e.Recv
		switch op {
		case Reduce, Gather:
			want = e.Recv
		case P2P:
			want = e.Recv
		case P2PBidir:
			want = 2 * e.Recv
		case AllToAllV:
			want = (8 + 16 + 400 + 4 + 300 + 12 + 40 + 24 + 200) / 4
		}
		require.Equal(t, want, received, op)
	}
}

func TestTrafficIsThatOfNCCLTests(t *testing.T) {
	f := aForm(AllToAllV)
	e := f.Extent(900)
	require.Equal(t, []int64{900, 225, 106, 225}, []int64{e.Bytes, e.Count, e.Send, e.Recv})
	require.Equal(t, e, f.Extent(1<<40), "never scaled up")
	require.Equal(t, []workload.Region{
		{Offset: 0, Count: 100, First: 6, Source: 0}, {Offset: 100, Count: 75, First: 1, Source: 2}, {Offset: 175, Count: 50, First: 19, Source: 3},
	}, f.Outputs(e, 3))
	require.Equal(t, []workload.Region{{Count: 106, Source: 0}}, f.Inputs(e, 0))
	require.Empty(t, f.Inputs(e, 1))
	require.Equal(t, []int64{3, 10, 6, 50, 0, 3, 13, 19, 100, 0, 75, 50, 0, 100, 100, 175}, f.Exchange(e, 3))

	scaled := f.Extent(90)
	require.EqualValues(t, 88, scaled.Bytes, "each part rounded down to whole elements")
	require.Equal(t, []int64{0, 0, 0, 10}, scaled.flow[0])
	huge := Form{Op: AllToAllV, Type: numeric.Int8, World: 1, Traffic: [][]int64{{1 << 50}}}
	require.EqualValues(t, 1<<49, huge.Extent(1<<49).Count)
	require.Zero(t, f.Extent(3).Bytes)
}

func TestOnlyListedPartsHaveAnExchange(t *testing.T) {
	for _, op := range Ops() {
		f := aForm(op)
		require.Equal(t, op.Exchanges(), f.Exchange(f.Extent(1<<10), 0) != nil, op)
	}
}

// A message without elements is a message.
func TestEmptyMessagesAreListed(t *testing.T) {
	for op, want := range map[Op][3][]int64{
		P2P:      {{0, 0, 1, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, {0, 0, 0, 1, 0, 0}},
		P2PBidir: {{0, 0, 1, 0, 0, 1}, {0, 0, 0, 0, 0, 0}, {1, 0, 0, 1, 0, 0}},
	} {
		f := Form{Op: op, Type: numeric.Float, World: 3, Pair: Pair{Src: 0, Dst: 2}}
		for rank, messages := range want {
			require.Equal(t, append(make([]int64, 12), messages...), f.Exchange(f.Extent(0), rank), op)
		}
	}
}
