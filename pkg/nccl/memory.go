package nccl

/*
#include "abi.h"

static int cx_MemAlloc(const cx_nccl *f, void **p, size_t n) { return f->MemAlloc(p, n); }
static int cx_MemFree(const cx_nccl *f, uintptr_t p) { return f->MemFree((void *)p); }
static int cx_CommRegister(const cx_nccl *f, cx_comm c, uintptr_t p, size_t n, void **handle) {
	return f->CommRegister(c, (void *)p, n, handle);
}
static int cx_CommDeregister(const cx_nccl *f, cx_comm c, void *handle) { return f->CommDeregister(c, handle); }
static int cx_CommWindowRegister(const cx_nccl *f, cx_comm c, uintptr_t p, size_t n, cx_window *w) {
	return f->CommWindowRegister(c, (void *)p, n, w, 1);
}
static int cx_CommWindowDeregister(const cx_nccl *f, cx_comm c, cx_window w) { return f->CommWindowDeregister(c, w); }
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
)

// Alloc returns device memory of the given size, in bytes, that the library can register.
func (l *Library) Alloc(bytes int64) (accel.Ptr, error) {
	if err := l.Need("ncclMemAlloc"); err != nil {
		return 0, err
	}
	var p unsafe.Pointer
	err := l.check("ncclMemAlloc", -1, C.cx_MemAlloc(l.table, &p, C.size_t(bytes)))
	return accel.Ptr(uintptr(p)), err
}

// Free frees memory from Alloc.
func (l *Library) Free(p accel.Ptr) error {
	return l.check("ncclMemFree", -1, C.cx_MemFree(l.table, C.uintptr_t(p)))
}

// Registration is a registered buffer.
type Registration struct {
	c      *Communicator
	handle unsafe.Pointer
	window bool
}

// Register registers a buffer with the communicator, locally or, if window is true, as a
// symmetric window. All ranks must register a symmetric window together. If the library
// returns success without a handle, it registered nothing, and the error wraps ErrNoHandle.
func (c *Communicator) Register(p accel.Ptr, bytes int64, window bool) (*Registration, error) {
	call := "ncclCommRegister"
	if window {
		call = "ncclCommWindowRegister"
	}
	if err := c.lib.Need(call); err != nil {
		return nil, err
	}
	r := &Registration{c: c, window: window}
	var result C.int
	if window {
		result = C.cx_CommWindowRegister(c.lib.table, c.handle, C.uintptr_t(p), C.size_t(bytes), (*C.cx_window)(&r.handle))
	} else {
		result = C.cx_CommRegister(c.lib.table, c.handle, C.uintptr_t(p), C.size_t(bytes), &r.handle)
	}
	if err := c.check(call, result); err != nil {
		return nil, err
	}
	if r.handle == nil {
		return nil, fmt.Errorf("%s on rank %d: %w", call, c.rank, ErrNoHandle)
	}
	return r, nil
}

// Handle returns the library's handle of the registration.
func (r *Registration) Handle() unsafe.Pointer { return r.handle }

// Close deregisters the buffer.
func (r *Registration) Close() error {
	if r.window {
		return r.c.check("ncclCommWindowDeregister", C.cx_CommWindowDeregister(r.c.lib.table, r.c.handle, C.cx_window(r.handle)))
	}
	return r.c.check("ncclCommDeregister", C.cx_CommDeregister(r.c.lib.table, r.c.handle, r.handle))
}
