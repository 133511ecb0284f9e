package python

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/pyhost"
	"github.com/collectivex/collectivex/pkg/pyrank"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// given is the argument of an adapter's open.
type given struct {
	Rank   int `json:"rank"`
	Device int `json:"device"` // device that the rank drives, if any
	// Lane is the case's, and Protocol its name over the adapters of this machine: efa over EFA.
	Lane     string `json:"lane"`
	Protocol string `json:"protocol"`
	Address  string `json:"address"` // IPv4 address at which the peer reaches this process
	Filter   string `json:"filter"`  // the network device to use; empty: the library chooses
}

// started is the result of an adapter's open.
type started struct {
	Status  int64  `json:"status"`
	Version string `json:"version"`
}

// functions holds the functions of an adapter; requests holds the functions of the module that all
// adapters share.
type (
	functions struct {
		Open, Register, Unregister, Metadata, Connect, Disconnect, Post, Poll *pyhost.Function
	}
	requests struct{ Prepare, Release *pyhost.Function }
)

// library is a library, called through a module of Python.
type library struct {
	*pyrank.Library
	functions
	requests
	title   string // for messages
	version string
}

// newLibrary starts a library in its own Python module.
func newLibrary(python *pyrank.Library, s *settings, module string, to given) (*library, error) {
	l := &library{Library: python, title: s.title}
	if err := l.Load("requests", "requests", &l.requests); err != nil {
		return nil, err
	}
	if err := l.Load(module, s.adapter, &l.functions); err != nil {
		return nil, err
	}
	var is started
	if err := l.JSON(l.Open, to, &is); err != nil {
		return nil, err
	}
	l.version = is.Version
	return l, l.failed("open", is.Status)
}

// call calls a function that returns a status.
func (l *library) call(name string, f *pyhost.Function, args ...int64) error {
	status, err := l.Call(f, args...)
	if err != nil {
		return err
	}
	return l.failed(name, status)
}

// failed returns the error for a status, or nil.
func (l *library) failed(function string, status int64) error {
	if status == 0 {
		return nil
	}
	return &rank.Error{Reason: result.ReasonLibrary.With("%s %d", l.Name, status), Err: fmt.Errorf("%s of %s returned %d", function, l.title, status)}
}

// span is a block with its places, offsets or addresses, in two processes.
type span struct {
	local, remote uintptr
	bytes         int64
}

// lists creates the lists of a request and returns its number.
func (l *library) lists(blocks []span) (int64, error) {
	defer runtime.KeepAlive(blocks)
	return l.Call(l.Prepare, int64(uintptr(unsafe.Pointer(unsafe.SliceData(blocks)))), int64(len(blocks)))
}

// start posts the blocks of a request from first on up to end, and returns their batch.
func (l *library) start(request int64, first, end int, write bool) (int64, error) {
	var op int64
	if write {
		op = 1
	}
	batch, err := l.Call(l.Post, request, int64(first), int64(end), op)
	if err == nil && batch < 0 {
		return 0, l.failed("post", batch)
	}
	return batch, err
}

// ended polls a batch, and reports whether it has ended.
func (l *library) ended(batch int64) (bool, error) {
	status, err := l.Call(l.Poll, batch)
	if err == nil && status != 0 && status != 1 {
		err = l.failed("poll", status)
	}
	return status == 1 && err == nil, err
}
