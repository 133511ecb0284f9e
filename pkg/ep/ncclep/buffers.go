package ncclep

import (
	"errors"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/nccl/eplib"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
)

// leastTokens is the minimum capacity of low-latency buffers, in tokens per rank. Short ladders are
// therefore measured with the same buffers as long ones.
const leastTokens = 256

// buffers holds the group of a case and its output buffers. All ranks have the same sizes.
type buffers struct {
	device  *accel.Scope
	stream  accel.Stream
	comm    *nccl.Communicator
	codec   runner.Codec
	group   *eplib.Group
	windows [2]*nccl.Registration // of received and, in Flat, of others; nil: none

	layout           eplib.Layout
	rank, world      int
	hidden, topk     int
	perRank          int // experts per rank
	tokens           int // maximum of a rank
	blocks, capacity int // row blocks and the rows that each holds; one block per expert, one per rank, or one in all
	counts, total    accel.Ptr
	received, scales accel.Ptr
	experts, weights accel.Ptr // metadata of each received row; unused in ExpertMajor
	others           accel.Ptr // bf16 rows for combine instead of the received ones
	out              accel.Ptr
}

// newBuffers creates the group of a case and its buffers, collectively.
func (a *adapter) newBuffers(c plan.Case, need runner.Capacity) (b *buffers, err error) {
	of := ep.Of(&c)
	b = &buffers{
		device: accel.NewScope(a.gpu), stream: a.stream, comm: a.comm.Communicator, codec: a.d.Codec, layout: layoutOf(of), rank: a.comm.Rank(), world: c.World,
		hidden: of.Hidden, topk: of.TopK, perRank: need.Experts / c.World, tokens: need.Tokens,
	}
	config := eplib.Config{Algorithm: eplib.LowLatency, Layout: b.layout, QueuePairs: b.perRank}
	if b.layout != eplib.Flat {
		b.tokens = max(b.tokens, leastTokens)
	}
	switch b.layout {
	case eplib.ExpertMajor:
		b.blocks, b.capacity = b.perRank, b.world*b.tokens
	case eplib.RankMajor:
		b.blocks, b.capacity = b.world, b.tokens
	case eplib.Flat:
		b.blocks, b.capacity = 1, b.world*b.tokens
		config = eplib.Config{Algorithm: eplib.HighThroughput, Layout: b.layout, MaxReceived: b.capacity}
	}
	config.Experts, config.TopK, config.MaxTokens, config.TokenBytes = need.Experts, b.topk, b.tokens, 2*b.hidden
	if config.ZeroCopy = inWindows(c); config.ZeroCopy {
		if err := b.allocWindows(); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	if err := b.alloc(); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if b.group, err = a.lib.NewGroup(b.comm, config); err != nil {
		return nil, errors.Join(gpurank.NCCLError(err), b.close())
	}
	return b, nil
}

// layoutOf returns the library's layout for a case.
func layoutOf(b *ep.Block) eplib.Layout {
	switch {
	case b.Mode == ep.ModeNormal:
		return eplib.Flat
	case b.Layout == ep.RankMajor, b.Layout == ep.RankMajorWindow:
		return eplib.RankMajor
	default:
		return eplib.ExpertMajor
	}
}

// receivedBytes returns the size of received.
func (b *buffers) receivedBytes() int {
	return b.blocks * b.capacity * b.hidden * b.codec.ValueBytes()
}

// allocWindows allocates received as a symmetric window and, in Flat, others too, collectively.
func (b *buffers) allocWindows() error {
	parts := []*accel.Ptr{&b.received, &b.others}
	if b.layout != eplib.Flat {
		parts = parts[:1]
	}
	bytes := int64(b.receivedBytes())
	for i, at := range parts {
		memory, free, err := gpurank.Alloc(b.comm, b.device.Device, bytes)
		if err != nil {
			return err
		}
		*at = memory
		b.device.Defer(free)
		if b.windows[i], err = b.comm.Register(memory, bytes, true); errors.Is(err, nccl.ErrNoHandle) {
			return rank.Refused("nccl-ep needs symmetric windows of NCCL: %w", err)
		}
		if err != nil {
			return gpurank.NCCLError(err)
		}
		b.device.Defer(func() error { return gpurank.Deregister(b.comm, b.windows[i]) })
	}
	return nil
}

// counted returns how many counts the library reports: one for each rank, or for each expert.
func (b *buffers) counted() int {
	if b.layout == eplib.RankMajor {
		return b.world
	}
	return b.perRank
}

func (b *buffers) alloc() error {
	rows := b.blocks * b.capacity
	beside, id, total := rows*b.topk, 8, 0
	switch b.layout {
	case eplib.ExpertMajor:
		beside = 0
	case eplib.RankMajor:
		id = 4
	case eplib.Flat:
		total = 4
	}
	parts := []struct {
		at    *accel.Ptr
		bytes int
	}{
		{&b.counts, 4 * b.counted()},
		{&b.received, b.receivedBytes()},
		{&b.others, rows * b.hidden * 2},
		{&b.out, b.tokens * b.hidden * 2},
		{&b.scales, rows * b.codec.Scales(b.hidden) * 4},
		{&b.total, total},
		{&b.experts, id * beside},
		{&b.weights, 4 * beside},
	}
	for _, p := range parts {
		if p.bytes == 0 || *p.at != 0 { // a window
			continue
		}
		var err error
		if *p.at, err = b.device.Alloc(int64(p.bytes)); err != nil {
			return rank.OutOfMemory(int64(p.bytes), err)
		}
	}
	return nil
}

func (b *buffers) close() (err error) {
	if b.group != nil {
		err = gpurank.NCCLError(b.group.Close())
	}
	return errors.Join(err, b.device.Close())
}

// calls holds the prepared operations of a problem.
type calls struct {
	update *eplib.Call
	// dispatch has a call for each input of p.
	p        *runner.Problem
	dispatch []*eplib.Call
	// combine takes the received rows, combineOthers the rows in others.
	combine, combineOthers *eplib.Call
}

func (b *buffers) bind(p *runner.Problem) calls {
	weight := eplib.Array{At: p.Weight, Type: numeric.Float, Dims: []int{p.Tokens, p.TopK}}
	update := eplib.Update{Expert: eplib.Array{At: p.Expert, Type: numeric.Int64, Dims: []int{p.Tokens, p.TopK}}}
	dispatch := eplib.Dispatch{X: b.bf16(p.X, p.Tokens)}
	combine := eplib.Combine{Out: b.bf16(b.out, p.Tokens)}
	counts := eplib.Array{At: b.counts, Type: numeric.Int32, Dims: []int{b.counted()}}
	rows := func(at accel.Ptr, of numeric.Type, columns int) eplib.Array {
		return eplib.Array{At: at, Type: of, Dims: []int{b.blocks, b.capacity, columns}}
	}
	dispatch.Received = rows(b.received, numeric.BFloat16, b.hidden)
	switch b.layout {
	case eplib.ExpertMajor:
		combine.Weight, dispatch.Counts = weight, counts
	case eplib.RankMajor:
		dispatch.Weight, dispatch.RankCounts = weight, counts
		dispatch.ReceivedExpert, dispatch.ReceivedWeight = rows(b.experts, numeric.Int32, b.topk), rows(b.weights, numeric.Float, b.topk)
	case eplib.Flat:
		update.Counts, update.Received = counts, eplib.Array{At: b.total, Type: numeric.Int32, Dims: []int{1}}
		dispatch.Weight, dispatch.Received = weight, b.bf16(b.received, b.capacity)
		dispatch.ReceivedExpert = eplib.Array{At: b.experts, Type: numeric.Int64, Dims: []int{b.capacity, b.topk}}
		dispatch.ReceivedWeight = eplib.Array{At: b.weights, Type: numeric.Float, Dims: []int{b.capacity, b.topk}}
	}
	of := calls{p: p, update: b.group.Update(update)}
	combine.Rows = dispatch.Received
	if b.layout == eplib.Flat {
		combine.Rows.Window = b.windows[0]
	}
	of.combine = b.group.Combine(combine)
	combine.Rows.At, combine.Rows.Window = b.others, b.windows[1]
	of.combineOthers = b.group.Combine(combine)
	if b.codec.Format != nil {
		dispatch.FP8, dispatch.Received.Type = true, numeric.F8E4M3
		dispatch.Scales = rows(b.scales, numeric.Float, b.codec.Scales(b.hidden))
	}
	dispatch.Received.Window = b.windows[0]
	for _, x := range p.Inputs {
		dispatch.X.At = x
		of.dispatch = append(of.dispatch, b.group.Dispatch(dispatch))
	}
	return of
}

func (b *buffers) bf16(at accel.Ptr, rows int) eplib.Array {
	return eplib.Array{At: at, Type: numeric.BFloat16, Dims: []int{rows, b.hidden}}
}

func (c calls) free() {
	for _, call := range append(c.dispatch, c.update, c.combine, c.combineOthers) {
		if call != nil {
			call.Free()
		}
	}
}

// run is a range of consecutive rows.
type run struct{ first, rows int }

// arrived returns the ranges of rows of the last dispatch, and the counts of the library.
func (b *buffers) arrived() (runs []run, counts []int32, err error) {
	if counts, err = accel.Read[int32](b.device, b.stream, b.counts, b.counted()); err != nil {
		return nil, nil, err
	}
	if b.layout == eplib.Flat {
		total, err := accel.Read[int32](b.device, b.stream, b.total, 1)
		if err != nil {
			return nil, nil, err
		}
		return []run{{0, min(max(0, int(total[0])), b.capacity)}}, counts, nil
	}
	for block, n := range counts {
		runs = append(runs, run{block * b.capacity, min(max(0, int(n)), b.capacity)})
	}
	return runs, counts, nil
}

// inspect locates the received rows and reads their metadata back.
func (b *buffers) inspect() (*runner.Received, error) {
	runs, counts, err := b.arrived()
	if err != nil {
		return nil, err
	}
	rx := &runner.Received{Counts: counts, Codec: b.codec}
	if b.layout == eplib.RankMajor {
		rx.Counts, rx.RankCounts = nil, counts
	}
	for i, r := range runs {
		rows := b.at(r, b.received, b.hidden*b.codec.ValueBytes())
		if n := 4 * b.codec.Scales(b.hidden); n > 0 {
			rows.Scales, rows.ScaleStride = b.scales.Add(int64(r.first*n)), int64(n)
		}
		rx.Payload = append(rx.Payload, rows)
		if b.layout == eplib.ExpertMajor {
			for range r.rows {
				rx.Expert = append(rx.Expert, int32(b.rank*b.perRank+i))
			}
			continue
		}
		experts, weights, err := b.beside(r)
		if err != nil {
			return nil, err
		}
		rx.Expert, rx.Weight = append(rx.Expert, experts...), append(rx.Weight, weights...)
	}
	return rx, nil
}

// at returns the rows of a run, in memory at from with the given stride in bytes.
func (b *buffers) at(r run, from accel.Ptr, bytes int) runner.Rows {
	return runner.Rows{Count: r.rows, Values: from.Add(int64(r.first * bytes)), Stride: int64(bytes)}
}

// beside reads the experts and weights of a run and converts the library's local expert numbers
// to global ones.
func (b *buffers) beside(r run) (experts []int32, weights []float32, err error) {
	if b.layout == eplib.RankMajor {
		experts, err = readRun[int32](b, r, b.experts)
	} else {
		var wide []int64
		wide, err = readRun[int64](b, r, b.experts)
		for _, e := range wide {
			experts = append(experts, int32(e))
		}
	}
	if err != nil {
		return nil, nil, err
	}
	for i := range experts {
		if experts[i] != -1 { // −1 remains: not an expert of this rank
			experts[i] += int32(b.rank * b.perRank)
		}
	}
	weights, err = readRun[float32](b, r, b.weights)
	return experts, weights, err
}

// readRun reads the metadata of a run, one value for each slot.
func readRun[T int32 | int64 | float32](b *buffers, r run, from accel.Ptr) ([]T, error) {
	var one T
	return accel.Read[T](b.device, b.stream, from.Add(int64(r.first*b.topk)*int64(unsafe.Sizeof(one))), r.rows*b.topk)
}

// replaced returns the places in others that correspond to the received rows.
func (b *buffers) replaced() (to []runner.Rows, err error) {
	runs, _, err := b.arrived()
	for _, r := range runs {
		to = append(to, b.at(r, b.others, 2*b.hidden))
	}
	return to, err
}
