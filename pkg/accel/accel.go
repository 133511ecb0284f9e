// Package accel is one accelerator as a benchmark needs it: memory, streams,
// events, graphs and run-time compiled kernels. Sub-packages cuda, hip and
// host implement Device.
package accel

import (
	"context"
	"errors"
	"unsafe"
)

// Ptr is an address in the memory of a device. On the host device it is an
// address of this process.
type Ptr uintptr

// Add returns the address n bytes further.
func (p Ptr) Add(n int64) Ptr { return p + Ptr(n) }

// ErrUnsupported is wrapped by errors that say that a device cannot do a thing at all.
var ErrUnsupported = errors.New("not supported by this device")

// ErrOutOfMemory is matched by errors of an allocation for which there is no memory.
var ErrOutOfMemory = errors.New("out of device memory")

// Info describes a device. All of it may be published.
type Info struct {
	Vendor        string // nvidia, amd, host
	Product       string // name the runtime reports
	Arch          string // sm_90, gfx942:sramecc+:xnack-, x86-64
	Runtime       string // driver and runtime version, such as "CUDA 13.0"
	Multiproc     int    // multiprocessors; 0 where it has no meaning
	L2Bytes       int64  // last level cache
	TotalBytes    int64
	PCIBusID      string // private: never published
	SharedHostMem bool   // device memory is host memory
}

// Device is one accelerator, current on the calling OS thread. A rank locks
// its thread and uses its device from that thread alone.
type Device interface {
	Info() Info
	// Memory returns free and total bytes.
	Memory() (free, total int64, err error)
	// Alloc returns device memory aligned to at least 4096 bytes.
	Alloc(bytes int64) (Ptr, error)
	Free(Ptr) error
	// AllocHost returns page-locked host memory.
	AllocHost(bytes int64) (unsafe.Pointer, error)
	FreeHost(unsafe.Pointer) error
	// CopyIn, CopyOut and Copy are ordered on the stream. CopyIn and CopyOut of
	// pageable memory may synchronise.
	CopyIn(s Stream, dst Ptr, src unsafe.Pointer, bytes int64) error
	CopyOut(s Stream, dst unsafe.Pointer, src Ptr, bytes int64) error
	Copy(s Stream, dst, src Ptr, bytes int64) error
	Set(s Stream, dst Ptr, value byte, bytes int64) error
	NewStream() (Stream, error)
	// NewEvent returns an event that can be timed.
	NewEvent() (Event, error)
	// Elapsed returns the microseconds between two completed events.
	Elapsed(start, end Event) (float64, error)
	// Synchronize waits for all work of the device.
	Synchronize() error
	// Compile builds source for this device, or takes it from the cache. Host
	// devices and machines without a run-time compiler return ErrUnsupported.
	Compile(ctx context.Context, name, source string) (Module, error)
	Close() error
}

// Stream is an ordered queue of work. On the host device work runs inline.
type Stream interface {
	// Handle is the native stream (CUstream, hipStream_t); 0 on the host.
	Handle() uintptr
	Record(Event) error
	Synchronize() error
	// Query reports whether all work has ended.
	Query() (done bool, err error)
	// BeginCapture and EndCapture bracket work that becomes a graph. Without
	// graphs BeginCapture returns ErrUnsupported.
	BeginCapture() error
	EndCapture() (Graph, error)
	Close() error
}

// NativeStream is a Stream of a driver, which C code can ask for its end.
type NativeStream interface {
	Stream
	// QueryFunction is the address of the driver's function that takes Handle and
	// returns 0 once all work has ended: int (*)(void *).
	QueryFunction() uintptr
}

// Event marks a point of a stream.
type Event interface {
	Handle() uintptr
	Close() error
}

// Graph is captured work, instantiated and uploaded.
type Graph interface {
	Launch(Stream) error
	Close() error
}

// Module is compiled kernels.
type Module interface {
	Kernel(name string) (Kernel, error)
	Close() error
}

// Kernel is one function of a module.
type Kernel interface {
	// Launch enqueues the kernel. Each argument points at a value of the kernel's
	// parameter type, which is copied before Launch returns. As cgo demands, the Go
	// object around the value holds no Go pointers.
	Launch(s Stream, grid, block uint32, sharedBytes uint32, args ...unsafe.Pointer) error
}

// VirtualAllocator is a Device that can also give memory of its virtual memory
// management, which libraries can map into other processes and register as
// symmetric. Free takes it back.
type VirtualAllocator interface {
	// AllocVirtual returns ErrUnsupported where device or driver cannot.
	AllocVirtual(bytes int64) (Ptr, error)
}

// Peers is a Device that knows which other devices can reach it directly.
type Peers interface {
	// CanAccessPeer reports whether this device can address memory of device peer.
	CanAccessPeer(peer int) (bool, error)
}
