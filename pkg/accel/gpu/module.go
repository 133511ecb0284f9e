package gpu

/*
#cgo noescape cx_launch
#cgo nocallback cx_launch
#include <stdlib.h>
#include "api.h"
*/
import "C"

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
)

// maxArgs is the maximum number of parameters of a kernel.
const maxArgs = 16

// Compile implements accel.Device. It reads the image from the cache, or compiles it and stores it
// there. Several ranks may call it at the same time. Without a run-time compiler the error wraps
// accel.ErrUnsupported and lists the files that were tried.
func (d *Device) Compile(ctx context.Context, name, source string) (accel.Module, error) {
	c, err := d.driver.Compiler()
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w: %w", name, accel.ErrUnsupported, err)
	}
	image, err := c.Cached(ctx, d.cacheDir, name, source, d.info.Arch)
	if err != nil {
		return nil, err
	}
	m := &module{api: d.api}
	if err := d.api.err(C.cx_fn_module_load, C.cx_module_load(d.api.table, &m.handle, pointerTo(image))); err != nil {
		return nil, fmt.Errorf("load %s for %s: %w", name, d.info.Arch, err)
	}
	return m, nil
}

type module struct {
	api    *api
	handle C.uintptr_t
}

func (m *module) Kernel(name string) (accel.Kernel, error) {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	k := &kernel{api: m.api}
	if err := m.api.err(C.cx_fn_module_function, C.cx_module_function(m.api.table, &k.handle, m.handle, cname)); err != nil {
		return nil, fmt.Errorf("kernel %s: %w", name, err)
	}
	return k, nil
}

func (m *module) Close() error {
	return m.api.err(C.cx_fn_module_unload, C.cx_module_unload(m.api.table, m.handle))
}

type kernel struct {
	api    *api
	handle C.uintptr_t
}

// Launch implements accel.Kernel. The values behind args are copied before it
// returns.
func (k *kernel) Launch(s accel.Stream, grid, block, sharedBytes uint32, args ...unsafe.Pointer) error {
	if len(args) > maxArgs {
		return fmt.Errorf("launch a kernel with %d arguments: want at most %d", len(args), maxArgs)
	}
	var a [maxArgs]unsafe.Pointer
	copy(a[:], args)
	return k.api.err(C.cx_fn_launch, C.cx_launch(k.api.table, k.handle,
		C.uint(grid), C.uint(block), C.uint(sharedBytes), C.uintptr_t(s.Handle()),
		a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7],
		a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15]))
}
