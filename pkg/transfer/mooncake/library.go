package mooncake

import (
	_ "embed" // adapter.py
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/pyhost"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

//go:embed adapter.py
var adapter string

// library is an engine of Mooncake, called through a module of Python.
type library struct {
	version string
	port    int64 // on which the engine listens, on all interfaces

	open, register, unregister, connect, prepare, post, wait, release *pyhost.Function
}

// span is a block by its addresses in two processes.
type span struct {
	local, remote uintptr
	bytes         int64
}

// newLibrary starts an engine in a module of its own.
func newLibrary(python *pyhost.Interpreter, module string) (*library, error) {
	m, err := python.Load(module, adapter)
	if err != nil {
		return nil, coded(err)
	}
	l := &library{}
	for name, f := range map[string]**pyhost.Function{
		"open": &l.open, "register": &l.register, "unregister": &l.unregister, "connect": &l.connect,
		"prepare": &l.prepare, "post": &l.post, "wait": &l.wait, "release": &l.release,
	} {
		if *f, err = m.Function(name); err != nil {
			return nil, coded(err)
		}
	}
	text, err := l.open.Text("")
	if err != nil {
		return nil, coded(err)
	}
	var is struct {
		Status  int64  `json:"status"`
		Port    int64  `json:"port"`
		Version string `json:"version"`
	}
	if err := json.Unmarshal([]byte(text), &is); err != nil {
		return nil, err
	}
	l.version, l.port = is.Version, is.Port
	return l, failed("initialize", is.Status)
}

// call calls a function that returns a status.
func call(name string, f *pyhost.Function, args ...int64) error {
	status, err := f.Call(args...)
	if err != nil {
		return coded(err)
	}
	return failed(name, status)
}

// failed is the error of a status that is one.
func failed(function string, status int64) error {
	if status == 0 {
		return nil
	}
	return &rank.Error{Reason: result.ReasonLibrary.With("mooncake %d", status), Err: fmt.Errorf("%s of Mooncake returned %d", function, status)}
}

// coded gives an exception of Python its reason.
func coded(err error) error {
	e, ok := errors.AsType[*pyhost.Exception](err)
	switch {
	case !ok:
		return err
	case e.Type == "ModuleNotFoundError" || e.Type == "ImportError":
		return &rank.Error{Reason: result.ReasonNoLibrary.With("%s", e.Type), Err: fmt.Errorf("%w: install mooncake-transfer-engine-non-cuda in the environment of python3 on PATH; cxrun doctor shows which that is", err)}
	default:
		return &rank.Error{Reason: result.ReasonLibrary.With("mooncake %s", e.Type), Err: err}
	}
}

// lists makes the lists of a request and returns its number.
func (l *library) lists(blocks []span) (int64, error) {
	number, err := l.prepare.Call(int64(uintptr(unsafe.Pointer(unsafe.SliceData(blocks)))), int64(len(blocks)))
	runtime.KeepAlive(blocks)
	return number, coded(err)
}

// start posts the blocks of a request from first on up to end, and returns their batch.
func (l *library) start(request int64, first, end int, write bool) (int64, error) {
	var op int64
	if write {
		op = 1
	}
	batch, err := l.post.Call(request, int64(first), int64(end), op)
	if err == nil && batch == 0 {
		return 0, failed("batch_transfer_async", -1)
	}
	return batch, coded(err)
}
