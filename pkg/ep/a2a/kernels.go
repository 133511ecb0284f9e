package a2a

import (
	"context"
	_ "embed" // *.cu
	"errors"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	source "github.com/collectivex/collectivex/pkg/accel/kernels"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/numeric"
)

//go:embed shuffle.cu
var shuffleSource string

//go:embed gather.cu
var gatherSource string

const (
	// blockThreads is CX_THREADS of shuffle.cu.
	blockThreads = 256
	// blocksPerSM fills a multiprocessor with threads.
	blocksPerSM = 8
)

// kernels are those of shuffle.cu and gather.cu on one device.
type kernels struct {
	module                    accel.Module
	blocks                    int // at most, of a launch
	layout, pack, decode, sum accel.Kernel

	gatherPack, gatherLayout, gatherExpand, gatherDecode, gatherWeigh, gatherSum accel.Kernel
}

func (k *kernels) compile(ctx context.Context, d accel.Device) (err error) {
	if k.module, err = d.Compile(ctx, "a2a.cu", source.Complete(shuffleSource+gatherSource)); err != nil {
		return err
	}
	k.blocks = max(1, d.Info().Multiproc) * blocksPerSM
	for name, kernel := range map[string]*accel.Kernel{
		"cx_layout": &k.layout, "cx_pack": &k.pack, "cx_decode_rows": &k.decode, "cx_sum": &k.sum,
		"cx_gather_pack": &k.gatherPack, "cx_gather_layout": &k.gatherLayout, "cx_gather_expand": &k.gatherExpand,
		"cx_gather_decode": &k.gatherDecode, "cx_gather_weigh": &k.gatherWeigh, "cx_gather_sum": &k.gatherSum,
	} {
		if *kernel, err = k.module.Kernel(name); err != nil {
			return errors.Join(err, k.close())
		}
	}
	return nil
}

func (k *kernels) close() error { return k.module.Close() }

// codec is cx_codec of shuffle.cu.
type codec struct {
	fp8, fnuz int32
	max       float32
}

func codecOf(c ep.Codec) codec {
	if c.Format == nil {
		return codec{}
	}
	k := codec{fp8: 1, max: c.Format.Max}
	if c.Format == numeric.E4M3FNUZ {
		k.fnuz = 1
	}
	return k
}

// arg is a kernel's argument: a copy of v, since the object around an argument may
// hold no Go pointers.
func arg[T any](v T) unsafe.Pointer { return unsafe.Pointer(&v) }

// perRow launches a kernel with a block per row, as far as they can run at once.
func (e *end) perRow(k accel.Kernel, rows int, args ...unsafe.Pointer) error {
	if rows == 0 {
		return nil
	}
	return k.Launch(e.stream, uint32(min(rows, e.kernels.blocks)), blockThreads, 0, args...)
}
