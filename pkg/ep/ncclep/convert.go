package ncclep

import (
	"context"
	_ "embed" // convert.cu

	"github.com/collectivex/collectivex/pkg/accel"
	source "github.com/collectivex/collectivex/pkg/accel/kernels"
)

//go:embed convert.cu
var convertSource string

// converter converts fp8 rows to bf16 on one device.
type converter struct {
	kernel accel.Kernel
	blocks uint32
}

func newConverter(ctx context.Context, d *accel.Scope) (*converter, error) {
	c := &converter{blocks: uint32(accel.Blocks(d))}
	return c, d.Kernels(ctx, "nccl_ep.cu", source.Complete(convertSource), map[string]*accel.Kernel{"cx_ep_convert": &c.kernel})
}

// convert enqueues the conversion of all received rows into others.
func (c *converter) convert(b *buffers) error {
	return c.kernel.Launch(b.stream, c.blocks, accel.BlockThreads, 0,
		accel.Arg(b.received), accel.Arg(b.scales), accel.Arg(b.counts), accel.Arg(b.others), accel.Arg(int32(b.blocks)), accel.Arg(int32(b.capacity)), accel.Arg(int32(b.hidden)))
}
