// Package blaslt multiplies matrices through cuBLASLt and hipBLASLt, which it opens at run time.
// Their C interfaces differ only in the numbers of some constants.
package blaslt

/*
#include <stdlib.h>
#include "abi.h"

static int cx_blaslt_create(const cx_blaslt_library *f, void **handle) { return f->Create(handle); }
static int cx_blaslt_destroy(const cx_blaslt_library *f, void *handle) { return f->Destroy(handle); }
*/
import "C"

import (
	"errors"
	"fmt"
	"strconv"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/gemm"
	"github.com/collectivex/collectivex/pkg/dl"
	"github.com/collectivex/collectivex/pkg/numeric"
)

// Kind is one of the libraries.
type Kind string

// The libraries.
const (
	CUBLASLt  Kind = "cublaslt"
	HIPBLASLt Kind = "hipblaslt"
)

// dialect describes how one library differs from the rest.
type dialect struct {
	search   dl.Search
	prefix   string // of its functions
	words    C.cx_blaslt_words
	statuses map[int]string
	// versionWithoutHandle reports that the version function takes no handle.
	versionWithoutHandle bool
	// version calls the library's version function.
	version func(function, handle unsafe.Pointer) (string, error)
}

var dialects = map[Kind]*dialect{
	CUBLASLt: {
		search: dl.Search{What: "cuBLASLt", Env: "CX_CUBLASLT_LIB", Names: []string{
			"libcublasLt.so.13", "libcublasLt.so.12",
			"/usr/local/cuda/lib64/libcublasLt.so.1[23]", "/usr/local/cuda-1[23]*/lib64/libcublasLt.so.1[23]",
		}},
		prefix: "cublasLt",
		words: C.cx_blaslt_words{
			compute: 68, transposeA: 3, transpose: 1, maxWorkspace: 1,
			reductions: 3, reduceInCompute: 2, alignmentA: 5,
		},
		statuses: map[int]string{
			1: "NOT_INITIALIZED", 3: "ALLOC_FAILED", 7: "INVALID_VALUE", 8: "ARCH_MISMATCH", 11: "MAPPING_ERROR",
			13: "EXECUTION_FAILED", 14: "INTERNAL_ERROR", 15: "NOT_SUPPORTED", 16: "LICENSE_ERROR",
		},
		versionWithoutHandle: true,
		version: func(function, _ unsafe.Pointer) (string, error) {
			return version(int(C.cx_blaslt_version_of_cublas(function)), 100), nil
		},
	},
	HIPBLASLt: {
		search: dl.Search{What: "hipBLASLt", Env: "CX_HIPBLASLT_LIB", Names: []string{
			"libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so",
			"/opt/rocm/lib/libhipblaslt.so", "/opt/rocm-*/lib/libhipblaslt.so",
		}},
		prefix: "hipblasLt",
		words: C.cx_blaslt_words{
			compute: 2, transposeA: 0, transpose: 112, maxWorkspace: 1,
			reductions: -1, alignmentA: -1,
		},
		statuses: map[int]string{
			1: "NOT_INITIALIZED", 2: "ALLOC_FAILED", 3: "INVALID_VALUE", 4: "MAPPING_ERROR", 5: "EXECUTION_FAILED",
			6: "INTERNAL_ERROR", 7: "NOT_SUPPORTED", 8: "ARCH_MISMATCH", 9: "HANDLE_IS_NULLPTR", 10: "INVALID_ENUM", 11: "UNKNOWN",
		},
		version: func(function, handle unsafe.Pointer) (string, error) {
			var v C.int
			if status := C.cx_blaslt_version_of_hipblas(function, handle, &v); status != 0 {
				return "", &Error{"hipblasLtGetVersion", strconv.Itoa(int(status))}
			}
			return version(int(v), 1000), nil
		},
	},
}

// version formats a version code, which is (major × minors + minor) × 100 + patch.
func version(code, minors int) string {
	const patches = 100
	return fmt.Sprintf("%d.%d.%d", code/patches/minors, code/patches%minors, code%patches)
}

// Error is a failed call of a library.
type Error struct {
	Call, Status string // cublasLtMatmul, INVALID_VALUE
}

func (e *Error) Error() string { return e.Call + ": " + e.Status }

// types holds the libraries' numbers for the element types.
var types = map[numeric.Type]C.int{numeric.Float: 0, numeric.Half: 2, numeric.BFloat16: 14}

// workspaceBytes is the memory for intermediate results. It is cuBLAS's default on devices of
// compute capability 9.
const workspaceBytes = 32 << 20

// Engine is a gemm.Engine that calls a library, on the device that was current in Open.
type Engine struct {
	*dialect
	dl.File
	table     *C.cx_blaslt_library
	handle    unsafe.Pointer
	device    accel.Device
	workspace accel.Ptr
	versionOf string
	plans     map[key]*C.cx_blaslt_plan
}

var _ gemm.Engine = (*Engine)(nil)

// key is what the choice of an algorithm depends on.
type key struct {
	gemm.Shape
	dtype   numeric.Type
	a, b, c uint32 // alignments
}

// Open opens a library for the current device: at the path in CX_CUBLASLT_LIB or CX_HIPBLASLT_LIB,
// or where the loader finds it. The error wraps dl.ErrNoLibrary, dl.ErrNoSymbol, or an error of the
// library or the device.
func Open(kind Kind, d accel.Device) (*Engine, error) {
	of := dialects[kind]
	lib, err := of.search.Open()
	if err != nil {
		return nil, err
	}
	e := &Engine{dialect: of, File: lib.File, device: d, plans: map[key]*C.cx_blaslt_plan{}}
	e.table = (*C.cx_blaslt_library)(C.calloc(1, C.size_t(unsafe.Sizeof(C.cx_blaslt_library{}))))
	if err := e.open(lib); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// Find opens a library as Open does, without a device. The version is empty if the library's version
// function requires a handle, as in hipBLASLt.
func Find(kind Kind) (lib *dl.Library, version string, err error) {
	of := dialects[kind]
	if lib, err = of.search.Open(); err != nil {
		return nil, "", err
	}
	_, getVersion, err := of.symbols(lib)
	if err == nil && of.versionWithoutHandle {
		version, err = of.version(getVersion, nil)
	}
	if err != nil {
		return nil, "", err
	}
	return lib, version, nil
}

// symbols returns the functions of a library in the order of the table, and its version function.
func (d *dialect) symbols(lib *dl.Library) (functions []unsafe.Pointer, getVersion unsafe.Pointer, err error) {
	for i := range C.cx_blaslt_count() {
		address, err := lib.Symbol(d.prefix + C.GoString(C.cx_blaslt_name(i)))
		if err != nil {
			return nil, nil, d.search.Unusable(err)
		}
		functions = append(functions, address)
	}
	if getVersion, err = lib.Symbol(d.prefix + "GetVersion"); err != nil {
		return nil, nil, d.search.Unusable(err)
	}
	return functions, getVersion, nil
}

func (e *Engine) open(lib *dl.Library) error {
	functions, getVersion, err := e.symbols(lib)
	if err != nil {
		return err
	}
	for i, address := range functions {
		C.cx_blaslt_set(e.table, C.int(i), address)
	}
	if err := e.check("Create", C.cx_blaslt_create(e.table, &e.handle)); err != nil {
		return err
	}
	if e.versionOf, err = e.version(getVersion, e.handle); err != nil {
		return err
	}
	e.workspace, err = e.device.Alloc(workspaceBytes)
	return err
}

func (e *Engine) check(call string, status C.int) error {
	if status == 0 {
		return nil
	}
	name, ok := e.statuses[int(status)]
	if !ok {
		name = "status " + strconv.Itoa(int(status))
	}
	return &Error{e.prefix + call, name}
}

// Version returns the version of the library, such as 13.1.0.
func (e *Engine) Version() string { return e.versionOf }

// Prepare implements gemm.Engine. It asks the library for its best algorithm, once for each
// combination of shape, type and alignments.
func (e *Engine) Prepare(p gemm.Product) (gemm.Multiply, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	plan, err := e.plan(p)
	if err != nil {
		return nil, err
	}
	return func(s accel.Stream) error {
		return e.check("Matmul", C.cx_blaslt_multiply(e.table, e.handle, plan, C.uintptr_t(p.A), C.uintptr_t(p.B), C.uintptr_t(p.C),
			C.uintptr_t(e.workspace), workspaceBytes, C.uintptr_t(s.Handle())))
	}, nil
}

func (e *Engine) plan(p gemm.Product) (*C.cx_blaslt_plan, error) {
	k := key{p.Shape, p.Type, alignment(p.A), alignment(p.B), alignment(p.C)}
	if plan := e.plans[k]; plan != nil {
		return plan, nil
	}
	plan := (*C.cx_blaslt_plan)(C.calloc(1, C.size_t(unsafe.Sizeof(C.cx_blaslt_plan{}))))
	e.plans[k] = plan
	var call *C.char
	product := C.cx_blaslt_product{
		_type: types[p.Type], m: C.int64_t(p.M), n: C.int64_t(p.N), k: C.int64_t(p.K),
		alignmentA: C.uint32_t(k.a), alignmentB: C.uint32_t(k.b), alignmentC: C.uint32_t(k.c), workspace: workspaceBytes,
	}
	status := C.cx_blaslt_prepare(e.table, e.handle, &e.words, &product, plan, &call)
	if status == 0 {
		return plan, nil
	}
	delete(e.plans, k)
	err := e.check(C.GoString(call), status)
	if status == C.CX_BLASLT_NONE {
		err = &Error{e.prefix + C.GoString(call), "no algorithm"}
	}
	return nil, errors.Join(fmt.Errorf("product of [%d, %d] and [%d, %d] of %s: %w: choose another type or shape, or compute with the kernel", p.M, p.K, p.K, p.N, p.Type, err), e.release(plan))
}

func (e *Engine) release(plan *C.cx_blaslt_plan) error {
	defer C.free(unsafe.Pointer(plan))
	var call *C.char
	status := C.cx_blaslt_release(e.table, plan, &call)
	return e.check(C.GoString(call), status)
}

// alignment returns the alignment of an address in bytes, limited to what the libraries use.
func alignment(p accel.Ptr) uint32 {
	const maxAlignment = 256
	return uint32(min(p&-p, maxAlignment))
}

// Close implements gemm.Engine. The library stays loaded.
func (e *Engine) Close() error {
	var err error
	for _, plan := range e.plans {
		err = errors.Join(err, e.release(plan))
	}
	if e.handle != nil {
		err = errors.Join(err, e.check("Destroy", C.cx_blaslt_destroy(e.table, e.handle)))
	}
	if e.workspace != 0 {
		err = errors.Join(err, e.device.Free(e.workspace))
	}
	C.free(unsafe.Pointer(e.table))
	return err
}
