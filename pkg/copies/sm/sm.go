// Package sm is the copy family's backend on GPUs that copies with a kernel on the multiprocessors, as nvbandwidth's
// tests named SM do. It shows how much such copies slow down a victim, in contrast to copy engines.
package sm

import (
	"context"
	_ "embed" // copy.cu
	"errors"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/kernels"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/copies/engine"
	"github.com/collectivex/collectivex/pkg/copies/runner"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

//go:embed copy.cu
var kernel string

func source() string { return kernels.Complete(kernel) }

// Backend is the multiprocessor backend.
var Backend = backend.Backend{Name: "sm", Open: map[plan.Family]rank.Opener{copies.Name: Open}}

// Open opens the runner of a rank, on CUDA, or on HIP where CUDA's driver is not installed;
// it is a rank.Opener. A rank drives the device of its local rank, and has locked its OS thread.
func Open(ctx context.Context, s *rank.Session, _ plan.Case) (rank.Runner, error) {
	g, err := gpurank.OpenAny(s)
	if err != nil {
		return nil, err
	}
	parts, err := engine.Parts(ctx, s, g)
	if err != nil {
		return nil, err
	}
	d, err := newDevice(ctx, g)
	if err != nil {
		return nil, errors.Join(err, parts.Memory.Close())
	}
	parts.Device, parts.Memory = d, memory{parts.Memory, d}
	return g.Around(runner.NewRunner(parts)), nil
}

// memory is the driver's memory. It closes the kernel with the device.
type memory struct {
	runner.Memory
	device *device
}

func (m memory) Close() error {
	return errors.Join(rank.Coded(result.ReasonDevice, m.device.scope.Close()), m.Memory.Close())
}

// device is a device that copies with a kernel.
type device struct {
	accel.Device
	scope  *accel.Scope // of the kernel
	kernel accel.Kernel
	chase  accel.Kernel
}

func newDevice(ctx context.Context, d accel.Device) (*device, error) {
	of := &device{Device: d, scope: accel.NewScope(d)}
	err := of.scope.Kernels(ctx, "copy.cu", source(), map[string]*accel.Kernel{"cx_copy": &of.kernel, "cx_chase": &of.chase})
	if errors.Is(err, accel.ErrUnsupported) {
		return nil, rank.Refused("compile the kernel that copies: %w", err)
	}
	if err != nil {
		return nil, rank.Coded(result.ReasonDevice, errors.Join(err, of.scope.Close()))
	}
	return of, nil
}

// threads is the block size. There is one block for each multiprocessor, as in nvbandwidth.
const threads = 512

func (d *device) launch(s accel.Stream, dst, src uintptr, bytes int64) error {
	const word = 8
	return d.kernel.Launch(s, uint32(max(1, d.Info().Multiproc)), threads, 0, accel.Arg(dst), accel.Arg(src), accel.Arg(bytes/word))
}

// CopyIn implements accel.Device, from page-locked memory, which devices see at its own address.
func (d *device) CopyIn(s accel.Stream, dst accel.Ptr, src unsafe.Pointer, bytes int64) error {
	return d.launch(s, uintptr(dst), uintptr(src), bytes)
}

// CopyOut implements accel.Device, to page-locked memory.
func (d *device) CopyOut(s accel.Stream, dst unsafe.Pointer, src accel.Ptr, bytes int64) error {
	return d.launch(s, uintptr(dst), uintptr(src), bytes)
}

func (d *device) Copy(s accel.Stream, dst, src accel.Ptr, bytes int64) error {
	return d.launch(s, uintptr(dst), uintptr(src), bytes)
}

// Chase makes one thread read one word after another, each 128 bytes behind the one whose value says where that is.
func (d *device) Chase(s accel.Stream, dst, src accel.Ptr, bytes int64) error {
	const word = 8
	return d.chase.Launch(s, 1, 1, 0, accel.Arg(dst), accel.Arg(src), accel.Arg(bytes/word))
}
