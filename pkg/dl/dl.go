// Package dl opens shared libraries while the program runs, and says which
// file was really loaded. It knows no library: what a function takes and
// returns is its caller's business.
package dl

/*
#cgo linux LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

static const char *cx_loaded_from(void *handle) {
	struct link_map *map = NULL;
	return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != NULL ? map->l_name : NULL;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"
)

// ErrNoLibrary is wrapped by errors that say that a library was not found or
// could not be loaded.
var ErrNoLibrary = errors.New("no such library")

// ErrNoSymbol is wrapped by errors that say that a loaded library lacks a symbol.
var ErrNoSymbol = errors.New("no such symbol")

// Library is a loaded shared library. Its methods are safe for concurrent use.
type Library struct {
	handle unsafe.Pointer
	path   string
	id     identity
}

// Open loads the library that the dynamic loader finds under name: a path when
// it has a slash, else a soname. Its symbols are bound at once and stay local,
// so that two libraries that export the same names do not bind to each other.
func Open(name string) (*Library, error) {
	return open(name, C.RTLD_NOW|C.RTLD_LOCAL)
}

// OpenGlobal is Open for a library whose symbols later libraries resolve
// against without naming it, as Python's extension modules do with libpython.
func OpenGlobal(name string) (*Library, error) {
	return open(name, C.RTLD_NOW|C.RTLD_GLOBAL)
}

func open(name string, flags C.int) (*Library, error) {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	// The loader keeps its error text per thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	handle := C.dlopen(cname, flags)
	if handle == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoLibrary, lastError())
	}
	l := &Library{handle: handle, path: name}
	if from := C.cx_loaded_from(handle); from != nil {
		l.path = C.GoString(from)
	}
	if real, err := filepath.EvalSymlinks(l.path); err == nil {
		l.path = real
	}
	if abs, err := filepath.Abs(l.path); err == nil {
		l.path = abs
	}
	// A library without a readable file behind it (deleted, or the vdso) runs
	// all the same; it only stays unnamed.
	l.id, _ = readIdentity(l.path)
	return l, nil
}

// Symbol returns the address of a function or variable.
func (l *Library) Symbol(name string) (unsafe.Pointer, error) {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	C.dlerror()
	p := C.dlsym(l.handle, cname)
	if p == nil {
		lastError()
		return nil, fmt.Errorf("%w: %s in %s", ErrNoSymbol, name, l.name())
	}
	return p, nil
}

// Path is the file that was really loaded, with symbolic links resolved. It is
// private: it belongs in log files, never in a document.
func (l *Library) Path() string { return l.path }

// SOName is the library's DT_SONAME; empty where it has none.
func (l *Library) SOName() string { return l.id.soname }

// BuildID is the GNU build id in hexadecimal; empty where it has none.
func (l *Library) BuildID() string { return l.id.buildID }

// Close drops this reference. The loader unloads the library when the last one
// is gone; symbols are invalid from then on.
func (l *Library) Close() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if C.dlclose(l.handle) != 0 {
		return fmt.Errorf("close %s: %s", l.name(), lastError())
	}
	return nil
}

// name is how messages call the library.
func (l *Library) name() string {
	if l.id.soname != "" {
		return l.id.soname
	}
	return filepath.Base(l.path)
}

// lastError takes the loader's text for this thread, on one line.
func lastError() string {
	text := C.dlerror()
	if text == nil {
		return "the loader gave no reason"
	}
	return strings.Join(strings.Fields(C.GoString(text)), " ")
}
