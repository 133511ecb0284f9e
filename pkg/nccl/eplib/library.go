// Package eplib calls NVIDIA's expert-parallel library, NCCL EP, through its C ABI. It opens
// the library at run time, after the NCCL library that it uses.
package eplib

/*
#include <stdlib.h>
#include "abi.h"

static int cx_ep_version(const cx_ep_library *f, int *v) { return f->GetVersion(v); }
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/dl"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/pyhost"
)

// wheelLibraries are the paths of the library in the wheel nccl-extensions, below the directory of
// packages: for CUDA 13 and 12.
var wheelLibraries = []string{"nccl/ep/lib/cu13/libnccl_ep.so*", "nccl/ep/lib/cu12/libnccl_ep.so*"}

var search = dl.Search{What: "NCCL EP", Env: "CX_NCCL_EP_LIB", Names: []string{
	"libnccl_ep.so.0", "/usr/lib/*-linux-gnu/libnccl_ep.so.0", "/usr/local/lib/libnccl_ep.so.0",
}, Missing: "libnccl_ep.so.0 is neither on the loader's path, nor in /usr/lib or /usr/local/lib, nor in a wheel of python3 on PATH; run pip install nccl-extensions[cu13]"}

// minNCCL is the first release whose device interface NCCL EP can use.
const minNCCL nccl.Version = 22900

// ErrOldNCCL is wrapped by the error for an NCCL that is too old for NCCL EP.
var ErrOldNCCL = errors.New("NCCL is too old for NCCL EP")

// Library is a loaded library.
type Library struct {
	dl.File
	nccl    *nccl.Library
	table   *C.cx_ep_library
	version int
}

// Open opens the library, at the path in CX_NCCL_EP_LIB, where the loader finds it or, last, in a
// wheel among the packages of python3 on PATH. The library uses the functions of n, since the loader
// resolves its dependency on NCCL to the file that is already loaded.
func Open(ctx context.Context, n *nccl.Library) (*Library, error) {
	if n.Kind != nccl.NCCL || n.Version < minNCCL {
		return nil, fmt.Errorf("%w: want NCCL 2.29 or newer, found %s %s: set CX_NCCL_LIB to a newer one", ErrOldNCCL, n.Kind, n.VersionString())
	}
	lib, err := pyhost.Packaged(ctx, search, wheelLibraries...)
	if err != nil {
		return nil, err
	}
	l := &Library{File: lib.File, nccl: n, table: (*C.cx_ep_library)(C.calloc(1, C.size_t(unsafe.Sizeof(C.cx_ep_library{}))))}
	for i := range C.cx_ep_count() {
		address, err := lib.Symbol(C.GoString(C.cx_ep_symbol(i)))
		if err != nil {
			C.free(unsafe.Pointer(l.table))
			return nil, search.Unusable(err)
		}
		C.cx_ep_set(l.table, i, address)
	}
	var v C.int
	if err := n.Check("ncclEpGetVersion", -1, nccl.Result(C.cx_ep_version(l.table, &v))); err != nil {
		C.free(unsafe.Pointer(l.table))
		return nil, search.Unusable(err)
	}
	l.version = int(v)
	return l, nil
}

// VersionString returns the version of the library, such as 0.1.0.
func (l *Library) VersionString() string {
	return fmt.Sprintf("%d.%d.%d", l.version/10000, l.version/100%100, l.version%100)
}

// FullVersion returns the versions of the library and of the NCCL library that it uses, such
// as 0.1.0+nccl2.30.7.
func (l *Library) FullVersion() string { return l.VersionString() + "+nccl" + l.nccl.VersionString() }
