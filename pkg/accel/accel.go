// Package accel describes one accelerator as a benchmark needs it: memory, streams, events,
// graphs and kernels compiled at run time. Its sub-packages cuda, hip and host implement
// Device.
package accel

import (
	"context"
	"errors"
	"unsafe"
)

// Ptr is an address in the memory of a device. On the host device it is an
// address of this process.
type Ptr uintptr

// Pointer converts an address in this process to a pointer. The address must lie outside of Go's
// heap. Inlining is off because it makes the Go 1.26 compiler fail on copies of a constant length.
//
//go:noinline
func (p Ptr) Pointer() unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// Add returns the address n bytes further.
func (p Ptr) Add(n int64) Ptr { return p + Ptr(n) }

// ErrUnsupported is wrapped by errors for operations that a device does not support at all.
var ErrUnsupported = errors.New("not supported by this device")

// ErrOutOfMemory is matched by errors of allocations that fail for lack of memory.
var ErrOutOfMemory = errors.New("out of device memory")

// Info describes a device. All of it may be published, except PCIBusID.
type Info struct {
	Vendor        string // nvidia, amd, host
	Product       string // the runtime's name for the device
	Arch          string // sm_90, gfx942:sramecc+:xnack-, x86-64
	Runtime       string // driver and runtime version, such as "CUDA 13.0"
	Multiproc     int    // multiprocessors; 0 on a host
	L2Bytes       int64  // last-level cache
	TotalBytes    int64
	PCIBusID      string // private: never published
	SharedHostMem bool   // device memory is host memory
}

// Device is one accelerator, current on the calling OS thread. A rank locks
// its thread and uses its device from that thread alone.
type Device interface {
	Info() Info
	// Memory returns the free and total device memory in bytes.
	Memory() (free, total int64, err error)
	// Alloc returns device memory aligned to at least 4096 bytes.
	Alloc(bytes int64) (Ptr, error)
	Free(Ptr) error
	// AllocHost returns page-locked host memory.
	AllocHost(bytes int64) (unsafe.Pointer, error)
	FreeHost(unsafe.Pointer) error
	// CopyIn (host to device), CopyOut (device to host) and Copy (device to device) enqueue a
	// copy on the stream. CopyIn and CopyOut may synchronise if the host memory is pageable.
	CopyIn(s Stream, dst Ptr, src unsafe.Pointer, bytes int64) error
	CopyOut(s Stream, dst unsafe.Pointer, src Ptr, bytes int64) error
	Copy(s Stream, dst, src Ptr, bytes int64) error
	// Set enqueues a fill of device memory with value.
	Set(s Stream, dst Ptr, value byte, bytes int64) error
	NewStream() (Stream, error)
	// NewEvent returns an event that records a time.
	NewEvent() (Event, error)
	// Elapsed returns the microseconds between two completed events.
	Elapsed(start, end Event) (float64, error)
	// Synchronize waits for all work of the device.
	Synchronize() error
	// Compile compiles source for this device, or reads the result from the cache. Errors name
	// the source by name. The error wraps ErrUnsupported on a host and on a machine without a
	// run-time compiler.
	Compile(ctx context.Context, name, source string) (Module, error)
	Close() error
}

// DefaultStreamer is a Device whose driver has a default stream. The stream waits for all streams that were not
// created by NewStream, and they wait for it. It is never closed.
type DefaultStreamer interface {
	DefaultStream() Stream
}

// Write copies data to device memory and waits for the stream.
func Write(d Device, s Stream, dst Ptr, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if err := d.CopyIn(s, dst, unsafe.Pointer(&data[0]), int64(len(data))); err != nil {
		return err
	}
	return s.Synchronize()
}

// Read waits for the stream and returns a copy of n elements of device memory.
func Read[T any](d Device, s Stream, src Ptr, n int) ([]T, error) {
	data := make([]T, n)
	if n == 0 {
		return data, nil
	}
	if err := d.CopyOut(s, unsafe.Pointer(&data[0]), src, int64(n)*int64(unsafe.Sizeof(data[0]))); err != nil {
		return nil, err
	}
	return data, s.Synchronize()
}

// Stream is an ordered queue of work. On the host device work runs inline.
type Stream interface {
	// Handle is the native stream (CUstream, hipStream_t); 0 on the host.
	Handle() uintptr
	Record(Event) error
	// Wait makes work that is enqueued later wait for the point that the event marks, on this
	// stream or another.
	Wait(Event) error
	Synchronize() error
	// Query reports whether all enqueued work has ended.
	Query() (done bool, err error)
	// BeginCapture and EndCapture enclose the calls whose work becomes a graph. The error of
	// BeginCapture wraps ErrUnsupported if the device has no graphs.
	BeginCapture() error
	EndCapture() (Graph, error)
	// RecordExternal is called between BeginCapture and EndCapture. Each launch of the graph
	// then records the event's time for Elapsed. The event has to stay open as long as the
	// graph. The error wraps ErrUnsupported if the device does not support it.
	RecordExternal(Event) error
	Close() error
}

// NativeStream is the stream of a driver. C code can poll it for completion.
type NativeStream interface {
	Stream
	// QueryFunction returns the address of the driver's function int (*)(void *). It takes
	// Handle and returns 0 once all work has ended.
	QueryFunction() uintptr
}

// Event marks a point of a stream.
type Event interface {
	Handle() uintptr
	// Query reports whether the work before the last Record has ended.
	Query() (done bool, err error)
	Close() error
}

// Graph is captured work, instantiated and uploaded.
type Graph interface {
	Launch(Stream) error
	Close() error
}

// Module is a set of compiled kernels.
type Module interface {
	Kernel(name string) (Kernel, error)
	Close() error
}

// Kernel is one function of a module.
type Kernel interface {
	// Launch enqueues the kernel. Each argument points to a value of its parameter's type, and
	// Launch copies the value before it returns. As cgo requires, the Go object that holds the
	// value contains no Go pointers. Arg makes such arguments.
	Launch(s Stream, grid, block uint32, sharedBytes uint32, args ...unsafe.Pointer) error
}

// Arg returns the address of a copy of v, as an argument of Kernel.Launch.
func Arg[T any](v T) unsafe.Pointer { return unsafe.Pointer(&v) }

// BlockThreads is the usual number of threads in a block.
const BlockThreads = 256

// Blocks returns the number of blocks of BlockThreads that keep a device busy. Kernels with a
// grid-stride loop gain nothing from more.
func Blocks(d Device) int {
	const perMultiprocessor = 8
	return max(1, d.Info().Multiproc) * perMultiprocessor
}

// BlocksFor returns the number of blocks for n elements, one per thread, limited to Blocks.
func BlocksFor(d Device, n int64) uint32 {
	return uint32(min((n+BlockThreads-1)/BlockThreads, int64(Blocks(d))))
}
