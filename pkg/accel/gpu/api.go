// Package gpu drives accelerators through the driver interface that CUDA and HIP share: the
// same functions under two sets of names. What differs between vendors (names, attribute
// numbers, version codes, compilers) is in a Vendor value, which packages cuda and hip
// supply.
package gpu

/*
#include <stdlib.h>
#include "api.h"
*/
import "C"

import (
	"unsafe"

	"github.com/collectivex/collectivex/pkg/dl"
)

// Vendor describes what is specific to one vendor's driver.
type Vendor struct {
	Name    string // nvidia, amd; becomes accel.Info.Vendor
	Driver  dl.Search
	Dialect Dialect
	Numbers Numbers
	// Hints maps an error code of Init to advice for the user. The hint for NO_DEVICE also applies
	// when the driver reports no devices.
	Hints map[int]string
	// Version formats the driver's version code, such as "CUDA 13.0".
	Version func(code int) string
	// Arch returns the architecture of a device as the compiler expects it.
	Arch func(*Driver, int) (string, error)
	// Compiler returns the run-time compiler for a driver with this version code.
	Compiler func(code int) CompilerVendor
}

// Dialect selects one of the two sets of names that a library exports; see api.h.
type Dialect int

// The dialects.
const (
	CUDA Dialect = C.cx_cuda
	HIP  Dialect = C.cx_hip
)

// Numbers are the attribute numbers of a vendor.
type Numbers struct {
	Multiprocessors int
	L2Bytes         int
	VMM             int // virtual memory management
	// VMMFile is for sharing such memory by file descriptors; 0 if package gpu does not support
	// that for the vendor.
	VMMFile int
	// VMMFabric is for sharing such memory with devices of other hosts; 0 if the vendor has no
	// such attribute.
	VMMFabric int
}

// api holds the functions of a loaded library. Each flag reports that the library has all functions
// of an optional group.
type api struct {
	table   *C.cx_gpu
	dialect Dialect
	graphs  bool
	vmm     bool
	share   bool // sharing virtual memory between processes
	ipc     bool
	locks   bool // page-locking memory that the process has allocated
	flags   bool // streams that wait for numbers in memory
}

// newAPI finds the functions in lib. A required function that lib lacks is an error
// that names it and wraps dl.ErrNoSymbol.
func newAPI(lib *dl.Library, dialect Dialect) (*api, error) {
	t := (*C.cx_gpu)(C.calloc(1, C.sizeof_cx_gpu))
	has, err := bind(lib, dialect, C.cx_gpu_functions[:], unsafe.Pointer(t))
	if err != nil {
		C.free(unsafe.Pointer(t))
		return nil, err
	}
	return &api{table: t, dialect: dialect, graphs: has[C.cx_graphs], vmm: has[C.cx_vmm], share: has[C.cx_vmm_share], ipc: has[C.cx_ipc], locks: has[C.cx_register], flags: has[C.cx_flags]}, nil
}

// bind stores the addresses of lib's functions in table. has reports for each group whether lib has
// all its functions. A missing required function is an error.
func bind(lib *dl.Library, dialect Dialect, functions []C.cx_function, table unsafe.Pointer) (has [C.cx_groups]bool, err error) {
	for g := range has {
		has[g] = true
	}
	for _, f := range functions {
		name := f.names[dialect]
		if name == nil {
			continue
		}
		p, err := lib.Symbol(C.GoString(name))
		switch {
		case err == nil:
			*(*unsafe.Pointer)(unsafe.Add(table, f.offset)) = p
		case f.group == C.cx_required:
			return has, err
		default:
			has[f.group] = false
		}
	}
	return has, nil
}

// err returns the *Error of a failed call of function number f (cx_fn_NAME), or nil for
// success.
func (a *api) err(f, rc C.int) error {
	if rc == 0 {
		return nil
	}
	return a.failed(C.GoString(C.cx_gpu_functions[f].names[a.dialect]), rc)
}

// failed returns the *Error of a failed call, or nil for success.
func (a *api) failed(call string, rc C.int) error {
	if rc == 0 {
		return nil
	}
	name := "unknown error"
	if s := C.cx_error_name(a.table, rc); s != nil {
		name = C.GoString(s)
	}
	return &Error{Call: call, Code: int(rc), Name: name}
}
