// Package nccl calls libraries with the C interface of NCCL: NCCL, RCCL and MSCCL++. It opens
// them at run time. The symbols of a library, not its version, determine what it supports.
package nccl

/*
#include <stdlib.h>
#include "abi.h"

static int cx_GetVersion(const cx_nccl *f, int *v) { return f->GetVersion(v); }
static int cx_GetUniqueId(const cx_nccl *f, cx_nccl_id *id) { return f->GetUniqueId(id); }
static const char *cx_GetLastError(const cx_nccl *f) { return f->GetLastError(NULL); }
*/
import "C"

import (
	"cmp"
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

// Kind names an implementation.
type Kind string

// The implementations.
const (
	NCCL    Kind = "nccl"
	RCCL    Kind = "rccl"
	MSCCLPP Kind = "mscclpp"
)

var searches = map[Kind]dl.Search{
	NCCL: {What: "NCCL", Env: "CX_NCCL_LIB", Names: []string{
		"libnccl.so.2", "/usr/lib/*-linux-gnu/libnccl.so.2", "/usr/local/lib/libnccl.so.2",
	}, Missing: "libnccl.so.2 is neither on the loader's path, nor in /usr/lib or /usr/local/lib, nor in a wheel of python3 on PATH; run pip install nvidia-nccl-cu13"},
	RCCL: {What: "RCCL", Env: "CX_RCCL_LIB", Names: []string{
		"librccl.so.1", "/opt/rocm/lib/librccl.so.1", "/opt/rocm-*/lib/librccl.so.1",
	}},
	// The installed file has no RUNPATH, so the libraries beside it must be opened first.
	MSCCLPP: {What: "MSCCL++", Env: "CX_MSCCLPP_LIB", Names: []string{
		"libmscclpp_nccl.so.0", "/usr/lib/libmscclpp_nccl.so.0", "/usr/local/lib/libmscclpp_nccl.so.0",
		"/usr/local/mscclpp/lib/libmscclpp_nccl.so.0", "/opt/mscclpp/lib/libmscclpp_nccl.so.0",
	}, Beside: []string{"libmscclpp.so.0", "libmscclpp_collectives.so.0"}},
}

// inWheels are the paths of libraries in their installed wheels, below the directory of packages.
var inWheels = map[Kind]string{NCCL: "nvidia/nccl/lib/libnccl.so.2"}

// Variable returns the environment variable that names the library of a kind.
func (k Kind) Variable() string { return searches[k].Env }

// IDBytes is the size of a unique id.
const IDBytes = 128

// ID is a unique id, which the ranks of one communicator share.
type ID [IDBytes]byte

// Library is a loaded library.
type Library struct {
	dl.File
	lib   *dl.Library
	table *C.cx_nccl
	// Kind is the implementation, as determined from the library itself.
	Kind Kind
	// Version is the code that ncclGetVersion returned.
	Version Version
	has     map[string]bool
}

// ErrNotKind is wrapped by the error of Open for a library of another kind than requested.
var ErrNotKind = errors.New("another library")

// Open opens the library of a kind, at the path in its environment variable, where the loader finds
// it or, last, in a wheel among the packages of python3 on PATH.
func Open(kind Kind) (*Library, error) {
	search, ok := searches[kind]
	if !ok {
		return nil, fmt.Errorf("unknown kind of NCCL library %q", kind)
	}
	lib, err := searchAlsoWheels(kind, search)
	if err != nil {
		return nil, err
	}
	l, err := bind(lib)
	if err != nil {
		if _, none := lib.Symbol(required[0]); none != nil {
			err = fmt.Errorf("%w: it is not the %s library", none, search.What)
		}
		return nil, search.Unusable(err)
	}
	if l.Kind != kind {
		return nil, search.Unusable(fmt.Errorf("%w: %s is %s %s", ErrNotKind, filepath.Base(lib.Path()), l.Kind, l.VersionString()))
	}
	if err := l.lacks(core[kind]...); err != nil {
		return nil, search.Unusable(err)
	}
	if kind == MSCCLPP {
		return l, nil
	}
	if err := netPlugin(); err != nil {
		return nil, err
	}
	return l, nil
}

// netPlugin returns an error if NCCL_NET_PLUGIN names plugins, and the loader finds none of them. The
// library would use sockets or InfiniBand instead.
func netPlugin() error {
	const variable = "NCCL_NET_PLUGIN"
	list := os.Getenv(variable)
	if list == "" || list == "none" {
		return nil
	}
	for name := range strings.SplitSeq(list, ",") {
		for _, file := range []string{name, "libnccl-net-" + name + ".so"} {
			if plugin, err := dl.Open(file); err == nil {
				return plugin.Close()
			}
		}
	}
	return fmt.Errorf("%s is %q, but there is no such plugin (libnccl-net-NAME.so): install it, for EFA from aws-ofi-nccl, or unset the variable", variable, list)
}

// searchAlsoWheels opens a library. The search in wheels takes no longer than python3 does to start.
func searchAlsoWheels(kind Kind, search dl.Search) (*dl.Library, error) {
	if wheel, ok := inWheels[kind]; ok {
		return pyhost.Packaged(context.Background(), search, wheel)
	}
	return search.Open()
}

// required are the symbols that every library of this ABI has.
var required = []string{"ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRank", "ncclCommDestroy", "ncclGroupStart", "ncclGroupEnd"}

// core are the operations that every complete library of a kind has. Other operations are
// checked when a case needs them.
var core = map[Kind][]string{
	NCCL:    {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast"},
	RCCL:    {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast"},
	MSCCLPP: {"ncclAllReduce", "ncclAllGather"},
}

// symbols returns the names of the entries of the table, in its order.
func symbols() []string {
	names := make([]string, C.cx_nccl_count())
	for i := range names {
		names[i] = C.GoString(C.cx_nccl_symbol(C.int(i)))
	}
	return names
}

func bind(lib *dl.Library) (*Library, error) {
	l := &Library{File: lib.File, lib: lib, has: map[string]bool{}}
	l.table = (*C.cx_nccl)(C.calloc(1, C.size_t(unsafe.Sizeof(C.cx_nccl{}))))
	for i, name := range symbols() {
		address, err := lib.Symbol(name)
		if err != nil {
			continue
		}
		l.has[name] = true
		C.cx_nccl_set(l.table, C.int(i), address)
	}
	if err := l.lacks(required...); err != nil {
		C.free(unsafe.Pointer(l.table))
		return nil, err
	}
	var v C.int
	if err := l.check("ncclGetVersion", -1, C.cx_GetVersion(l.table, &v)); err != nil {
		C.free(unsafe.Pointer(l.table))
		return nil, err
	}
	l.Version = Version(v)
	l.Kind = l.identify()
	return l, nil
}

// identify determines the implementation. It does not use the version, since MSCCL++ has its
// own versions, and a later one could equal a version of NCCL.
func (l *Library) identify() Kind {
	switch name := cmp.Or(l.lib.SOName(), filepath.Base(l.lib.Path())); {
	case strings.HasPrefix(name, "libmscclpp"):
		return MSCCLPP
	case strings.HasPrefix(name, "librccl"):
		return RCCL
	}
	// A renamed file is still linked with the libraries of its kind.
	if _, err := l.lib.Symbol(mscclppSymbol); err == nil {
		return MSCCLPP
	}
	if _, err := l.lib.Symbol(rcclSymbol); err == nil {
		return RCCL
	}
	return NCCL
}

const (
	mscclppSymbol = "_ZN7mscclpp7versionB5cxx11Ev" // mscclpp::version()
	rcclSymbol    = "ncclAllToAllv"                // never in NCCL
)

// Platform returns the framework whose devices the library drives, cuda or hip. MSCCL++ has
// the same name for both, so Platform checks which framework it is linked with.
func (l *Library) Platform() string {
	switch l.Kind {
	case RCCL:
		return "hip"
	case MSCCLPP:
		if _, err := l.lib.Symbol("hipInit"); err == nil {
			return "hip"
		}
	}
	return "cuda"
}

// Has reports whether the library has a symbol.
func (l *Library) Has(symbol string) bool { return l.has[symbol] }

// Need returns nil if the library has all symbols. Otherwise the error names the missing ones
// and wraps dl.ErrNoSymbol.
func (l *Library) Need(symbols ...string) error {
	if err := l.lacks(symbols...); err != nil {
		return fmt.Errorf("%w: load another library", err)
	}
	return nil
}

// lacks returns an error that names the missing symbols and wraps dl.ErrNoSymbol.
func (l *Library) lacks(symbols ...string) error {
	var names []string
	for _, name := range symbols {
		if !l.has[name] {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s in %s", dl.ErrNoSymbol, strings.Join(names, ", "), filepath.Base(l.lib.Path()))
}

// VersionString returns the version in dotted form, such as 2.28.9.
func (l *Library) VersionString() string { return l.Version.format(l.Kind) }

// Table returns the function table (cx_nccl of abi.h), for packages that call the library
// in C loops of their own.
func (l *Library) Table() unsafe.Pointer { return unsafe.Pointer(l.table) }

// NewID makes a unique id. One rank calls it and distributes the id. The other ranks with this
// id connect to the process of that rank.
func (l *Library) NewID() (ID, error) {
	var id C.cx_nccl_id
	err := l.check("ncclGetUniqueId", -1, C.cx_GetUniqueId(l.table, &id))
	return *(*ID)(unsafe.Pointer(&id)), err
}

func (l *Library) check(call string, rank int, result C.int) error {
	return l.Check(call, rank, Result(result))
}

// Check returns the *Error of a call, or nil for Success. rank is the caller's rank, or −1
// before there is a communicator.
func (l *Library) Check(call string, rank int, result Result) error {
	if result == Success {
		return nil
	}
	e := &Error{Call: call, Result: result, Rank: rank}
	if l.has["ncclGetLastError"] {
		if text := C.cx_GetLastError(l.table); text != nil {
			e.Detail = strings.Join(strings.Fields(C.GoString(text)), " ")
		}
	}
	return e
}
