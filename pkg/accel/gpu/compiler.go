package gpu

/*
#include <stdlib.h>
#include "compiler.h"
*/
import "C"

import (
	"fmt"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/dl"
)

// CompilerVendor describes what is specific to one vendor's run-time compiler.
type CompilerVendor struct {
	Name    string // NVRTC, HIPRTC
	Library dl.Search
	// Companion is a file name pattern, in the directory of the library, for a library that
	// the compiler opens by soname alone; empty if there is none.
	Companion string
	Dialect   Dialect
	// Options are the compiler's arguments for an architecture.
	Options func(arch string) []string
}

// Compiler compiles kernel source into images for named architectures. It needs
// no device.
type Compiler struct {
	vendor       CompilerVendor
	lib          *dl.Library
	table        *C.cx_rtc
	major, minor int
}

// OpenCompiler finds and binds a run-time compiler. The error wraps
// dl.ErrNoLibrary or dl.ErrNoSymbol.
func OpenCompiler(v CompilerVendor) (*Compiler, error) {
	lib, err := v.Library.Open()
	if err != nil {
		return nil, err
	}
	if err := openCompanion(lib, v.Companion); err != nil {
		return nil, fmt.Errorf("%s: %w", v.Name, err)
	}
	t := (*C.cx_rtc)(C.calloc(1, C.sizeof_cx_rtc))
	if _, err := bind(lib, v.Dialect, C.cx_rtc_functions[:], unsafe.Pointer(t)); err != nil {
		C.free(unsafe.Pointer(t))
		return nil, v.Library.Unusable(fmt.Errorf("too old or a different library: %w", err))
	}
	c := &Compiler{vendor: v, lib: lib, table: t}
	var major, minor C.int
	if err := c.err(C.cx_rtc_fn_version, C.cx_rtc_version(t, &major, &minor)); err != nil {
		return nil, err
	}
	c.major, c.minor = int(major), int(minor)
	return c, nil
}

// openCompanion loads the companion of a library. The library itself cannot find it in a directory
// that the loader does not search, such as a Python wheel's.
func openCompanion(lib *dl.Library, pattern string) error {
	if pattern == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(lib.Path()), pattern))
	if err != nil || len(files) == 0 {
		return err // the loader may find another one
	}
	_, err = dl.Open(files[0])
	return err
}

// Library returns the library that was loaded.
func (c *Compiler) Library() *dl.Library { return c.lib }

// Version returns the name and version of the compiler, such as "NVRTC 13.0".
func (c *Compiler) Version() string {
	return fmt.Sprintf("%s %d.%d", c.vendor.Name, c.major, c.minor)
}

// Compile returns an image of source for arch. If source does not compile, the error
// contains the first error message of the compiler, on one line.
func (c *Compiler) Compile(name, source, arch string) ([]byte, error) {
	csource, cname := C.CString(source), C.CString(name)
	defer C.free(unsafe.Pointer(csource))
	defer C.free(unsafe.Pointer(cname))
	t := c.table
	var program unsafe.Pointer
	if err := c.err(C.cx_rtc_fn_create, C.cx_rtc_create(t, &program, csource, cname)); err != nil {
		return nil, err
	}
	defer C.cx_rtc_destroy(t, &program)

	var options []*C.char
	for _, o := range c.vendor.Options(arch) {
		option := C.CString(o)
		defer C.free(unsafe.Pointer(option))
		options = append(options, option)
	}
	rc := C.cx_rtc_compile(t, program, C.int(len(options)), unsafe.SliceData(options))
	if err := c.err(C.cx_rtc_fn_compile, rc); err != nil {
		return nil, fmt.Errorf("compile %s for %s with %s: %w: %s", name, arch, c.Version(), err, c.complaint(program))
	}
	var size C.size_t
	if err := c.err(C.cx_rtc_fn_code_size, C.cx_rtc_code_size(t, program, &size)); err != nil {
		return nil, err
	}
	if size == 0 {
		return nil, fmt.Errorf("compile %s for %s with %s: the compiler returned an empty image", name, arch, c.Version())
	}
	image := make([]byte, size)
	if err := c.err(C.cx_rtc_fn_code, C.cx_rtc_code(t, program, (*C.char)(pointerTo(image)))); err != nil {
		return nil, err
	}
	return image, nil
}

// complaint returns the first line of the compiler's log that mentions an error, or else
// its first line.
func (c *Compiler) complaint(program unsafe.Pointer) string {
	var size C.size_t
	if C.cx_rtc_log_size(c.table, program, &size) != 0 || size == 0 {
		return "no log"
	}
	text := make([]byte, size)
	if C.cx_rtc_log(c.table, program, (*C.char)(pointerTo(text))) != 0 {
		return "no log"
	}
	lines := strings.Split(strings.TrimSpace(CString(text)), "\n")
	for _, line := range lines {
		if strings.Contains(line, "error") {
			return strings.TrimSpace(line)
		}
	}
	return strings.TrimSpace(lines[0])
}

func (c *Compiler) err(f, rc C.int) error {
	if rc == 0 {
		return nil
	}
	call := C.GoString(C.cx_rtc_functions[f].names[c.vendor.Dialect])
	return fmt.Errorf("%s: %s (%d)", call, C.GoString(C.cx_rtc_error(c.table, rc)), int(rc))
}
