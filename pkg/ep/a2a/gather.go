package a2a

import (
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/numeric"
)

// gather implements low-latency mode.
type gather struct {
	*end
	sizes
	params params

	gathered accel.Ptr // [world][capacity] rows
	row      accel.Ptr // int32 [world][capacity][topk]; see cx_gather_layout
	counts   accel.Ptr // int32 [perRank]
	receive  rows      // by expert: values, and scales
	staged   accel.Ptr // bf16 rows
	sums     accel.Ptr // float32 [world][capacity][hidden]: of this rank's experts, for each token
	back     accel.Ptr // [world][capacity][hidden], float32: the other ranks' sums for this rank's tokens
	out      accel.Ptr // bf16 [tokens][hidden]
	rowBytes int       // of a gathered token: values, scales, expert ids and weights
	arrived  int       // rows that the last inspected dispatch brought
	lists    []int64
}

func newGather(e *end, s sizes) (*gather, error) {
	const unit = 16 // rows begin where vectors may
	rowBytes := (s.valueBytes + s.scaleBytes + 8*s.topk + unit - 1) / unit * unit
	f := &gather{end: e, sizes: s, rowBytes: rowBytes, params: paramsOf(s, e.rank, e.d.Codec), lists: make([]int64, 4*s.world)}
	f.params.rowBytes = int32(rowBytes)
	all := s.world * s.tokens
	rows, float32Bytes := all*min(s.topk, s.perRank), 2*s.bf16Bytes()
	return f, e.alloc(
		part{&f.gathered, all * rowBytes, window}, part{at: &f.row, bytes: 4 * all * s.topk}, part{at: &f.counts, bytes: 4 * s.perRank},
		part{at: &f.receive.values, bytes: rows * s.valueBytes}, part{at: &f.receive.beside, bytes: rows * s.scaleBytes},
		part{at: &f.staged, bytes: rows * s.bf16Bytes()},
		part{&f.sums, all * float32Bytes, local}, part{&f.back, all * float32Bytes, local},
		part{at: &f.out, bytes: s.tokens * s.bf16Bytes()},
	)
}

func (f *gather) dispatch(cached bool) error {
	n := f.p.Capacity
	all, bytes := f.world*n, int64(n)*int64(f.rowBytes)
	own := f.gathered.Add(int64(f.rank) * bytes)
	if err := f.perRow(f.stream, f.kernels.gatherPack, n, f.hidden,
		accel.Arg(f.params), accel.Arg(f.p.X), accel.Arg(f.p.Expert), accel.Arg(f.p.Weight), accel.Arg(own), accel.Arg(int32(f.p.Tokens)), accel.Arg(int32(n))); err != nil {
		return err
	}
	if err := f.comm.AllGather(f.stream, numeric.Int8, own, f.gathered, bytes); err != nil {
		return gpurank.NCCLError(err)
	}
	if !cached {
		if err := f.scan(f.kernels.gatherLayout, f.perRank, all*f.topk,
			accel.Arg(f.params), accel.Arg(f.gathered), accel.Arg(f.row), accel.Arg(f.counts), accel.Arg(int32(all*f.topk))); err != nil {
			return err
		}
	}
	return f.perRow(f.stream, f.kernels.gatherExpand, all, f.hidden,
		accel.Arg(f.params), accel.Arg(f.gathered), accel.Arg(f.row), accel.Arg(f.counts), accel.Arg(f.receive), accel.Arg(int32(all)))
}

// stage returns received bf16 rows in place and converts fp8 rows.
func (f *gather) stage() (accel.Ptr, error) {
	if f.d.Codec.Format == nil {
		return f.receive.values, nil
	}
	return f.staged, f.perRow(f.stream, f.kernels.gatherConvert, f.world*f.p.Capacity*min(f.topk, f.perRank), f.hidden,
		accel.Arg(f.params), accel.Arg(f.receive), accel.Arg(f.staged), accel.Arg(f.counts))
}

func (f *gather) staging() (to accel.Ptr, rows int) { return f.staged, f.arrived }

func (f *gather) combine(staged accel.Ptr) (accel.Ptr, error) {
	n := f.p.Capacity
	all, elements := f.world*n, int64(n)*int64(f.hidden)
	if err := f.perRow(f.stream, f.kernels.gatherWeigh, all, f.hidden,
		accel.Arg(f.params), accel.Arg(f.gathered), accel.Arg(f.row), accel.Arg(f.counts), accel.Arg(staged), accel.Arg(f.sums), accel.Arg(int32(all))); err != nil {
		return 0, err
	}
	for r := range f.world {
		moved, at := elements, int64(r)*elements
		if r == f.rank {
			moved = 0
		}
		f.lists[r], f.lists[f.world+r], f.lists[2*f.world+r], f.lists[3*f.world+r] = moved, at, moved, at
	}
	if err := f.comm.Exchange(f.stream, numeric.Float, f.sums, f.back, f.lists); err != nil {
		return 0, gpurank.NCCLError(err)
	}
	own := f.sums.Add(4 * int64(f.rank) * elements)
	return f.out, f.perRow(f.stream, f.kernels.gatherSum, f.p.Tokens, f.hidden,
		accel.Arg(f.params), accel.Arg(f.p.Expert), accel.Arg(f.back), accel.Arg(own), accel.Arg(f.out), accel.Arg(int32(f.p.Tokens)), accel.Arg(int32(n)))
}

// inspect reads how many rows arrived; timed operations do not need this on the host.
func (f *gather) inspect() (*runner.Received, error) {
	counts, err := accel.Read[int32](f.device, f.stream, f.counts, f.perRank)
	if err != nil {
		return nil, err
	}
	var experts []int32
	for e, n := range counts {
		for range n {
			experts = append(experts, int32(f.rank*f.perRank+e))
		}
	}
	f.arrived = len(experts)
	rx := f.receivedRows(f.receive, f.arrived, f.sizes, f.scaleBytes)
	rx.Counts, rx.Expert = counts, experts
	return rx, nil
}
