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
// page-locked memory of the process: the other methods of flags need that.
func (d *Device) Flags() error {
	if !d.api.flags || !d.api.locks {
		return fmt.Errorf("streams that wait for numbers in memory: %w", accel.ErrUnsupported)
	}
	return nil
}

// HostAddress is where the device finds memory that RegisterHost has page-locked.
func (d *Device) HostAddress(p unsafe.Pointer) (accel.Ptr, error) {
	var at C.cx_ptr
	err := d.api.err(C.cx_fn_host_device_pointer, C.cx_host_device_pointer(d.api.table, &at, p))
	return accel.Ptr(at), err
}

// WaitFlag enqueues a wait until the 32-bit number at an address is value or more. Numbers
// are below 1<<31: vendors compare larger ones differently. Who writes it may be another
// process, a device or the host. A stream whose flag nobody writes never ends.
func (d *Device) WaitFlag(s accel.Stream, at accel.Ptr, value uint32) error {
	return d.api.err(C.cx_wait_function(d.api.table), C.cx_wait_value(d.api.table, C.uintptr_t(s.Handle()), C.cx_ptr(at), C.uint32_t(value)))
}

// WriteFlag enqueues a write of a 32-bit number. Whoever sees it sees all that the stream
// has written before, also into the memory of other devices.
func (d *Device) WriteFlag(s accel.Stream, at accel.Ptr, value uint32) error {
	return d.api.err(C.cx_fn_write_value, C.cx_write_value(d.api.table, C.uintptr_t(s.Handle()), C.cx_ptr(at), C.uint32_t(value)))
}
