// Package runner measures copies between the memories of a device, the host and a second device, by two clocks, with
// the proof that every word arrived.
//
// copies.Test.Flows says which ranks copy at the same time, from where to where. The other ranks of a case wait.
package runner

import (
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

// Place is an address from or to which a device of this rank copies.
type Place struct {
	Device accel.Ptr      // on a device
	Host   unsafe.Pointer // on the host; nil if it is on a device
}

// Ptr returns the address for kernels and batches: drivers use one address space.
func (p Place) Ptr() accel.Ptr {
	if p.Host != nil {
		return accel.Ptr(uintptr(p.Host))
	}
	return p.Device
}

// Add returns the place n bytes further.
func (p Place) Add(n int64) Place {
	if p.Host != nil {
		return Place{Host: unsafe.Add(p.Host, n)}
	}
	return Place{Device: p.Device.Add(n)}
}

// Buffer is memory of this rank.
type Buffer struct {
	pool.Memory
	At   Place
	Free func() error
}

// Memory allocates what is copied. The errors have a reason code.
type Memory interface {
	// Host returns host memory of one of copies.HostMemories.
	Host(kind string, bytes int64) (Buffer, error)
	// Device returns memory of this rank's device.
	Device(bytes int64) (Buffer, error)
	// Shared returns memory of this rank's device that other ranks can open by its handle.
	Shared(bytes int64) (b Buffer, handle []byte, err error)
	// Open makes memory of another rank accessible until shut is called, which must precede its owner freeing it. It
	// refuses a rank whose device this one cannot access.
	Open(owner int, handle []byte) (at accel.Ptr, shut func() error, err error)
	Close() error
}

// Gate holds a stream until it is opened, so that all work is enqueued before any begins.
type Gate interface {
	// Hold enqueues the gate, closed.
	Hold(accel.Stream) error
	Open()
}

// Parts are the backend's parts of a Runner.
type Parts struct {
	Device accel.Device
	Memory Memory // closes the device, too
	Gate   Gate   // nil: the device has no clock of its own
	Facts  rank.Facts
	// Engines returns the numbers of the copy engines that streams use in rotation, available after the first
	// allocation; nil: the driver chooses them.
	Engines func() []int
}

// chaser is a device with a thread that reads words from src, each where the one before says, and writes each to its place
// in dst. bytes is a power of two.
type chaser interface {
	Chase(s accel.Stream, dst, src accel.Ptr, bytes int64) error
}

// batcher is a device that accepts the pieces of a copy in one call, in any order.
type batcher interface {
	CopyBatch(s accel.Stream, dst, src []accel.Ptr, sizes []uintptr) error
}
