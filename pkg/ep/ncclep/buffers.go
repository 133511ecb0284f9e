package ncclep

import (
	"errors"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/nccl/eplib"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// leastTokens is how many tokens of a rank low-latency buffers have room for at least, so
// that short ladders are measured with the buffers of others.
const leastTokens = 256

// buffers are the group of a case and what its operations write to. All ranks have the
// same sizes.
type buffers struct {
	device accel.Device
	stream accel.Stream
	codec  ep.Codec
	group  *eplib.Group
	memory []accel.Ptr

	low              bool // low latency
	rank, world      int
	hidden, topk     int
	perRank          int // experts
	tokens           int // of a rank, at most
	capacity         int // rows that have room: of each expert in low latency, else of all
	counts, total    accel.Ptr
	received, scales accel.Ptr
	experts, weights accel.Ptr // beside each row that is received; in normal mode
	others           accel.Ptr // bf16 rows for combine instead of those received
	out              accel.Ptr
}

// newBuffers makes the group of a case and its buffers. All ranks call it.
func (a *adapter) newBuffers(c plan.Case, need ep.Capacity) (b *buffers, err error) {
	of := c.EP()
	b = &buffers{
		device: a.gpu, stream: a.stream, codec: a.d.Codec, low: of.Mode == vocab.ModeLowLatency, rank: a.comm.Rank(), world: c.World,
		hidden: of.Hidden, topk: of.TopK, perRank: need.Experts / c.World, tokens: need.Tokens,
	}
	config := eplib.Config{Algorithm: eplib.HighThroughput, Layout: eplib.Flat}
	if b.low {
		b.tokens = max(b.tokens, leastTokens)
		config = eplib.Config{Algorithm: eplib.LowLatency, Layout: eplib.ExpertMajor, QueuePairs: b.perRank}
	}
	b.capacity = b.world * b.tokens
	config.Experts, config.TopK, config.MaxTokens, config.TokenBytes = need.Experts, b.topk, b.tokens, 2*b.hidden
	if !b.low {
		config.MaxReceived = b.capacity
	}
	if err := b.alloc(); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if b.group, err = a.lib.NewGroup(a.comm, config); err != nil {
		return nil, errors.Join(gpurank.NCCLError(err), b.close())
	}
	return b, nil
}

// rows is how many rows have room.
func (b *buffers) rows() int {
	if b.low {
		return b.perRank * b.capacity
	}
	return b.capacity
}

func (b *buffers) alloc() error {
	rows := b.rows()
	parts := []struct {
		at    *accel.Ptr
		bytes int
	}{
		{&b.counts, 4 * b.perRank},
		{&b.received, rows * b.hidden * b.codec.ValueBytes()},
		{&b.others, rows * b.hidden * 2},
		{&b.out, b.tokens * b.hidden * 2},
		{&b.scales, rows * b.codec.Scales(b.hidden) * 4},
	}
	if !b.low {
		parts = append(parts, []struct {
			at    *accel.Ptr
			bytes int
		}{{&b.total, 4}, {&b.experts, 8 * rows * b.topk}, {&b.weights, 4 * rows * b.topk}}...)
	}
	for _, p := range parts {
		if p.bytes == 0 {
			continue
		}
		var err error
		if *p.at, err = b.device.Alloc(int64(p.bytes)); err != nil {
			return gpurank.MemoryError(p.bytes, err)
		}
		b.memory = append(b.memory, *p.at)
	}
	return nil
}

func (b *buffers) close() (err error) {
	if b.group != nil {
		err = gpurank.NCCLError(b.group.Close())
	}
	for _, at := range b.memory {
		err = errors.Join(err, b.device.Free(at))
	}
	return err
}

// calls are the operations of a problem.
type calls struct {
	update, dispatch *eplib.Call
	// combine takes the rows that were received, combineOthers those in others.
	combine, combineOthers *eplib.Call
}

func (b *buffers) bind(p *ep.Problem) calls {
	weight := eplib.Array{At: p.Weight, Type: numeric.Float, Dims: []int{p.Tokens, p.TopK}}
	update := eplib.Update{Expert: eplib.Array{At: p.Expert, Type: numeric.Int64, Dims: []int{p.Tokens, p.TopK}}}
	dispatch := eplib.Dispatch{X: b.bf16(p.X, p.Tokens)}
	combine := eplib.Combine{Out: b.bf16(b.out, p.Tokens)}
	counts := eplib.Array{At: b.counts, Type: numeric.Int32, Dims: []int{b.perRank}}
	if b.low {
		combine.Weight, dispatch.Counts = weight, counts
		dispatch.Received = eplib.Array{At: b.received, Type: numeric.BFloat16, Dims: []int{b.perRank, b.capacity, b.hidden}}
	} else {
		update.Counts, update.Received = counts, eplib.Array{At: b.total, Type: numeric.Int32, Dims: []int{1}}
		dispatch.Weight, dispatch.Received = weight, b.bf16(b.received, b.capacity)
		dispatch.ReceivedExpert = eplib.Array{At: b.experts, Type: numeric.Int64, Dims: []int{b.capacity, b.topk}}
		dispatch.ReceivedWeight = eplib.Array{At: b.weights, Type: numeric.Float, Dims: []int{b.capacity, b.topk}}
	}
	of := calls{update: b.group.Update(update)}
	combine.Rows = dispatch.Received
	of.combine = b.group.Combine(combine)
	combine.Rows.At = b.others
	of.combineOthers = b.group.Combine(combine)
	if b.codec.Format != nil {
		dispatch.FP8, dispatch.Received.Type = true, numeric.F8E4M3
		dispatch.Scales = eplib.Array{At: b.scales, Type: numeric.Float, Dims: []int{b.perRank, b.capacity, b.codec.Scales(b.hidden)}}
	}
	of.dispatch = b.group.Dispatch(dispatch)
	return of
}

func (b *buffers) bf16(at accel.Ptr, rows int) eplib.Array {
	return eplib.Array{At: at, Type: numeric.BFloat16, Dims: []int{rows, b.hidden}}
}

func (c calls) free() {
	for _, call := range []*eplib.Call{c.update, c.dispatch, c.combine, c.combineOthers} {
		if call != nil {
			call.Free()
		}
	}
}

// run is a number of rows that stand one behind the other.
type run struct{ first, rows int }

// arrived finds the rows of the last dispatch, and how many are of each expert.
func (b *buffers) arrived() (runs []run, counts []int32, err error) {
	if counts, err = accel.Read[int32](b.device, b.stream, b.counts, b.perRank); err != nil {
		return nil, nil, err
	}
	if !b.low {
		total, err := accel.Read[int32](b.device, b.stream, b.total, 1)
		if err != nil {
			return nil, nil, err
		}
		return []run{{0, min(max(0, int(total[0])), b.capacity)}}, counts, nil
	}
	for e, n := range counts {
		runs = append(runs, run{e * b.capacity, min(max(0, int(n)), b.capacity)})
	}
	return runs, counts, nil
}

// inspect finds what arrived, and reads back what is beside the rows.
func (b *buffers) inspect() (*ep.Received, error) {
	runs, counts, err := b.arrived()
	if err != nil {
		return nil, err
	}
	rx := &ep.Received{Counts: counts, Codec: b.codec}
	for i, r := range runs {
		rows := b.at(r, b.received, b.hidden*b.codec.ValueBytes())
		if n := 4 * b.codec.Scales(b.hidden); n > 0 {
			rows.Scales, rows.ScaleStride = b.scales.Add(int64(r.first*n)), int64(n)
		}
		rx.Payload = append(rx.Payload, rows)
		if b.low {
			for range r.rows {
				rx.Expert = append(rx.Expert, int32(b.rank*b.perRank+i))
			}
			continue
		}
		if rx.Expert, rx.Weight, err = b.beside(r.rows); err != nil {
			return nil, err
		}
	}
	return rx, nil
}

// at is where the rows of a run stand, of as many bytes each.
func (b *buffers) at(r run, from accel.Ptr, bytes int) ep.Rows {
	return ep.Rows{Count: r.rows, Values: from.Add(int64(r.first * bytes)), Stride: int64(bytes)}
}

// beside reads the experts and weights of the first n rows. The library numbers experts as
// this rank does.
func (b *buffers) beside(n int) (experts []int32, weights []float32, err error) {
	locals, err := accel.Read[int64](b.device, b.stream, b.experts, n*b.topk)
	if err != nil {
		return nil, nil, err
	}
	for _, local := range locals {
		if local != -1 { // one that is none of this rank's stays so
			local += int64(b.rank * b.perRank)
		}
		experts = append(experts, int32(local))
	}
	weights, err = accel.Read[float32](b.device, b.stream, b.weights, n*b.topk)
	return experts, weights, err
}

// replaced is where others has the rows for those that arrived.
func (b *buffers) replaced() (to []ep.Rows, err error) {
	runs, _, err := b.arrived()
	for _, r := range runs {
		to = append(to, b.at(r, b.others, 2*b.hidden))
	}
	return to, err
}
