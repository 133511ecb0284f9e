package a2a

import (
	"errors"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
)

// sizes holds the sizes that follow from a case, the same on all ranks.
type sizes struct {
	world, hidden, topk int
	perRank             int // experts per rank
	domain              int // ranks of a scale-up domain
	tokens              int // maximum that any rank sends
	valueBytes          int // of a dispatched row
	scaleBytes          int // of a dispatched row
}

func sizesOf(c plan.Case, d runner.Description, need runner.Capacity) sizes {
	b := ep.Of(&c)
	return sizes{
		world: c.World, hidden: b.Hidden, topk: b.TopK, perRank: need.Experts / c.World, domain: max(1, c.ScaleUpDomain),
		tokens: need.Tokens, valueBytes: b.Hidden * d.Codec.ValueBytes(), scaleBytes: 4 * d.Codec.Scales(b.Hidden),
	}
}

// bf16Bytes is the size of a row in bf16.
func (s sizes) bf16Bytes() int { return 2 * s.hidden }

// rows locates rows in device memory: their values and their metadata. Kernels take it by value.
type rows struct{ values, beside accel.Ptr }

// How memory for transfers is registered with the library, where it supports that.
const (
	local  = 1 + iota // by each rank for itself
	window            // by all ranks collectively, at one offset: gathers read it in place
)

// part is device memory to allocate, registered unless register is 0.
type part struct {
	at       *accel.Ptr
	bytes    int
	register int
}

func (e *end) alloc(parts ...part) error {
	for _, p := range parts {
		p.bytes = max(1, p.bytes)
		var err error
		if p.register != 0 {
			err = e.allocRegistered(p)
		} else if *p.at, err = e.memory.Alloc(int64(p.bytes)); err != nil {
			err = rank.OutOfMemory(int64(p.bytes), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// allocRegistered allocates memory and registers it, through the library's allocator if it has one.
func (e *end) allocRegistered(p part) error {
	at, free, err := gpurank.Alloc(e.comm.Communicator, e.device.Device, int64(p.bytes))
	if err != nil {
		return err
	}
	*p.at = at
	e.memory.Defer(free)
	lib := e.comm.Library()
	inWindow := p.register == window && lib.Has("ncclCommWindowRegister")
	if !lib.Has("ncclMemAlloc") || !inWindow && !lib.Has("ncclCommRegister") {
		return nil
	}
	r, err := e.comm.Register(at, int64(p.bytes), inWindow)
	if errors.Is(err, nccl.ErrNoHandle) {
		return nil
	}
	e.memory.Defer(func() error { return gpurank.Deregister(e.comm.Communicator, r) })
	return gpurank.NCCLError(err)
}

// allocHost allocates page-locked memory for n int32 values.
func (e *end) allocHost(n int) ([]int32, error) {
	host, err := e.memory.AllocHost(int64(4 * n))
	if err != nil {
		return nil, rank.OutOfMemory(int64(4*n), err)
	}
	return unsafe.Slice((*int32)(host), n), nil
}

// receivedRows locates n received rows. The scales are at the start of each row's metadata.
func (e *end) receivedRows(at rows, n int, s sizes, besideBytes int) *runner.Received {
	return &runner.Received{Codec: e.d.Codec, Payload: []runner.Rows{{
		Count: n, Values: at.values, Stride: int64(s.valueBytes), Scales: at.beside, ScaleStride: int64(besideBytes),
	}}}
}
