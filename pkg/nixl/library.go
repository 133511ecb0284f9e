// Package nixl calls NVIDIA's transfer library NIXL, with its UCX backend, through its C ABI.
// It opens the library from NIXL's Python wheel at run time, and needs no Python.
package nixl

/*
#include <stdlib.h>
#include "abi.h"

static bool cx_nixl_stub(const cx_nixl_library *f) { return f->is_stub(); }
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/dl"
	"github.com/collectivex/collectivex/pkg/pyhost"
)

// wheelLibrary is the path of the library in an installed wheel, below the directory of packages.
const wheelLibrary = ".nixl_cu1[23].mesonpy.libs/libnixl_capi.so"

var search = dl.Search{What: "NIXL", Env: "CX_NIXL_LIB", Names: []string{
	"libnixl_capi.so",
	"/usr/local/lib/python3*/dist-packages/" + wheelLibrary, "/usr/local/lib/python3*/site-packages/" + wheelLibrary,
	"/usr/lib/python3*/dist-packages/" + wheelLibrary, "/opt/venv/lib/python3*/site-packages/" + wheelLibrary,
}, Missing: "libnixl_capi.so is neither on the loader's path nor in a wheel of /usr, /opt/venv or python3 on PATH; run pip install --no-deps nixl-cu13==1.5.1"}

// ErrUnfit is wrapped by the error for a library that has all functions but is not supported.
var ErrUnfit = errors.New("NIXL cannot be used")

// sortedLists is a function that only older releases have. Their descriptor lists take another
// parameter.
const sortedLists = "nixl_capi_xfer_dlist_is_sorted"

// Library is a loaded library. It stays loaded.
type Library struct {
	dl.File
	lib   *dl.Library
	table *C.cx_nixl_library
}

// Open opens the library at the path in CX_NIXL_LIB, on the loader's path or in a wheel. It searches
// the packages of python3 on PATH last. The error wraps dl.ErrNoLibrary, dl.ErrNoSymbol or ErrUnfit.
// UCX reads its UCX_ variables during the call.
func Open(ctx context.Context) (*Library, error) {
	lib, err := pyhost.Packaged(ctx, search, wheelLibrary)
	if err != nil {
		return nil, err
	}
	l := &Library{File: lib.File, lib: lib, table: (*C.cx_nixl_library)(C.calloc(1, C.size_t(unsafe.Sizeof(C.cx_nixl_library{}))))}
	if err := l.fill(); err != nil {
		C.free(unsafe.Pointer(l.table))
		return nil, search.Unusable(err)
	}
	return l, nil
}

func (l *Library) fill() error {
	for i := range C.cx_nixl_count() {
		address, err := l.lib.Symbol(C.GoString(C.cx_nixl_symbol(i)))
		if err != nil {
			return err
		}
		C.cx_nixl_set(l.table, i, address)
	}
	if _, err := l.lib.Symbol(sortedLists); err == nil {
		return unfit("it has " + sortedLists + ", which only older releases have: install nixl-cu13 or nixl-cu12 1.5.1 or newer")
	}
	if C.cx_nixl_stub(l.table) {
		return unfit("it is the stub of NIXL's Rust bindings: install nixl-cu13 or nixl-cu12")
	}
	return nil
}

type unfit string

func (e unfit) Error() string        { return string(e) }
func (e unfit) Is(target error) bool { return target == ErrUnfit }

// Version returns the version of the wheel that contains the library, such as 1.5.1. For a library
// outside a wheel it returns "unknown", because the library does not report its version.
func (l *Library) Version() string {
	libs := filepath.Dir(l.lib.Path())
	wheel, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(libs), "."), ".")
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(libs), wheel+"-*.dist-info"))
	if len(found) != 1 {
		return "unknown"
	}
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), wheel+"-"), ".dist-info")
}

// DeviceError returns an error if the loader does not find a library that UCX's modules for CUDA need.
// UCX ignores such a module; transfers of device memory then use another path or fail. Only the
// modules in the wheel of the library are checked.
func (l *Library) DeviceError() error {
	if err := l.ModuleError("cuda"); err != nil {
		return err
	}
	modules, _ := filepath.Glob(filepath.Join(l.modules(), "libuc[mt]_cuda.so*"))
	for _, module := range modules {
		needs, err := dl.Imports(module)
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(module), err)
		}
		for _, name := range needs {
			if !strings.HasPrefix(name, "libcuda") && !strings.HasPrefix(name, "libnvidia") {
				continue
			}
			lib, err := dl.Open(name)
			if err != nil {
				return fmt.Errorf("%s of UCX needs %s: %w: install it, or add its directory to LD_LIBRARY_PATH", filepath.Base(module), name, err)
			}
			if err := lib.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// ModuleError returns an error if the UCX in the wheel of the library lacks the module of a transport,
// such as cma. UCX would then use another transport without reporting it.
func (l *Library) ModuleError(name string) error {
	dir := l.modules()
	if _, err := os.Stat(dir); err != nil {
		return nil // not a wheel: its UCX may be anywhere
	}
	file := "libuct_" + name + ".so"
	if found, _ := filepath.Glob(filepath.Join(dir, file+"*")); len(found) == 0 {
		return fmt.Errorf("the UCX in NIXL's wheel has no %s: reinstall the wheel", file)
	}
	return nil
}

// modules returns the directory of UCX's modules in the wheel.
func (l *Library) modules() string {
	libs := filepath.Dir(l.lib.Path())
	wheel, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(libs), "."), ".")
	return filepath.Join(filepath.Dir(libs), wheel+".libs", "ucx")
}
