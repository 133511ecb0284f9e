package gpu

/*
#include "api.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
)

// SharedHandle names an allocation of another process.
type SharedHandle [C.sizeof_cx_shared]byte

// AllocShared is Alloc for memory that other processes of this host can open with the handle. They
// must close it before Free. The error wraps accel.ErrUnsupported if the driver cannot share memory.
func (d *Device) AllocShared(size int64) (p accel.Ptr, h SharedHandle, err error) {
	if !d.api.ipc {
		return 0, h, fmt.Errorf("share memory with other processes: %w", accel.ErrUnsupported)
	}
	// Allocations smaller than a page share a page, and a handle stands for a whole page.
	if p, err = d.alloc(wholePages(size)); err != nil {
		return 0, h, err
	}
	err = d.api.err(C.cx_fn_ipc_get, C.cx_ipc_get(d.api.table, (*C.cx_shared)(unsafe.Pointer(&h)), C.cx_ptr(p)))
	if err != nil {
		return 0, h, also(err, d.free(p))
	}
	return p, h, nil
}

// OpenShared maps the memory of another process. The memory may be on another device that this one
// can access. CloseShared unmaps it.
func (d *Device) OpenShared(h SharedHandle) (accel.Ptr, error) {
	if !d.api.ipc {
		return 0, fmt.Errorf("open memory of another process: %w", accel.ErrUnsupported)
	}
	var p C.cx_ptr
	err := d.api.err(C.cx_fn_ipc_open, C.cx_ipc_open(d.api.table, &p, (*C.cx_shared)(unsafe.Pointer(&h))))
	return accel.Ptr(p), err
}

// CloseShared unmaps memory that OpenShared has mapped.
func (d *Device) CloseShared(p accel.Ptr) error {
	return d.api.err(C.cx_fn_ipc_close, C.cx_ipc_close(d.api.table, C.cx_ptr(p)))
}
