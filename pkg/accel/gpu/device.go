package gpu

/*
#cgo noescape cx_copy_in
#cgo nocallback cx_copy_in
#cgo noescape cx_copy_out
#cgo nocallback cx_copy_out
#cgo noescape cx_copy
#cgo nocallback cx_copy
#cgo noescape cx_copy_batch
#cgo nocallback cx_copy_batch
#cgo noescape cx_set
#cgo nocallback cx_set
#cgo noescape cx_event_elapsed
#cgo nocallback cx_event_elapsed
#include "api.h"
*/
import "C"

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
)

const codeNoDevice = 100

// alignment of device memory, in bytes. Drivers guarantee 256, but libraries that register
// memory, and offsets that ranks exchange, need whole pages.
const alignment = 4096

// pageBytes is the size of the driver's pages of device memory. An allocation of at least that size
// shares its pages with no other.
const pageBytes = 2 << 20

// Device is a device that is current on the OS thread that opened it. It
// implements accel.Device.
type Device struct {
	driver   *Driver
	api      *api
	dev      C.int
	index    int
	info     accel.Info
	cacheDir string
	// bases holds the allocations whose address alone is not enough for Free.
	bases map[accel.Ptr]allocation
}

// allocation is what Free needs to free an address.
type allocation struct {
	base   accel.Ptr
	mapped int64 // bytes of a virtual allocation; otherwise 0
	handle C.cx_mem
}

var _ accel.Device = (*Device)(nil)

// Info implements accel.Device.
func (d *Device) Info() accel.Info { return d.info }

// Driver returns the driver of the device.
func (d *Device) Driver() *Driver { return d.driver }

// Memory implements accel.Device.
func (d *Device) Memory() (free, total int64, err error) {
	var f, t C.size_t
	err = d.api.err(C.cx_fn_mem_info, C.cx_mem_info(d.api.table, &f, &t))
	return int64(f), int64(t), err
}

// Alloc implements accel.Device.
func (d *Device) Alloc(size int64) (accel.Ptr, error) {
	p, err := d.alloc(size)
	if err != nil || p%alignment == 0 {
		return p, err
	}
	// Small allocations share a page, so this one may not begin at a page boundary.
	// Allocate one with room to align it.
	if err := d.free(p); err != nil {
		return 0, err
	}
	base, err := d.alloc(size + alignment)
	if err != nil {
		return 0, err
	}
	p = (base + alignment - 1) &^ (alignment - 1)
	if p != base {
		d.bases[p] = allocation{base: base}
	}
	return p, nil
}

// alloc allocates whole pages if size is larger than a page. Where UCX had mapped memory that ends
// within a page, copies between H100s took a fifth longer (studies/results/variants.csv).
func (d *Device) alloc(size int64) (accel.Ptr, error) {
	if size <= 0 {
		return 0, fmt.Errorf("allocate %d bytes: a size must be positive", size)
	}
	if size > pageBytes {
		size = wholePages(size)
	}
	var p C.cx_ptr
	if err := d.api.err(C.cx_fn_mem_alloc, C.cx_mem_alloc(d.api.table, &p, C.size_t(size))); err != nil {
		return 0, fmt.Errorf("allocate %d bytes: %w", size, err)
	}
	return accel.Ptr(p), nil
}

func wholePages(size int64) int64 { return (size + pageBytes - 1) / pageBytes * pageBytes }

// Free implements accel.Device.
func (d *Device) Free(p accel.Ptr) error {
	a, found := d.bases[p]
	if !found {
		return d.free(p)
	}
	delete(d.bases, p)
	if a.mapped > 0 {
		return d.freeVirtual(p, a)
	}
	return d.free(a.base)
}

func (d *Device) free(p accel.Ptr) error {
	return d.api.err(C.cx_fn_mem_free, C.cx_mem_free(d.api.table, C.cx_ptr(p)))
}

// AllocHost implements accel.Device.
func (d *Device) AllocHost(size int64) (unsafe.Pointer, error) {
	if size <= 0 {
		return nil, fmt.Errorf("allocate %d bytes of page-locked memory: a size must be positive", size)
	}
	var p unsafe.Pointer
	if err := d.api.err(C.cx_fn_host_alloc, C.cx_host_alloc(d.api.table, &p, C.size_t(size))); err != nil {
		return nil, fmt.Errorf("allocate %d bytes of page-locked memory: %w", size, err)
	}
	return p, nil
}

// FreeHost implements accel.Device.
func (d *Device) FreeHost(p unsafe.Pointer) error {
	return d.api.err(C.cx_fn_host_free, C.cx_host_free(d.api.table, p))
}

// RegisterHost page-locks memory that the process has allocated, until UnregisterHost. The error
// wraps accel.ErrUnsupported if the driver lacks the function.
func (d *Device) RegisterHost(p unsafe.Pointer, size int64) error {
	if !d.api.locks {
		return fmt.Errorf("page-lock memory of the process: %w", accel.ErrUnsupported)
	}
	return d.api.err(C.cx_fn_host_register, C.cx_host_register(d.api.table, p, C.size_t(size)))
}

// UnregisterHost unlocks memory that RegisterHost has locked. Call it before freeing the memory.
func (d *Device) UnregisterHost(p unsafe.Pointer) error {
	return d.api.err(C.cx_fn_host_unregister, C.cx_host_unregister(d.api.table, p))
}

// CopyIn implements accel.Device.
func (d *Device) CopyIn(s accel.Stream, dst accel.Ptr, src unsafe.Pointer, n int64) error {
	return d.api.err(C.cx_fn_copy_in,
		C.cx_copy_in(d.api.table, C.cx_ptr(dst), src, C.size_t(n), C.uintptr_t(s.Handle())))
}

// CopyOut implements accel.Device.
func (d *Device) CopyOut(s accel.Stream, dst unsafe.Pointer, src accel.Ptr, n int64) error {
	return d.api.err(C.cx_fn_copy_out,
		C.cx_copy_out(d.api.table, dst, C.cx_ptr(src), C.size_t(n), C.uintptr_t(s.Handle())))
}

// Copy implements accel.Device.
func (d *Device) Copy(s accel.Stream, dst, src accel.Ptr, n int64) error {
	return d.api.err(C.cx_fn_copy,
		C.cx_copy(d.api.table, C.cx_ptr(dst), C.cx_ptr(src), C.size_t(n), C.uintptr_t(s.Handle())))
}

// CopyBatch enqueues several copies between device memory and page-locked host memory in one call.
// They run in any order. The error wraps accel.ErrUnsupported if the driver has no such call, as
// before CUDA 12.8 and HIP 7.1.
func (d *Device) CopyBatch(s accel.Stream, dst, src []accel.Ptr, sizes []uintptr) error {
	if C.cx_can_batch(d.api.table) == 0 {
		return fmt.Errorf("enqueue several copies in one call: %w", accel.ErrUnsupported)
	}
	return d.api.err(C.cx_fn_copy_batch, C.cx_copy_batch(d.api.table,
		(*C.cx_ptr)(unsafe.Pointer(&dst[0])), (*C.cx_ptr)(unsafe.Pointer(&src[0])), (*C.size_t)(unsafe.Pointer(&sizes[0])),
		C.size_t(len(sizes)), C.uintptr_t(s.Handle())))
}

// Set implements accel.Device.
func (d *Device) Set(s accel.Stream, dst accel.Ptr, value byte, n int64) error {
	return d.api.err(C.cx_fn_set,
		C.cx_set(d.api.table, C.cx_ptr(dst), C.uchar(value), C.size_t(n), C.uintptr_t(s.Handle())))
}

// Elapsed implements accel.Device.
func (d *Device) Elapsed(start, end accel.Event) (float64, error) {
	var ms C.float
	err := d.api.err(C.cx_fn_event_elapsed,
		C.cx_event_elapsed(d.api.table, &ms, C.uintptr_t(start.Handle()), C.uintptr_t(end.Handle())))
	return float64(ms) * 1e3, err
}

// Synchronize implements accel.Device.
func (d *Device) Synchronize() error {
	return d.api.err(C.cx_fn_synchronize, C.cx_synchronize(d.api.table))
}

// CanAccessPeer reports whether this device can address memory of device peer.
func (d *Device) CanAccessPeer(peer int) (bool, error) {
	return d.driver.CanAccessPeer(d.index, peer)
}

// Close releases the device. Its memory, streams and modules become invalid.
func (d *Device) Close() error {
	return d.api.failed("release device", C.cx_unbind(d.api.table, d.dev))
}

// pointerTo returns the address of a Go buffer, valid for the duration of a call.
func pointerTo(buf []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(buf)) }

// CString returns the text before the first zero byte of buf.
func CString(buf []byte) string {
	text, _, _ := bytes.Cut(buf, []byte{0})
	return string(text)
}
