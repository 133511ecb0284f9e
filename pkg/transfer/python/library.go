package python

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/pyhost"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// given is what open takes.
type given struct {
	Rank   int `json:"rank"`
	Device int `json:"device"` // that the rank drives, if it drives one
}

// started is what open returns.
type started struct {
	Status  int64  `json:"status"`
	Version string `json:"version"`
}

// library is a library, called through a module of Python.
type library struct {
	*settings
	version string

	register, unregister, metadata, connect, disconnect, prepare, post, poll, release *pyhost.Function
}

// newLibrary starts a library in a module of its own.
func newLibrary(python *pyhost.Interpreter, b *settings, module string, to given) (*library, error) {
	l := &library{settings: b}
	requests, err := l.load(python, "requests", "requests")
	if err != nil {
		return nil, err
	}
	adapter, err := l.load(python, module, b.adapter)
	if err != nil {
		return nil, err
	}
	var open *pyhost.Function
	for name, f := range map[string]**pyhost.Function{
		"open": &open, "register": &l.register, "unregister": &l.unregister, "metadata": &l.metadata, "connect": &l.connect,
		"disconnect": &l.disconnect, "post": &l.post, "poll": &l.poll,
	} {
		if *f, err = adapter.Function(name); err != nil {
			return nil, l.coded(err)
		}
	}
	for name, f := range map[string]**pyhost.Function{"prepare": &l.prepare, "release": &l.release} {
		if *f, err = requests.Function(name); err != nil {
			return nil, l.coded(err)
		}
	}
	arg, err := json.Marshal(to)
	if err != nil {
		return nil, err
	}
	text, err := open.Text(string(arg))
	if err != nil {
		return nil, l.coded(err)
	}
	var is started
	if err := json.Unmarshal([]byte(text), &is); err != nil {
		return nil, err
	}
	l.version = is.Version
	return l, l.failed("open", is.Status)
}

// load runs an adapter as a module.
func (l *library) load(python *pyhost.Interpreter, module, adapter string) (*pyhost.Module, error) {
	source, err := adapters.ReadFile("adapters/" + adapter + ".py")
	if err != nil {
		return nil, err
	}
	m, err := python.Load(module, string(source))
	return m, l.coded(err)
}

// call calls a function that returns a status.
func (l *library) call(name string, f *pyhost.Function, args ...int64) error {
	status, err := f.Call(args...)
	if err != nil {
		return l.coded(err)
	}
	return l.failed(name, status)
}

// failed is the error of a status that is one.
func (l *library) failed(function string, status int64) error {
	if status == 0 {
		return nil
	}
	return &rank.Error{Reason: result.ReasonLibrary.With("%s %d", l.name, status), Err: fmt.Errorf("%s of %s returned %d", function, l.title, status)}
}

// coded gives an exception of Python its reason.
func (l *library) coded(err error) error {
	e, ok := errors.AsType[*pyhost.Exception](err)
	switch {
	case !ok:
		return err
	case e.Type == "ModuleNotFoundError" || e.Type == "ImportError":
		remedy := pyhost.Remedy(e.Message)
		if remedy == "" {
			remedy = fmt.Sprintf("install %s in the environment of python3 on PATH; cxrun doctor shows which that is", l.install)
		}
		return &rank.Error{Reason: result.ReasonNoLibrary.With("%s", e.Type), Err: fmt.Errorf("%s: %s", e.Message, remedy)} // the reason has the type
	default:
		return &rank.Error{Reason: result.ReasonLibrary.With("%s %s", l.name, e.Type), Err: err}
	}
}

// text calls a function that takes and returns text.
func (l *library) text(f *pyhost.Function, arg string) (string, error) {
	text, err := f.Text(arg)
	return text, l.coded(err)
}

// span is a block by what the library takes for its places in two processes.
type span struct {
	local, remote uintptr
	bytes         int64
}

// lists makes the lists of a request and returns its number.
func (l *library) lists(blocks []span) (int64, error) {
	number, err := l.prepare.Call(int64(uintptr(unsafe.Pointer(unsafe.SliceData(blocks)))), int64(len(blocks)))
	runtime.KeepAlive(blocks)
	return number, l.coded(err)
}

// start posts the blocks of a request from first on up to end, and returns their batch.
func (l *library) start(request int64, first, end int, write bool) (int64, error) {
	var op int64
	if write {
		op = 1
	}
	batch, err := l.post.Call(request, int64(first), int64(end), op)
	if err == nil && batch < 0 {
		return 0, l.failed("post", batch)
	}
	return batch, l.coded(err)
}

// ended asks for a batch, and reports whether it has ended.
func (l *library) ended(batch int64) (bool, error) {
	status, err := l.poll.Call(batch)
	switch {
	case err != nil:
		return false, l.coded(err)
	case status == 0 || status == 1:
		return status == 1, nil
	default:
		return false, l.failed("poll", status)
	}
}
