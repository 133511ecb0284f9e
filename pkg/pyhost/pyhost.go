package pyhost

/*
#include <stdlib.h>
#include "python.h"
*/
import "C"

import (
	_ "embed" // host.py
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/dl"
)

//go:embed host.py
var hostSource string

// modulePrefix begins the names of this program's modules in the interpreter.
const modulePrefix = "collectivex_"

// bind finds the functions of libpython.
func bind(l *dl.Library) error {
	for i := C.int(0); C.cx_py_name(i) != nil; i++ {
		p, err := l.Symbol(C.GoString(C.cx_py_name(i)))
		if err != nil {
			return err
		}
		C.cx_py_set(i, p)
	}
	return nil
}

// libraryVersion returns the version of the loaded libpython, which need not be started.
func libraryVersion() string {
	version, _, _ := strings.Cut(C.GoString(C.cx_py_version()), " ")
	return version
}

// Interpreter is the interpreter of this process. Its methods may be called from any thread; each
// acquires and releases the GIL. Libraries keep state such as the current device per thread.
type Interpreter struct {
	flush   *Function
	library *dl.Library
}

// started is locked once this process has tried to start an interpreter, and stays locked.
var started sync.Mutex

// Start starts the interpreter of an environment. A process can do this once; later calls fail. The
// caller has locked its OS thread, which becomes Python's main thread. Go's signal handlers stay.
func Start(e *Environment) (*Interpreter, error) {
	if !started.TryLock() {
		return nil, errors.New("this process already has a Python interpreter")
	}
	library, err := e.Library()
	if err != nil {
		return nil, err
	}
	// The interpreter locates itself and its environment by the first python3 on PATH, which may be
	// a script that starts another python3.
	if err := os.Setenv("PATH", filepath.Dir(e.Executable)+string(os.PathListSeparator)+os.Getenv("PATH")); err != nil {
		return nil, err
	}
	C.cx_py_start()
	i := &Interpreter{library: library}
	host, err := i.Load("host", hostSource)
	if err != nil {
		return nil, err
	}
	about, err := host.Function("about")
	if err != nil {
		return nil, err
	}
	if i.flush, err = host.Function("flush"); err != nil {
		return nil, err
	}
	text, err := about.Text("")
	if err != nil {
		return nil, err
	}
	var is Environment
	if err := json.Unmarshal([]byte(text), &is); err != nil {
		return nil, err
	}
	if is.Version != e.Version || is.Prefix != e.Prefix {
		return nil, fmt.Errorf("started Python %s of %s, not Python %s of %s: unset PYTHONHOME, or put the bin directory of the environment first in PATH",
			is.Version, is.Prefix, e.Version, e.Prefix)
	}
	return i, nil
}

// Library returns the shared library of the interpreter.
func (i *Interpreter) Library() *dl.Library { return i.library }

// Flush writes out what Python and C have buffered. It is called before the process ends.
func (i *Interpreter) Flush() error {
	_, err := i.flush.Text("")
	C.cx_py_flush()
	return err
}

// Module is a module of this program in the interpreter.
type Module struct{ object *C.PyObject }

// Load runs source as a module, which tracebacks name collectivex_NAME.
func (i *Interpreter) Load(name, source string) (*Module, error) {
	cname, csource := C.CString(modulePrefix+name), C.CString(source)
	defer C.free(unsafe.Pointer(cname))
	defer C.free(unsafe.Pointer(csource))
	var r C.cx_result
	keepSignals(func() { r = C.cx_py_load(cname, csource) })
	if err := failure(r); err != nil {
		return nil, err
	}
	return &Module{r.object}, nil
}

// keepSignals calls f and then restores Go's signal handlers.
func keepSignals(f func()) {
	saved := C.cx_signals_save()
	defer C.cx_signals_restore(saved)
	f()
}

// Function is a callable of a module.
type Function struct{ object *C.PyObject }

// Function returns the attribute of the module with this name.
func (m *Module) Function(name string) (*Function, error) {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	r := C.cx_py_attribute(m.object, cname)
	return &Function{r.object}, failure(r)
}

// Call calls the function with integers and returns its integer result, 0 for None. It allocates
// no Go memory unless it fails.
func (f *Function) Call(args ...int64) (int64, error) {
	var first *C.int64_t
	if len(args) > 0 {
		first = (*C.int64_t)(&args[0])
	}
	r := C.cx_py_call(f.object, first, C.int(len(args)))
	if r.failed != 0 {
		return 0, failure(r)
	}
	return int64(r.number), nil
}

// Text calls the function with a string and returns its string result, empty for None.
func (f *Function) Text(arg string) (string, error) {
	carg := C.CString(arg)
	defer C.free(unsafe.Pointer(carg))
	var r C.cx_result
	keepSignals(func() { r = C.cx_py_text(f.object, carg, C.size_t(len(arg))) })
	if err := failure(r); err != nil {
		return "", err
	}
	defer C.free(unsafe.Pointer(r.text))
	return C.GoStringN(r.text, C.int(r.bytes)), nil
}

// Exception is an exception that Python code raised. Its traceback is in the log of the process. Its
// message comes from the library and is private.
type Exception struct {
	Type    string
	Message string // on one line
	Place   string // file:line of the innermost call; empty if unknown
	cause   error  // error that a callback returned during the call, or nil
}

func (e *Exception) Error() string {
	text := e.Type
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.Place != "" {
		text += " (" + e.Place + ")"
	}
	return text
}

// Unwrap returns the error of the callback that failed during the call, or nil.
func (e *Exception) Unwrap() error { return e.cause }

// failure is the exception of a call, or nil.
func failure(r C.cx_result) error {
	cause := callbacks.takeFailure()
	if r.failed == 0 {
		return nil
	}
	defer C.free(unsafe.Pointer(r.text))
	e := &Exception{Type: "Exception", cause: cause}
	if r.text != nil {
		parts := strings.SplitN(C.GoStringN(r.text, C.int(r.bytes)), "\n", 3)
		if len(parts) == 3 {
			e.Type, e.Message, e.Place = parts[0], parts[1], parts[2]
		} else {
			e.Message = strings.Join(parts, " ")
		}
	}
	return e
}

// Callback is a Go function that Python calls with bytes and that returns bytes. Its error becomes a
// RuntimeError in Python. If that exception ends the call from Go, the returned Exception wraps the
// error.
type Callback func(arg []byte) ([]byte, error)

// callbackTable holds the callbacks of this process.
type callbackTable struct {
	mu      sync.Mutex
	all     []Callback
	failure error // of the last callback that failed in the current call
}

var callbacks callbackTable

func (t *callbackTable) takeFailure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.failure
	t.failure = nil
	return err
}

// Define makes f callable as name in a module.
func (i *Interpreter) Define(module, name string, f Callback) error {
	callbacks.mu.Lock()
	number := len(callbacks.all)
	callbacks.all = append(callbacks.all, f)
	callbacks.mu.Unlock()
	cmodule, cname := C.CString(modulePrefix+module), C.CString(name)
	defer C.free(unsafe.Pointer(cmodule))
	defer C.free(unsafe.Pointer(cname))
	return failure(C.cx_py_callback(cmodule, cname, C.int64_t(number)))
}

//export cxPythonCallback
func cxPythonCallback(number C.int64_t, data *C.char, bytes C.size_t) (*C.char, C.size_t, C.int) {
	callbacks.mu.Lock()
	f := callbacks.all[number]
	callbacks.mu.Unlock()
	out, err := guarded(f, C.GoBytes(unsafe.Pointer(data), C.int(bytes)))
	if err != nil {
		callbacks.mu.Lock()
		callbacks.failure = err
		callbacks.mu.Unlock()
		return C.CString(err.Error()), 0, 1
	}
	return (*C.char)(C.CBytes(out)), C.size_t(len(out)), 0
}

// guarded calls f and returns a panic as an error, since a panic must not unwind through Python.
func guarded(f Callback, arg []byte) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			buf := make([]byte, 4096)
			err = fmt.Errorf("panic: %v: %s", p, buf[:runtime.Stack(buf, false)])
		}
	}()
	return f(arg)
}
