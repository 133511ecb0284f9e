package nixl

/*
#include <stdlib.h>
#include "abi.h"

static int cx_nixl_metadata(const cx_nixl_library *f, const cx_nixl_agent *a, void **data, size_t *bytes) {
	return f->get_local_md(a->agent, data, bytes);
}

static int cx_nixl_disconnect(const cx_nixl_library *f, const cx_nixl_agent *a, const char *name) {
	return f->invalidate_remote_md(a->agent, name);
}

static int cx_nixl_post(const cx_nixl_library *f, const cx_nixl_agent *a, void *request) {
	return f->post_xfer_req(a->agent, request, a->args);
}

static int cx_nixl_status(const cx_nixl_library *f, const cx_nixl_agent *a, void *request) {
	return f->get_xfer_status(a->agent, request);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"unsafe"
)

// Status is the result of a function of the library, a nixl_capi_status_t; errors are negative.
type Status int

// statusNames describes the errors of nixl_capi_status_t.
var statusNames = map[Status]string{-1: "invalid parameter", -2: "backend error", -3: "invalid state", -4: "exception", -6: "not found"}

// String returns the name of the status.
func (s Status) String() string {
	if name, ok := statusNames[s]; ok {
		return name
	}
	return "unknown status"
}

// StatusError is the error of a function of the library.
type StatusError struct {
	Function string // such as create_xfer_req
	Status   Status
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("nixl_capi_%s: %s (%d)", e.Function, e.Status, int(e.Status))
}

// check returns the error of a function that returned status, or nil.
func check(function string, status C.int) error {
	if status >= C.CX_NIXL_SUCCESS {
		return nil
	}
	return &StatusError{function, Status(status)}
}

// checkCall is check for a C function that makes several calls; call is the last one.
func checkCall(call *C.char, status C.int) error { return check(C.GoString(call), status) }

// Agent is NIXL's agent in this process, with the UCX backend. Its methods may be called from one
// thread at a time.
type Agent struct {
	lib *Library
	c   *C.cx_nixl_agent
}

// NewAgent returns an agent. With progress, a thread serves the peers at any time; it inherits the
// processor affinity of the caller's thread. Otherwise only calls of Request.Done serve them.
func (l *Library) NewAgent(name string, progress bool) (*Agent, error) {
	a := &Agent{lib: l, c: (*C.cx_nixl_agent)(C.calloc(1, C.size_t(unsafe.Sizeof(C.cx_nixl_agent{}))))}
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	var call *C.char
	status := C.cx_nixl_open(l.table, cname, C.bool(progress), a.c, &call)
	if err := checkCall(call, status); err != nil {
		return nil, errors.Join(withoutPlugin(err), a.Close())
	}
	return a, nil
}

// Quiet holds environment variables that keep UCX from handling the signals of its process.
var Quiet = map[string]string{"UCX_HANDLE_ERRORS": "none", "UCX_DEBUG_SIGNO": "0"}

// PluginError returns why the plugin UCX does not open, or nil. Without it the library moves no data. The
// call sets the variables of Quiet and restores them.
func (l *Library) PluginError() error {
	for name, value := range Quiet {
		before, set := os.LookupEnv(name)
		if err := os.Setenv(name, value); err != nil {
			return err
		}
		defer func() {
			if set {
				_ = os.Setenv(name, before) // cannot fail: it was set before
			} else {
				_ = os.Unsetenv(name)
			}
		}()
	}
	var call *C.char
	status := C.cx_nixl_probe(l.table, &call)
	return withoutPlugin(checkCall(call, status))
}

// pluginVariable names the directory in which NIXL looks for its plugins, instead of the one beside it.
const pluginVariable = "NIXL_PLUGIN_DIR"

// withoutPlugin adds the searched place and a remedy to an error about the missing plugin UCX. It
// returns any other error unchanged.
func withoutPlugin(err error) error {
	var of *StatusError
	switch dir := os.Getenv(pluginVariable); {
	case !errors.As(err, &of) || of.Function != "get_plugin_params":
		return err
	case dir != "":
		return fmt.Errorf("%w: no plugin UCX that loads in %s=%s: unset it", err, pluginVariable, dir)
	default:
		return fmt.Errorf("%w: no plugin UCX that loads: install the complete NIXL wheel, with its directory plugins", err)
	}
}

// Close closes the agent. Its memory must have been deregistered and its requests released.
func (a *Agent) Close() error {
	var call *C.char
	status := C.cx_nixl_close(a.lib.table, a.c, &call)
	C.free(unsafe.Pointer(a.c))
	a.c = nil
	return checkCall(call, status)
}

// Memory is a kind of memory, and its device.
type Memory struct{ c C.cx_nixl_memory }

// Host is the memory of a process.
var Host = Memory{C.cx_nixl_memory{_type: C.CX_NIXL_DRAM}}

// Device is the memory of the GPU with this number in the process.
func Device(number int) Memory {
	return Memory{C.cx_nixl_memory{_type: C.CX_NIXL_VRAM, device: C.uint64_t(number)}}
}

// Registration is memory that peers can access.
type Registration struct {
	agent *Agent
	list  unsafe.Pointer
}

// Register makes memory accessible to peers that get the agent's metadata later. It registers the
// memory in pieces of piece bytes. A block of a request must lie inside one piece.
func (a *Agent) Register(m Memory, at uintptr, bytes, piece int64) (*Registration, error) {
	r := &Registration{agent: a}
	var call *C.char
	status := C.cx_nixl_register(a.lib.table, a.c, m.c, C.uintptr_t(at), C.size_t(bytes), C.size_t(piece), &r.list, &call)
	return r, checkCall(call, status)
}

// Close deregisters the memory.
func (r *Registration) Close() error {
	var call *C.char
	status := C.cx_nixl_deregister(r.agent.lib.table, r.agent.c, r.list, &call)
	return checkCall(call, status)
}

// Metadata returns what a peer needs to access the registered memory. It contains addresses of this
// host and is private.
func (a *Agent) Metadata() ([]byte, error) {
	var data unsafe.Pointer
	var bytes C.size_t
	if err := check("get_local_md", C.cx_nixl_metadata(a.lib.table, a.c, &data, &bytes)); err != nil {
		return nil, err
	}
	defer C.free(data)
	return C.GoBytes(data, C.int(bytes)), nil
}

// Peer is another agent, to which this one has connected.
type Peer struct {
	agent *Agent
	name  *C.char
}

// Connect connects to the agent with this metadata.
func (a *Agent) Connect(metadata []byte) (*Peer, error) {
	if len(metadata) == 0 {
		return nil, errors.New("the metadata of the peer are empty")
	}
	p := &Peer{agent: a}
	var call *C.char
	status := C.cx_nixl_connect(a.lib.table, a.c, unsafe.Pointer(&metadata[0]), C.size_t(len(metadata)), &p.name, &call)
	err := checkCall(call, status)
	if err != nil && p.name != nil {
		err = errors.Join(err, p.Close())
	}
	return p, err
}

// Close disconnects from the peer. Its requests must have been released.
func (p *Peer) Close() error {
	defer C.free(unsafe.Pointer(p.name))
	return check("invalidate_remote_md", C.cx_nixl_disconnect(p.agent.lib.table, p.agent.c, p.name))
}

// Block is a range of bytes, by its addresses in this process and in the peer.
type Block struct {
	Local, Remote uintptr
	Bytes         int64
}

// Request is a transfer to or from a peer.
type Request struct {
	agent  *Agent
	handle unsafe.Pointer
	done   bool
}

// Prepare makes a request that reads the blocks from the peer's memory, or writes them there.
// Both sides must be registered.
func (p *Peer) Prepare(write bool, here, there Memory, blocks []Block) (*Request, error) {
	op := C.int(C.CX_NIXL_READ)
	if write {
		op = C.CX_NIXL_WRITE
	}
	r := &Request{agent: p.agent}
	var call *C.char
	list := (*C.cx_nixl_block)(unsafe.Pointer(unsafe.SliceData(blocks)))
	status := C.cx_nixl_prepare(p.agent.lib.table, p.agent.c, op, p.name, here.c, there.c, list, C.size_t(len(blocks)), &r.handle, &call)
	return r, checkCall(call, status)
}

// Block and the C type have the same size.
var _ = [1]struct{}{}[unsafe.Sizeof(Block{})-unsafe.Sizeof(C.cx_nixl_block{})]

// Post starts the transfer. It is called once. Over some lanes the transfer has completed when Post
// returns.
func (r *Request) Post() error {
	status := C.cx_nixl_post(r.agent.lib.table, r.agent.c, r.handle)
	r.done = status == C.CX_NIXL_SUCCESS
	return check("post_xfer_req", status)
}

// Done reports whether the posted transfer has completed.
func (r *Request) Done() (bool, error) {
	if r.done {
		return true, nil
	}
	status := C.cx_nixl_status(r.agent.lib.table, r.agent.c, r.handle)
	r.done = status == C.CX_NIXL_SUCCESS
	return r.done, check("get_xfer_status", status)
}

// Release releases the request and cancels a transfer in flight.
func (r *Request) Release() error {
	var call *C.char
	status := C.cx_nixl_release(r.agent.lib.table, r.agent.c, r.handle, &call)
	return checkCall(call, status)
}
