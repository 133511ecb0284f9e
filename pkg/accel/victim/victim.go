// Package victim computes on all multiprocessors of a device beside other work that may slow it
// down. Its elapsed time shows how much of their arithmetic the other work takes.
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

// The shape of a unit of work. victim.cu has the same numbers.
const (
	threads = 512  // threads of a block
	chains  = 8    // independent chains of multiply-adds in a thread
	steps   = 128  // multiply-adds of a chain
	cycle   = 1024 // units after which the initial numbers repeat
)

// Victim is a kernel with one block per multiprocessor. It multiplies and adds in registers, and
// leaves room for blocks of other kernels.
type Victim struct {
	device *accel.Scope
	kernel accel.Kernel
	state  accel.Mirror[state]
}

// state is what the kernel counts.
type state struct{ Taken, Sum uint64 }

// New compiles the kernel. The error wraps accel.ErrUnsupported if the device has no compiler for
// kernels.
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

// blocks returns the number of blocks, one per multiprocessor.
func (v *Victim) blocks() uint64 { return uint64(max(1, v.device.Info().Multiproc)) }

// LeastUnits returns the minimum number of units to time. With fewer, the difference of one unit
// between blocks would distort the time.
func (v *Victim) LeastUnits() uint64 {
	const each = 16
	return each * v.blocks()
}

// Clear enqueues a reset of the counters. Call it before each Enqueue.
func (v *Victim) Clear(s accel.Stream) error {
	return v.device.Set(s, v.state.Device, 0, int64(unsafe.Sizeof(state{})))
}

// Enqueue enqueues units of work.
func (v *Victim) Enqueue(s accel.Stream, units uint64) error {
	const one = float32(1)
	return v.kernel.Launch(s, uint32(v.blocks()), threads, 0, accel.Arg(v.state.Device), accel.Arg(units), accel.Arg(one), accel.Arg(one))
}

// Check waits for the stream and compares its work since Clear with the expected units. It returns
// a description of the difference, or "" if there is none.
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

// sum returns the sum that the given number of units must compute.
func sum(units uint64) uint64 {
	triangle := func(n uint64) uint64 { return n * (n - 1) / 2 } // of 0 to n − 1
	firsts := units/cycle*triangle(cycle) + triangle(units%cycle)
	return threads * (chains*(firsts+units*steps) + units*triangle(chains))
}

// Close frees the victim. No stream may be running it.
func (v *Victim) Close() error { return v.device.Close() }
