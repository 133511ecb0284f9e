package gpu

/*
#cgo noescape cx_wait_value
#cgo nocallback cx_wait_value
#cgo noescape cx_write_value
#cgo nocallback cx_write_value
#include "api.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
)

// Flags returns an error that wraps accel.ErrUnsupported if streams cannot wait for numbers in
// page-locked memory of the process. HostAddress, WaitFlag and WriteFlag require that.
func (d *Device) Flags() error {
	if !d.api.flags || !d.api.locks {
		return fmt.Errorf("wait for a number in memory on a stream: %w", accel.ErrUnsupported)
	}
	return nil
}

// HostAddress returns the device's address of memory that RegisterHost has page-locked.
func (d *Device) HostAddress(p unsafe.Pointer) (accel.Ptr, error) {
	var at C.cx_ptr
	err := d.api.err(C.cx_fn_host_device_pointer, C.cx_host_device_pointer(d.api.table, &at, p))
	return accel.Ptr(at), err
}

// WaitFlag enqueues a wait until the 32-bit number at an address is at least value. Numbers must be
// below 1<<31, since vendors compare larger ones differently. A device, this process or another one
// may write the number. If none does, the stream waits forever.
func (d *Device) WaitFlag(s accel.Stream, at accel.Ptr, value uint32) error {
	return d.api.err(C.cx_wait_function(d.api.table), C.cx_wait_value(d.api.table, C.uintptr_t(s.Handle()), C.cx_ptr(at), C.uint32_t(value)))
}

// WriteFlag enqueues a write of a 32-bit number. A reader that sees the number also sees all earlier
// writes of the stream, including those to memory of other devices.
func (d *Device) WriteFlag(s accel.Stream, at accel.Ptr, value uint32) error {
	return d.api.err(C.cx_fn_write_value, C.cx_write_value(d.api.table, C.uintptr_t(s.Handle()), C.cx_ptr(at), C.uint32_t(value)))
}
