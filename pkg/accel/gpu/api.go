// Package gpu drives accelerators through the driver interface that CUDA and HIP share: the
// same functions under two sets of names. What differs between vendors (names, attribute
// numbers, version codes, compilers) is in a Vendor value, which packages cuda and hip
// supply.
package gpu

/*
#include <stdlib.h>
#include "api.h"
*/
import "C"

import (
	"unsafe"

	"github.com/collectivex/collectivex/pkg/dl"
)

// Vendor describes what is specific to one vendor's driver.
type Vendor struct {
	Name    string // nvidia, amd; becomes accel.Info.Vendor
	Driver  dl.Search
	Symbols Symbols
	Numbers Numbers
	// Hints says, by error code, what to do when Init fails. The hint for NO_DEVICE also
	// applies when the driver counts no devices.
	Hints map[int]string
	// Version formats what the version function returns, such as "CUDA 13.0".
	Version func(code int) string
	// Arch returns the architecture of a device as the compiler expects it.
	Arch func(*Driver, int) (string, error)
	// Compiler returns the run-time compiler for a driver with this version code.
	Compiler func(code int) CompilerVendor
}

// Symbols are the exported names of the functions. An empty name means that the vendor has
// no such function. Functions marked optional may also be missing from an old library.
type Symbols struct {
	Init, Version, ErrorNameOut, ErrorName string

	DeviceCount, DeviceGet, DeviceName, DeviceBusID, DeviceAttribute, DeviceProperties, CanAccessPeer string
	PrimaryRetain, PrimaryRelease, ContextSet, DeviceSet, Synchronize                                 string

	MemInfo, MemAlloc, MemFree, HostAlloc, HostFree, CopyIn, CopyOut, Copy, Set string

	StreamCreate, StreamDestroy, StreamSynchronize, StreamQuery string
	EventCreate, EventDestroy, EventRecord, EventElapsed        string

	// Optional: graphs.
	CaptureBegin, CaptureEnd, GraphInstantiate, GraphLaunch, GraphDestroy, GraphExecDestroy string
	// Optional: without it the first launch uploads.
	GraphUpload string

	ModuleLoad, ModuleUnload, ModuleFunction, Launch string

	// Optional: virtual memory management.
	VMMGranularity, VMMCreate, VMMRelease, VMMReserve, VMMAddressFree, VMMMap, VMMUnmap, VMMAccess string
}

// Numbers are the attribute numbers of a vendor.
type Numbers struct {
	Multiprocessors int
	L2Bytes         int
	VMM             int // whether the device has virtual memory management
}

// api is a filled function table and the names of its functions.
type api struct {
	table   *C.cx_gpu
	symbols Symbols
	graphs  bool
	vmm     bool
}

type binding struct {
	name string
	slot unsafe.Pointer // address of a function pointer of the table
}

// bind fills the table from lib. If lib lacks a required function, the error names it and
// wraps dl.ErrNoSymbol.
func bind(lib *dl.Library, s Symbols) (*api, error) {
	t := (*C.cx_gpu)(C.calloc(1, C.sizeof_cx_gpu))
	a := &api{table: t, symbols: s}
	required := []binding{
		{s.Init, unsafe.Pointer(&t.init)},
		{s.Version, unsafe.Pointer(&t.version)},
		{s.ErrorNameOut, unsafe.Pointer(&t.error_name_out)},
		{s.ErrorName, unsafe.Pointer(&t.error_name)},
		{s.DeviceCount, unsafe.Pointer(&t.device_count)},
		{s.DeviceGet, unsafe.Pointer(&t.device_get)},
		{s.DeviceName, unsafe.Pointer(&t.device_name)},
		{s.DeviceBusID, unsafe.Pointer(&t.device_bus_id)},
		{s.DeviceAttribute, unsafe.Pointer(&t.device_attribute)},
		{s.DeviceProperties, unsafe.Pointer(&t.device_properties)},
		{s.CanAccessPeer, unsafe.Pointer(&t.can_access_peer)},
		{s.PrimaryRetain, unsafe.Pointer(&t.primary_retain)},
		{s.PrimaryRelease, unsafe.Pointer(&t.primary_release)},
		{s.ContextSet, unsafe.Pointer(&t.context_set)},
		{s.DeviceSet, unsafe.Pointer(&t.device_set)},
		{s.Synchronize, unsafe.Pointer(&t.synchronize)},
		{s.MemInfo, unsafe.Pointer(&t.mem_info)},
		{s.MemAlloc, unsafe.Pointer(&t.mem_alloc)},
		{s.MemFree, unsafe.Pointer(&t.mem_free)},
		{s.HostAlloc, unsafe.Pointer(&t.host_alloc)},
		{s.HostFree, unsafe.Pointer(&t.host_free)},
		{s.CopyIn, unsafe.Pointer(&t.copy_in)},
		{s.CopyOut, unsafe.Pointer(&t.copy_out)},
		{s.Copy, unsafe.Pointer(&t.copy)},
		{s.Set, unsafe.Pointer(&t.set)},
		{s.StreamCreate, unsafe.Pointer(&t.stream_create)},
		{s.StreamDestroy, unsafe.Pointer(&t.stream_destroy)},
		{s.StreamSynchronize, unsafe.Pointer(&t.stream_synchronize)},
		{s.StreamQuery, unsafe.Pointer(&t.stream_query)},
		{s.EventCreate, unsafe.Pointer(&t.event_create)},
		{s.EventDestroy, unsafe.Pointer(&t.event_destroy)},
		{s.EventRecord, unsafe.Pointer(&t.event_record)},
		{s.EventElapsed, unsafe.Pointer(&t.event_elapsed)},
		{s.ModuleLoad, unsafe.Pointer(&t.module_load)},
		{s.ModuleUnload, unsafe.Pointer(&t.module_unload)},
		{s.ModuleFunction, unsafe.Pointer(&t.module_function)},
		{s.Launch, unsafe.Pointer(&t.launch)},
	}
	for _, b := range required {
		if b.name == "" {
			continue
		}
		p, err := lib.Symbol(b.name)
		if err != nil {
			C.free(unsafe.Pointer(t))
			return nil, err
		}
		*(*unsafe.Pointer)(b.slot) = p
	}
	a.graphs = bindAll(lib, []binding{
		{s.CaptureBegin, unsafe.Pointer(&t.capture_begin)},
		{s.CaptureEnd, unsafe.Pointer(&t.capture_end)},
		{s.GraphInstantiate, unsafe.Pointer(&t.graph_instantiate)},
		{s.GraphLaunch, unsafe.Pointer(&t.graph_launch)},
		{s.GraphDestroy, unsafe.Pointer(&t.graph_destroy)},
		{s.GraphExecDestroy, unsafe.Pointer(&t.graph_exec_destroy)},
	})
	bindAll(lib, []binding{{s.GraphUpload, unsafe.Pointer(&t.graph_upload)}})
	a.vmm = bindAll(lib, []binding{
		{s.VMMGranularity, unsafe.Pointer(&t.vmm_granularity)},
		{s.VMMCreate, unsafe.Pointer(&t.vmm_create)},
		{s.VMMRelease, unsafe.Pointer(&t.vmm_release)},
		{s.VMMReserve, unsafe.Pointer(&t.vmm_reserve)},
		{s.VMMAddressFree, unsafe.Pointer(&t.vmm_address_free)},
		{s.VMMMap, unsafe.Pointer(&t.vmm_map)},
		{s.VMMUnmap, unsafe.Pointer(&t.vmm_unmap)},
		{s.VMMAccess, unsafe.Pointer(&t.vmm_access)},
	})
	return a, nil
}

// bindAll fills a group of optional functions and reports whether lib has all
// of them.
func bindAll(lib *dl.Library, group []binding) bool {
	all := true
	for _, b := range group {
		p, err := lib.Symbol(b.name)
		if err != nil {
			all = false
			continue
		}
		*(*unsafe.Pointer)(b.slot) = p
	}
	return all
}

// err returns the *Error of a failed call, or nil for success.
func (a *api) err(call string, rc C.int) error {
	if rc == 0 {
		return nil
	}
	name := "unknown error"
	if s := C.cx_error_name(a.table, rc); s != nil {
		name = C.GoString(s)
	}
	return &Error{Call: call, Code: int(rc), Name: name}
}
