// Package dl opens shared libraries at run time and reports which file was loaded. Callers
// must know the signatures of the functions.
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
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"
)

// ErrNoLibrary is wrapped by errors for a library that was not found or could not be
// loaded.
var ErrNoLibrary = errors.New("no such library")

// ErrNoSymbol is wrapped by errors for a symbol that a loaded library lacks.
var ErrNoSymbol = errors.New("no such symbol")

// Library is a loaded shared library. Its methods are safe for concurrent use.
type Library struct {
	handle unsafe.Pointer
	File
}

// File is the file of a loaded library.
type File struct {
	path string
	id   identity
}

// Open loads the library that the dynamic loader finds by name, which is a path if it
// contains a slash, otherwise a soname. Its symbols are bound at once and stay local, so
// that two libraries with the same symbols do not bind to each other.
func Open(name string) (*Library, error) {
	return open(name, C.RTLD_NOW|C.RTLD_LOCAL)
}

// OpenGlobal is Open for a library against which libraries loaded later resolve symbols, as
// extension modules of Python do with libpython.
func OpenGlobal(name string) (*Library, error) {
	return open(name, C.RTLD_NOW|C.RTLD_GLOBAL)
}

func open(name string, flags C.int) (*Library, error) {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	// dlerror returns the error of the calling thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	handle := C.dlopen(cname, flags)
	if handle == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoLibrary, lastError())
	}
	l := &Library{handle: handle, File: File{path: name}}
	if from := C.cx_loaded_from(handle); from != nil {
		l.path = C.GoString(from)
	}
	if real, err := filepath.EvalSymlinks(l.path); err == nil {
		l.path = real
	}
	if abs, err := filepath.Abs(l.path); err == nil {
		l.path = abs
	}
	// A library without a readable file (deleted, or the vdso) works too, but its soname and
	// build id stay empty.
	l.id, _ = readIdentity(l.path)
	return l, nil
}

// Symbol returns the address of a function or variable. The error wraps ErrNoSymbol.
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

// Path returns the path of the loaded file, with symbolic links resolved. It is private: it
// may be written to log files, but never to a document.
func (f File) Path() string { return f.path }

// SOName returns the library's DT_SONAME, or "" if it has none.
func (f File) SOName() string { return f.id.soname }

// BuildID returns the library's GNU build id in hexadecimal, or "" if it has none.
func (f File) BuildID() string { return f.id.buildID }

// Close drops this reference. When the last one is dropped, the loader unloads the library
// and its symbols become invalid.
func (l *Library) Close() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if C.dlclose(l.handle) != 0 {
		return fmt.Errorf("close %s: %s", l.name(), lastError())
	}
	return nil
}

// name returns the name of the library for messages.
func (l *Library) name() string { return cmp.Or(l.id.soname, filepath.Base(l.path)) }

// lastError returns the loader's error of this thread, on one line.
func lastError() string {
	text := C.dlerror()
	if text == nil {
		return "the loader gave no reason"
	}
	return strings.Join(strings.Fields(C.GoString(text)), " ")
}
