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

// AllocShared returns memory like Alloc, with a handle by which other processes of this host
// open it. They have to close it before Free. The error wraps accel.ErrUnsupported if the
// driver cannot share memory.
func (d *Device) AllocShared(size int64) (p accel.Ptr, h SharedHandle, err error) {
	if !d.api.ipc {
		return 0, h, fmt.Errorf("memory of other processes: %w", accel.ErrUnsupported)
	}
	// An allocation below a page would share the handle of its page.
	if p, err = d.alloc(wholePages(size)); err != nil {
		return 0, h, err
	}
	err = d.api.err(C.cx_fn_ipc_get, C.cx_ipc_get(d.api.table, (*C.cx_shared)(unsafe.Pointer(&h)), C.cx_ptr(p)))
	if err != nil {
		return 0, h, also(err, d.free(p))
	}
	return p, h, nil
}

// OpenShared maps the memory of another process, which may be on another device that this
// one can access. CloseShared unmaps it.
func (d *Device) OpenShared(h SharedHandle) (accel.Ptr, error) {
	if !d.api.ipc {
		return 0, fmt.Errorf("memory of other processes: %w", accel.ErrUnsupported)
	}
	var p C.cx_ptr
	err := d.api.err(C.cx_fn_ipc_open, C.cx_ipc_open(d.api.table, &p, (*C.cx_shared)(unsafe.Pointer(&h))))
	return accel.Ptr(p), err
}

// CloseShared unmaps what OpenShared returned.
func (d *Device) CloseShared(p accel.Ptr) error {
	return d.api.err(C.cx_fn_ipc_close, C.cx_ipc_close(d.api.table, C.cx_ptr(p)))
}
