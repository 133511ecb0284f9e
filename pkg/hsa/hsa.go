// Package hsa copies memory through AMD's HSA runtime. The caller selects the copy engine (SDMA), and
// the device measures the times.
package hsa

/*
#include <stdlib.h>
#include "abi.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/dl"
)

var search = dl.Search{What: "HSA runtime", Env: "CX_HSA_LIB", Names: []string{
	"libhsa-runtime64.so.1", "/opt/rocm/lib/libhsa-runtime64.so.1", "/opt/rocm-*/lib/libhsa-runtime64.so.1",
}}

// Agent is a processor that owns memory: a GPU or a host.
type Agent uint64

// Signal is a number that the runtime changes.
type Signal uint64

// Runtime is the runtime of this process, which HIP uses too.
type Runtime struct {
	dl.File
	table     *C.cx_hsa_library
	version   string
	frequency float64 // ticks of the system's clock per microsecond
	open      bool
}

// ErrNoEngine is wrapped by the error of Engines if other copies occupy all engines.
var ErrNoEngine = errors.New("no copy engine is free")

const outOfResources = 0x1008

// Open starts the runtime, at the path in CX_HSA_LIB or where the loader finds it, and enables the
// timing of copies. The error wraps dl.ErrNoLibrary, dl.ErrNoSymbol, or an error of the runtime.
func Open() (*Runtime, error) {
	lib, err := search.Open()
	if err != nil {
		return nil, err
	}
	r := &Runtime{File: lib.File, table: (*C.cx_hsa_library)(C.calloc(1, C.size_t(unsafe.Sizeof(C.cx_hsa_library{}))))}
	if err := r.start(lib); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Runtime) start(lib *dl.Library) error {
	for i := range C.cx_hsa_count() {
		address, err := lib.Symbol(C.GoString(C.cx_hsa_name(i)))
		if err != nil {
			return search.Unusable(err)
		}
		C.cx_hsa_set(r.table, i, address)
	}
	if err := r.check("hsa_init", C.cx_hsa_init(r.table)); err != nil {
		return err
	}
	r.open = true
	var major, minor C.uint16_t
	var hertz C.uint64_t
	for _, info := range []struct {
		attribute C.int
		value     unsafe.Pointer
	}{
		{C.CX_HSA_VERSION_MAJOR, unsafe.Pointer(&major)},
		{C.CX_HSA_VERSION_MINOR, unsafe.Pointer(&minor)},
		{C.CX_HSA_TIMESTAMP_FREQUENCY, unsafe.Pointer(&hertz)},
	} {
		if err := r.check("hsa_system_get_info", C.cx_hsa_system(r.table, info.attribute, info.value)); err != nil {
			return err
		}
	}
	r.version = fmt.Sprintf("%d.%d", major, minor)
	r.frequency = float64(hertz) / 1e6
	return r.check("hsa_amd_profiling_async_copy_enable", C.cx_hsa_profile(r.table))
}

// Close shuts down this use of the runtime. The library stays loaded.
func (r *Runtime) Close() error {
	var err error
	if r.open {
		err = r.check("hsa_shut_down", C.cx_hsa_shut_down(r.table))
	}
	C.free(unsafe.Pointer(r.table))
	return err
}

// Version returns the version of HSA that the runtime implements, such as 1.1.
func (r *Runtime) Version() string { return r.version }

func (r *Runtime) check(call string, status C.int) error {
	if status == 0 {
		return nil
	}
	text := fmt.Sprintf("status %#x", int(status))
	if said := C.cx_hsa_text(r.table, status); said != nil {
		text = C.GoString(said)
	}
	return fmt.Errorf("%s: %s", call, text)
}

// Memory is an allocation.
type Memory struct {
	Owner      Agent
	Base       uintptr // address for agents
	Bytes      int64
	accessible []Agent
}

// Locate returns the allocation that contains an address. It fails for memory that was not allocated
// through or registered with the runtime.
func (r *Runtime) Locate(at uintptr) (Memory, error) {
	var info C.cx_hsa_pointer_info
	var agents [C.CX_HSA_MAX_AGENTS]C.cx_hsa_agent
	var count C.uint32_t
	if err := r.check("hsa_amd_pointer_info", C.cx_hsa_locate(r.table, C.uintptr_t(at), &info, &agents[0], &count)); err != nil {
		return Memory{}, err
	}
	if info._type == 0 {
		return Memory{}, errors.New("hsa_amd_pointer_info: the address is not in memory that the HSA runtime knows")
	}
	m := Memory{Owner: Agent(info.owner.handle), Base: uintptr(info.agentBase), Bytes: int64(info.bytes)}
	for _, a := range agents[:count] {
		m.accessible = append(m.accessible, Agent(a.handle))
	}
	return m, nil
}

// Allow gives an agent access to allocation m, which begins at at. Agents with access keep it.
func (r *Runtime) Allow(a Agent, at uintptr, m Memory) error {
	if slices.Contains(m.accessible, a) {
		return nil
	}
	agents := append(slices.Clone(m.accessible), a)
	return r.check("hsa_amd_agents_allow_access", C.cx_hsa_allow(r.table, C.uint32_t(len(agents)), (*C.uint64_t)(unsafe.Pointer(&agents[0])), C.uintptr_t(at)))
}

// IsGPU reports whether an agent is a GPU.
func (r *Runtime) IsGPU(a Agent) (bool, error) {
	var kind C.int
	err := r.check("hsa_agent_get_info", C.cx_hsa_device_type(r.table, C.uint64_t(a), &kind))
	return kind == C.CX_HSA_GPU, err
}

// Engines returns the copy engines that are free to copy from the memory of agent src to the memory
// of agent dst. Each engine is a number with one bit set. The engines belong to the source if it is a
// GPU, else to the destination. If none is free, the error wraps ErrNoEngine.
func (r *Runtime) Engines(dst, src Agent) (engines []uint32, err error) {
	var mask C.uint32_t
	status := C.cx_hsa_engines(r.table, C.uint64_t(dst), C.uint64_t(src), &mask)
	err = r.check("hsa_amd_memory_copy_engine_status", status)
	if status == outOfResources {
		err = fmt.Errorf("%w: %w", ErrNoEngine, err)
	}
	for bit := uint32(1); bit != 0; bit <<= 1 {
		if uint32(mask)&bit != 0 {
			engines = append(engines, bit)
		}
	}
	return engines, err
}

// NewSignal creates a signal with an initial value.
func (r *Runtime) NewSignal(value int64) (Signal, error) {
	var s C.uint64_t
	err := r.check("hsa_signal_create", C.cx_hsa_signal_create(r.table, C.int64_t(value), &s))
	return Signal(s), err
}

// Destroy frees a signal. No copy may be using it.
func (r *Runtime) Destroy(s Signal) error {
	return r.check("hsa_signal_destroy", C.cx_hsa_signal_destroy(r.table, C.uint64_t(s)))
}

// Store sets the value of a signal.
func (r *Runtime) Store(s Signal, value int64) {
	C.cx_hsa_signal_store(r.table, C.uint64_t(s), C.int64_t(value))
}

// Load returns the value of a signal.
func (r *Runtime) Load(s Signal) int64 { return int64(C.cx_hsa_signal_load(r.table, C.uint64_t(s))) }

// Wait returns when the value of a signal is below 1. It fails if the value is negative, with which
// the runtime reports a failed copy.
func (r *Runtime) Wait(s Signal) error {
	if value := C.cx_hsa_signal_wait(r.table, C.uint64_t(s)); value < 0 {
		return fmt.Errorf("hsa_amd_memory_async_copy_on_engine: the copy failed: its signal is %d", int64(value))
	}
	return nil
}

// End is one side of a copy.
type End struct {
	At    uintptr
	Agent Agent
}

// Copy enqueues a copy on an engine. The copy starts when all signals in after are 0, and lowers done
// from 1 to 0 when it has ended.
func (r *Runtime) Copy(dst, src End, bytes int64, after []Signal, done Signal, engine uint32) error {
	return r.check("hsa_amd_memory_async_copy_on_engine", C.cx_hsa_copy(r.table,
		C.uintptr_t(dst.At), C.uint64_t(dst.Agent), C.uintptr_t(src.At), C.uint64_t(src.Agent), C.size_t(bytes),
		C.uint32_t(len(after)), (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(after))), C.uint64_t(done), C.uint32_t(engine)))
}

// Times returns when the copy that lowered signal s began and ended, in microseconds of the system's
// clock.
func (r *Runtime) Times(s Signal) (start, end float64, err error) {
	var t C.cx_hsa_copy_time
	if err := r.check("hsa_amd_profiling_get_async_copy_time", C.cx_hsa_times(r.table, C.uint64_t(s), &t)); err != nil {
		return 0, 0, err
	}
	if t.start == 0 || t.end < t.start {
		return 0, 0, fmt.Errorf("hsa_amd_profiling_get_async_copy_time: invalid times of a copy: from tick %d to tick %d", uint64(t.start), uint64(t.end))
	}
	return float64(t.start) / r.frequency, float64(t.end) / r.frequency, nil
}
