// Package eplib calls NVIDIA's expert-parallel library, NCCL EP, through its C ABI. The
// library is opened at run time, after the NCCL that it works on.
package eplib

/*
#include <stdlib.h>
#include "abi.h"

static int cx_ep_version(const cx_ep_library *f, int *v) { return f->GetVersion(v); }
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/dl"
	"github.com/collectivex/collectivex/pkg/nccl"
)

var search = dl.Search{What: "NCCL EP", Env: "CX_NCCL_EP_LIB", Names: []string{
	"libnccl_ep.so.0", "/usr/lib/*-linux-gnu/libnccl_ep.so.0", "/usr/local/lib/libnccl_ep.so.0",
}}

// leastNCCL is the oldest release whose device interface NCCL EP can use.
const leastNCCL nccl.Version = 22900

// ErrOldNCCL is wrapped by the error for an NCCL that is too old for NCCL EP.
var ErrOldNCCL = errors.New("NCCL is too old for NCCL EP")

// Library is a loaded library.
type Library struct {
	dl.File
	nccl    *nccl.Library
	table   *C.cx_ep_library
	version int
}

// Open opens the library, at the path in CX_NCCL_EP_LIB or where the loader finds it. The
// library gets its NCCL functions from n, since the loader takes the loaded file with the
// name that it asks for.
func Open(n *nccl.Library) (*Library, error) {
	if n.Kind != nccl.NCCL || n.Version < leastNCCL {
		return nil, fmt.Errorf("%w: it needs NCCL 2.29 or newer, this is %s %s: set CX_NCCL_LIB to a newer one", ErrOldNCCL, n.Kind, n.VersionString())
	}
	lib, err := search.Open()
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

// FullVersion returns the version with that of the NCCL that the library works on, such as
// 0.1.0+nccl2.30.7.
func (l *Library) FullVersion() string { return l.VersionString() + "+nccl" + l.nccl.VersionString() }
