// Package victim computes on all multiprocessors of a device, beside other work that may slow
// it down. Its time tells how much of their arithmetic that work takes.
package victim

import (
	"context"
	_ "embed" // victim.cu
	"errors"
	"fmt"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/kernels"
)

//go:embed victim.cu
var kernel string

// What a unit of work is; victim.cu has it too.
const (
	threads = 512  // of a block
	chains  = 8    // of multiplications and additions, in each thread
	steps   = 128  // of a chain
	cycle   = 1024 // units that begin with different numbers
)

// Victim is a kernel with a block for each multiprocessor. It multiplies and adds in registers.
// Blocks of other kernels fit beside its own.
type Victim struct {
	device *accel.Scope
	kernel accel.Kernel
	state  accel.Mirror[state]
}

// state is what the kernel counts.
type state struct{ Taken, Sum uint64 }

// New compiles the kernel. Its error wraps accel.ErrUnsupported if nothing compiles kernels
// here.
func New(ctx context.Context, d accel.Device) (*Victim, error) {
	v := &Victim{device: accel.NewScope(d)}
	err := v.device.Kernels(ctx, "victim.cu", kernels.Complete(kernel), map[string]*accel.Kernel{"cx_victim": &v.kernel})
	if err == nil {
		v.state, err = accel.NewMirror[state](v.device)
	}
	if err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return v, nil
}

// blocks is one for each multiprocessor.
func (v *Victim) blocks() uint64 { return uint64(max(1, v.device.Info().Multiproc)) }

// LeastUnits is the smallest amount of work whose time means something: blocks that end with a
// unit more or less than others differ little.
func (v *Victim) LeastUnits() uint64 {
	const each = 16
	return each * v.blocks()
}

// Clear has the stream forget earlier work. It comes before each Enqueue.
func (v *Victim) Clear(s accel.Stream) error {
	return v.device.Set(s, v.state.Device, 0, int64(unsafe.Sizeof(state{})))
}

// Enqueue has the stream compute units of work.
func (v *Victim) Enqueue(s accel.Stream, units uint64) error {
	const one = float32(1)
	return v.kernel.Launch(s, uint32(v.blocks()), threads, 0, accel.Arg(v.state.Device), accel.Arg(units), accel.Arg(one), accel.Arg(one))
}

// Check waits for the stream and returns what is wrong with its work since Clear, which should
// have been so many units; empty if all of it was done.
func (v *Victim) Check(s accel.Stream, units uint64) (wrong string, err error) {
	if err := v.state.Out(s); err != nil {
		return "", err
	}
	found, want := *v.state.Host, state{units + v.blocks(), sum(units)}
	if found != want {
		return fmt.Sprintf("the victim took %d units and computed %d, want %d and %d", found.Taken, found.Sum, want.Taken, want.Sum), nil
	}
	return "", nil
}

// sum is what the first units of work add up to.
func sum(units uint64) uint64 {
	triangle := func(n uint64) uint64 { return n * (n - 1) / 2 } // of 0 to n − 1
	firsts := units/cycle*triangle(cycle) + triangle(units%cycle)
	return threads * (chains*(firsts+units*steps) + units*triangle(chains))
}

// Close frees the victim, which no stream may run.
func (v *Victim) Close() error { return v.device.Close() }
