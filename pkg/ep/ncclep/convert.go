package ncclep

import (
	"context"
	_ "embed" // convert.cu
	"errors"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	source "github.com/collectivex/collectivex/pkg/accel/kernels"
)

//go:embed convert.cu
var convertSource string

const (
	blockThreads = 256
	// blocksPerSM fills a multiprocessor with threads.
	blocksPerSM = 8
)

// converter makes bf16 rows of fp8 ones, on one device.
type converter struct {
	module accel.Module
	kernel accel.Kernel
	blocks uint32
}

func newConverter(ctx context.Context, d accel.Device) (*converter, error) {
	c := &converter{blocks: uint32(max(1, d.Info().Multiproc) * blocksPerSM)}
	var err error
	if c.module, err = d.Compile(ctx, "nccl_ep.cu", source.Complete(convertSource)); err != nil {
		return nil, err
	}
	if c.kernel, err = c.module.Kernel("cx_ep_convert"); err != nil {
		return nil, errors.Join(err, c.module.Close())
	}
	return c, nil
}

// convert enqueues the conversion of all rows that arrived to others.
func (c *converter) convert(b *buffers) error {
	return c.kernel.Launch(b.stream, c.blocks, blockThreads, 0,
		arg(b.received), arg(b.scales), arg(b.counts), arg(b.others), arg(int32(b.perRank)), arg(int32(b.capacity)), arg(int32(b.hidden)))
}

// arg is a kernel's argument: a copy of v, since the object around an argument may hold no
// Go pointers.
func arg[T any](v T) unsafe.Pointer { return unsafe.Pointer(&v) }
