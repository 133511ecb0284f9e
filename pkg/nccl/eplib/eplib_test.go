package eplib

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/numeric"
)

const newEnough = "23007"

// one is a rank that is alone, with memory for small arrays.
type one struct {
	lib    *Library
	comm   *nccl.Communicator
	stream accel.Stream
	device accel.Device
}

func alone(t *testing.T) one {
	t.Helper()
	fakes.Build(t).UseWithoutKernels(t)
	t.Setenv("CX_FAKE_NCCL_VERSION", newEnough)
	runtime.LockOSThread() // for good: the device is current on it
	driver, err := cuda.Load()
	require.NoError(t, err)
	device, err := driver.Open(0, "")
	require.NoError(t, err)
	stream, err := device.NewStream()
	require.NoError(t, err)
	n, err := nccl.Open(nccl.NCCL)
	require.NoError(t, err)
	id, err := n.NewID()
	require.NoError(t, err)
	comm, err := n.Init([]nccl.ID{id}, 0, 1, nccl.Config{})
	require.NoError(t, err)
	lib, err := Open(t.Context(), n)
	require.NoError(t, err)
	require.Equal(t, "0.1.0+nccl2.30.7", lib.FullVersion())
	require.Equal(t, "libnccl_ep.so.0", lib.SOName())
	t.Cleanup(func() {
		require.NoError(t, comm.Close())
		require.NoError(t, stream.Close())
		require.NoError(t, device.Close())
	})
	return one{lib, comm, stream, device}
}

func (o one) array(t *testing.T, of numeric.Type, dims ...int) Array {
	t.Helper()
	bytes := of.Size()
	for _, n := range dims {
		bytes *= n
	}
	at, err := o.device.Alloc(int64(bytes))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.device.Free(at)) })
	require.NoError(t, accel.Write(o.device, o.stream, at, make([]byte, bytes)))
	return Array{At: at, Type: of, Dims: dims}
}

// What the library demands of its calls comes back as an error of the call: blocks and
// tensors that arrived whole, the order of calls, and room for what can arrive.
func TestCallsThatBreakARule(t *testing.T) {
	o := alone(t)
	const experts, topk, tokens, hidden = 4, 2, 3, 256
	g, err := o.lib.NewGroup(o.comm, Config{
		Algorithm: LowLatency, Layout: ExpertMajor, Experts: experts, TopK: topk, MaxTokens: tokens, TokenBytes: 2 * hidden,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()

	update := func(n int) *Call { return g.Update(Update{Expert: o.array(t, numeric.Int32, n, topk)}) }
	rows := o.array(t, numeric.BFloat16, experts, tokens, hidden)
	dispatch := Dispatch{
		X: o.array(t, numeric.BFloat16, tokens, hidden), Received: rows, Counts: o.array(t, numeric.Int32, experts),
	}
	combine := func() *Call {
		return g.Combine(Combine{
			Rows: rows, Weight: o.array(t, numeric.Float, tokens, topk), Out: o.array(t, numeric.BFloat16, tokens, hidden),
		})
	}
	small := dispatch
	small.Received = o.array(t, numeric.BFloat16, experts, tokens-1, hidden)
	for _, step := range []struct {
		call *Call
		want string
	}{
		{g.Dispatch(dispatch), "ncclEpDispatch: ncclInvalidUsage on rank 0"}, // no routing yet
		{update(tokens + 1), "ncclEpUpdateHandle: ncclInvalidArgument on rank 0"},
		{update(tokens), ""},
		{combine(), "ncclEpCombine: ncclInvalidUsage on rank 0"}, // nothing to combine
		{g.Dispatch(small), "ncclEpDispatch: ncclInvalidArgument on rank 0"},
		{g.Dispatch(dispatch), ""},
		{combine(), ""},
		{combine(), ""}, // a handle is good for several
		{g.Dispatch(dispatch), ""},
	} {
		err := step.call.Enqueue(o.stream)
		step.call.Free()
		if step.want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, step.want)
		}
	}
	require.NoError(t, o.stream.Synchronize())
}

// In the rank-major layout weights go along, experts and weights of each row come with it as
// int32 and float, and rows are counted by rank.
func TestRankMajorCallsThatBreakARule(t *testing.T) {
	o := alone(t)
	const experts, topk, tokens, hidden = 4, 2, 3, 256
	g, err := o.lib.NewGroup(o.comm, Config{
		Algorithm: LowLatency, Layout: RankMajor, Experts: experts, TopK: topk, MaxTokens: tokens, TokenBytes: 2 * hidden,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()
	enqueue := func(c *Call) error {
		defer c.Free()
		return c.Enqueue(o.stream)
	}
	require.NoError(t, enqueue(g.Update(Update{Expert: o.array(t, numeric.Int64, tokens, topk)})))
	right := Dispatch{
		X: o.array(t, numeric.BFloat16, tokens, hidden), Weight: o.array(t, numeric.Float, tokens, topk),
		Received:       o.array(t, numeric.BFloat16, 1, tokens, hidden),
		ReceivedExpert: o.array(t, numeric.Int32, 1, tokens, topk), ReceivedWeight: o.array(t, numeric.Float, 1, tokens, topk),
		RankCounts: o.array(t, numeric.Int32, 1),
	}
	for name, spoil := range map[string]func(*Dispatch){
		"no weights":               func(d *Dispatch) { d.Weight = Array{} },
		"rows by expert":           func(d *Dispatch) { d.Received = o.array(t, numeric.BFloat16, experts, tokens, hidden) },
		"no experts of rows":       func(d *Dispatch) { d.ReceivedExpert = Array{} },
		"experts of rows as int64": func(d *Dispatch) { d.ReceivedExpert = o.array(t, numeric.Int64, 1, tokens, topk) },
		"no weights of rows":       func(d *Dispatch) { d.ReceivedWeight = Array{} },
		"counts by expert":         func(d *Dispatch) { d.Counts = o.array(t, numeric.Int32, experts) },
		"counts of more ranks":     func(d *Dispatch) { d.RankCounts = o.array(t, numeric.Int32, 2) },
	} {
		wrong := right
		spoil(&wrong)
		require.EqualError(t, enqueue(g.Dispatch(wrong)), "ncclEpDispatch: ncclInvalidArgument on rank 0", name)
	}
	require.NoError(t, enqueue(g.Dispatch(right)))
	out := o.array(t, numeric.BFloat16, tokens, hidden)
	require.EqualError(t, enqueue(g.Combine(Combine{Rows: o.array(t, numeric.BFloat16, tokens, hidden), Out: out})), "ncclEpCombine: ncclInvalidArgument on rank 0")
	require.NoError(t, enqueue(g.Combine(Combine{Rows: right.Received, Out: out})))
	require.NoError(t, o.stream.Synchronize())
}

// Zero copy is an error where rows are in no window, and in other layouts.
func TestZeroCopyNeedsAWindow(t *testing.T) {
	o := alone(t)
	const experts, topk, tokens, hidden = 4, 2, 3, 256
	g, err := o.lib.NewGroup(o.comm, Config{
		Algorithm: LowLatency, Layout: RankMajor, Experts: experts, TopK: topk, MaxTokens: tokens, TokenBytes: 2 * hidden, ZeroCopy: true,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()
	const bytes = 2 * tokens * hidden
	at, err := o.comm.Library().Alloc(bytes)
	require.NoError(t, err)
	defer func() { require.NoError(t, o.comm.Library().Free(at)) }()
	window, err := o.comm.Register(at, bytes, true)
	require.NoError(t, err)
	defer func() { require.NoError(t, window.Close()) }()

	update := g.Update(Update{Expert: o.array(t, numeric.Int64, tokens, topk)})
	defer update.Free()
	require.NoError(t, update.Enqueue(o.stream))
	d := Dispatch{
		X: o.array(t, numeric.BFloat16, tokens, hidden), Weight: o.array(t, numeric.Float, tokens, topk),
		ReceivedExpert: o.array(t, numeric.Int32, 1, tokens, topk), ReceivedWeight: o.array(t, numeric.Float, 1, tokens, topk),
	}
	dispatch := func(rows Array) error {
		d.Received = rows
		c := g.Dispatch(d)
		defer c.Free()
		return c.Enqueue(o.stream)
	}
	rows := Array{At: at, Type: numeric.BFloat16, Dims: []int{1, tokens, hidden}}
	const refused = "ncclEpDispatch: ncclInvalidArgument on rank 0"
	require.EqualError(t, dispatch(rows), refused)
	rows.Window = window
	elsewhere := o.array(t, numeric.BFloat16, 1, tokens, hidden)
	elsewhere.Window = window
	require.EqualError(t, dispatch(elsewhere), refused)
	require.NoError(t, dispatch(rows))
	require.NoError(t, o.stream.Synchronize())
}

func TestGroupsThatCannotBe(t *testing.T) {
	o := alone(t)
	for _, c := range []struct {
		want   string
		config Config
	}{
		{"ncclEpCreateGroup: ncclInvalidArgument on rank 0", Config{Algorithm: HighThroughput, Layout: Flat, TopK: 1, MaxTokens: 1, TokenBytes: 16}},
		{"ncclEpCreateGroup: ncclInvalidArgument on rank 0", Config{Algorithm: HighThroughput, Layout: Flat, Experts: 4, TopK: 1, MaxTokens: 1, TokenBytes: 8}},
		{"ncclEpInitHandle: ncclInvalidArgument on rank 0", Config{Algorithm: HighThroughput, Experts: 4, TopK: 1, MaxTokens: 1, TokenBytes: 16}},
		{"ncclEpInitHandle: ncclInvalidArgument on rank 0", Config{Algorithm: LowLatency, Layout: Flat, Experts: 4, TopK: 1, MaxTokens: 1, TokenBytes: 16}},
	} {
		_, err := o.lib.NewGroup(o.comm, c.config)
		require.EqualError(t, err, c.want)
	}
}

// A group whose communicator has been aborted has nothing left that could be ended.
func TestAfterAnAbort(t *testing.T) {
	o := alone(t)
	g, err := o.lib.NewGroup(o.comm, Config{Algorithm: HighThroughput, Layout: Flat, Experts: 4, TopK: 1, MaxTokens: 1, TokenBytes: 16})
	require.NoError(t, err)
	require.NoError(t, o.comm.Abort())
	require.NoError(t, g.Close())
	_, err = o.lib.NewGroup(o.comm, Config{})
	require.ErrorIs(t, err, nccl.ErrEnded)
}

func TestRCCLIsNoNCCL(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	n, err := nccl.Open(nccl.RCCL)
	require.NoError(t, err)
	_, err = Open(t.Context(), n)
	require.ErrorIs(t, err, ErrOldNCCL)
}
