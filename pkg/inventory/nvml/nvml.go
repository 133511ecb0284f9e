// Package nvml queries NVIDIA's management library, which it opens at run time. With a
// binding whose symbols the linker resolves, a program built by a tool chain that binds
// symbols at once (-z now) would not start.
package nvml

/*
#include <stdint.h>

// nvmlPciInfo_t.
typedef struct {
	char bus_id_legacy[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
} cx_pci;

// nvmlMemory_t.
typedef struct {
	unsigned long long total, free, used;
} cx_memory;

// nvmlFieldValue_t. Only the unsigned long long of its value is read.
typedef struct {
	unsigned id, scope;
	long long timestamp, latency;
	unsigned type, ret;
	unsigned long long value;
} cx_field;

// nvmlProcessInfo_t.
typedef struct {
	unsigned pid;
	unsigned long long memory;
	unsigned gpu_instance, compute_instance;
} cx_process;

// One trampoline for each signature.
static int cx_call(void *f) { return ((int (*)(void))f)(); }
static int cx_text(void *f, char *s, unsigned cap) { return ((int (*)(char *, unsigned))f)(s, cap); }
static int cx_number(void *f, unsigned *v) { return ((int (*)(unsigned *))f)(v); }
static int cx_handle(void *f, unsigned i, uintptr_t *d) { return ((int (*)(unsigned, void **))f)(i, (void **)d); }
static int cx_handle_at(void *f, const char *id, uintptr_t *d) { return ((int (*)(const char *, void **))f)(id, (void **)d); }
static int cx_device_text(void *f, uintptr_t d, char *s, unsigned cap) { return ((int (*)(void *, char *, unsigned))f)((void *)d, s, cap); }
static int cx_device_number(void *f, uintptr_t d, unsigned *v) { return ((int (*)(void *, unsigned *))f)((void *)d, v); }
static int cx_device_pair(void *f, uintptr_t d, unsigned *v, unsigned *w) { return ((int (*)(void *, unsigned *, unsigned *))f)((void *)d, v, w); }
static int cx_device_of(void *f, uintptr_t d, unsigned of, unsigned *v) { return ((int (*)(void *, unsigned, unsigned *))f)((void *)d, of, v); }
static int cx_device_long(void *f, uintptr_t d, unsigned long long *v) { return ((int (*)(void *, unsigned long long *))f)((void *)d, v); }
static int cx_device_long_of(void *f, uintptr_t d, unsigned of, unsigned in, unsigned long long *v) {
	return ((int (*)(void *, unsigned, unsigned, unsigned long long *))f)((void *)d, of, in, v);
}
static int cx_device_memory(void *f, uintptr_t d, cx_memory *m) { return ((int (*)(void *, cx_memory *))f)((void *)d, m); }
static int cx_device_fields(void *f, uintptr_t d, int n, cx_field *v) { return ((int (*)(void *, int, cx_field *))f)((void *)d, n, v); }
static int cx_device_processes(void *f, uintptr_t d, unsigned *n, cx_process *p) { return ((int (*)(void *, unsigned *, cx_process *))f)((void *)d, n, p); }
static int cx_device_pci(void *f, uintptr_t d, cx_pci *p) { return ((int (*)(void *, cx_pci *))f)((void *)d, p); }
static int cx_device_pci_of(void *f, uintptr_t d, unsigned of, cx_pci *p) { return ((int (*)(void *, unsigned, cx_pci *))f)((void *)d, of, p); }
*/
import "C"

import (
	"slices"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/dl"
)

// Return is NVML's return code.
type Return int

// Codes that this program distinguishes.
const (
	Success          Return = 0
	notSupported     Return = 3
	insufficientSize Return = 7
	LibraryNotFound  Return = 12
	FunctionNotFound Return = 13
)

// Clock is a clock domain.
type Clock uint32

// The clocks.
const (
	ClockSM  Clock = 1
	ClockMem Clock = 2
)

// Bits of ClockReasons; see nvmlClocksEventReasons.
const (
	ReasonIdle              uint64 = 0x001
	ReasonApplicationClocks uint64 = 0x002
	ReasonSWPowerCap        uint64 = 0x004
	ReasonHWSlowdown        uint64 = 0x008
	ReasonSyncBoost         uint64 = 0x010
	ReasonSWThermal         uint64 = 0x020
	ReasonHWThermal         uint64 = 0x040
	ReasonPowerBrake        uint64 = 0x080
	ReasonDisplayClock      uint64 = 0x100
)

// MaxNVLinks is an upper limit on the number of links of a device.
const MaxNVLinks = 36

// Library is NVML. If the Return of a method is not Success, its other results are zero.
type Library interface {
	// Init initialises the library. It returns LibraryNotFound if the library is missing.
	// Each successful Init requires a Shutdown.
	Init() Return
	Shutdown() Return
	DriverVersion() (string, Return)
	// CUDAVersion returns the newest CUDA version that the driver supports: 13000 is 13.0.
	CUDAVersion() (int, Return)
	Count() (int, Return)
	Device(index int) (Device, Return)
	// DeviceAt opens only the device at a PCI address.
	DeviceAt(busID string) (Device, Return)
}

// Device is one device of the library.
type Device interface {
	Name() (string, Return)
	// BusID returns the PCI address, such as 00000000:1B:00.0.
	BusID() (string, Return)
	ComputeCapability() (major, minor int, ret Return)
	// Memory returns the total and the used memory in bytes. The used memory includes the
	// driver's own.
	Memory() (total, used int64, ret Return)
	MaxPCIeGeneration() (int, Return)
	MaxPCIeWidth() (int, Return)
	ECC() (on bool, ret Return)
	MIG() (on bool, ret Return)
	PowerLimitMilliwatts() (int, Return)
	PowerMilliwatts() (int, Return)
	MaxClockMHz(Clock) (int, Return)
	ClockMHz(Clock) (int, Return)
	TemperatureC() (int, Return)
	// ClockReasons returns, as bits, why clocks are below their maximum.
	ClockReasons() (uint64, Return)
	// HeldNanos returns how long clocks were reduced since the driver started, in
	// nanoseconds, by the bit of ClockReasons. Reasons that the driver does not count are
	// missing.
	HeldNanos() (map[uint64]uint64, Return)
	// Processes returns the ids of the processes that compute or draw on the device, also through MPS. The
	// driver may report them as the host numbers them, or leave out those of other containers.
	Processes() ([]int, Return)
	// BusyPercent returns the percentage of the last sampling period, at most a second, in which a kernel ran.
	BusyPercent() (int, Return)
	// ECCErrors returns the number of errors since the driver started.
	ECCErrors(uncorrected bool) (uint64, Return)
	// MemoryBusBits returns the width of the memory bus in bits.
	MemoryBusBits() (int, Return)
	// NVLinkMBps returns the rate of a link in one direction, in 10⁶ bytes per second.
	NVLinkMBps(link int) (int, Return)
	// NVLinkActive reports whether a link is active. It fails if the device has no link with
	// this number.
	NVLinkActive(link int) (bool, Return)
	// NVLinkRemoteBusID returns the PCI address of the device at the remote end of a link.
	NVLinkRemoteBusID(link int) (string, Return)
}

var search = dl.Search{
	What: "NVIDIA management library", Env: "CX_NVML_LIB",
	Names: []string{"libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"},
}

// library is the real NVML, opened by the first Init.
type library struct{ lib *dl.Library }

// New returns the machine's library.
func New() Library { return &library{} }

func (l *library) Init() Return {
	if l.lib == nil {
		lib, err := search.Open()
		if err != nil {
			return LibraryNotFound
		}
		l.lib = lib
	}
	return l.with("nvmlInit_v2", func(f unsafe.Pointer) C.int { return C.cx_call(f) })
}

// with calls a function if the library has it.
func (l *library) with(name string, call func(f unsafe.Pointer) C.int) Return {
	f, err := l.lib.Symbol(name)
	if err != nil {
		return FunctionNotFound
	}
	return Return(call(f))
}

func (l *library) Shutdown() Return {
	return l.with("nvmlShutdown", func(f unsafe.Pointer) C.int { return C.cx_call(f) })
}

func (l *library) DriverVersion() (string, Return) {
	var s [80]C.char
	ret := l.with("nvmlSystemGetDriverVersion", func(f unsafe.Pointer) C.int { return C.cx_text(f, &s[0], C.uint(len(s))) })
	return C.GoString(&s[0]), ret
}

func (l *library) CUDAVersion() (int, Return) { return l.number("nvmlSystemGetCudaDriverVersion_v2") }

func (l *library) Count() (int, Return) { return l.number("nvmlDeviceGetCount_v2") }

func (l *library) number(name string) (int, Return) {
	var v C.uint
	ret := l.with(name, func(f unsafe.Pointer) C.int { return C.cx_number(f, &v) })
	return int(v), ret
}

func (l *library) Device(index int) (Device, Return) {
	d := &device{library: l}
	ret := l.with("nvmlDeviceGetHandleByIndex_v2", func(f unsafe.Pointer) C.int {
		return C.cx_handle(f, C.uint(index), &d.handle)
	})
	return d, ret
}

func (l *library) DeviceAt(busID string) (Device, Return) {
	d := &device{library: l}
	id := append([]byte(busID), 0)
	ret := l.with("nvmlDeviceGetHandleByPciBusId_v2", func(f unsafe.Pointer) C.int {
		return C.cx_handle_at(f, (*C.char)(unsafe.Pointer(&id[0])), &d.handle)
	})
	return d, ret
}

type device struct {
	*library
	handle C.uintptr_t
}

func (d *device) Name() (string, Return) {
	var s [96]C.char
	ret := d.with("nvmlDeviceGetName", func(f unsafe.Pointer) C.int { return C.cx_device_text(f, d.handle, &s[0], C.uint(len(s))) })
	return C.GoString(&s[0]), ret
}

func (d *device) BusID() (string, Return) {
	var p C.cx_pci
	ret := d.with("nvmlDeviceGetPciInfo_v3", func(f unsafe.Pointer) C.int { return C.cx_device_pci(f, d.handle, &p) })
	return C.GoString(&p.bus_id[0]), ret
}

func (d *device) ComputeCapability() (major, minor int, ret Return) {
	return d.pair("nvmlDeviceGetCudaComputeCapability")
}

func (d *device) Memory() (total, used int64, ret Return) {
	var m C.cx_memory
	ret = d.with("nvmlDeviceGetMemoryInfo", func(f unsafe.Pointer) C.int { return C.cx_device_memory(f, d.handle, &m) })
	return int64(m.total), int64(m.used), ret
}

func (d *device) MaxPCIeGeneration() (int, Return) {
	return d.value("nvmlDeviceGetMaxPcieLinkGeneration")
}
func (d *device) MaxPCIeWidth() (int, Return) { return d.value("nvmlDeviceGetMaxPcieLinkWidth") }

func (d *device) ECC() (bool, Return) {
	current, _, ret := d.pair("nvmlDeviceGetEccMode")
	return current == 1, ret
}

func (d *device) MIG() (bool, Return) {
	current, _, ret := d.pair("nvmlDeviceGetMigMode")
	return current == 1, ret
}

func (d *device) PowerLimitMilliwatts() (int, Return) {
	return d.value("nvmlDeviceGetEnforcedPowerLimit")
}
func (d *device) PowerMilliwatts() (int, Return) { return d.value("nvmlDeviceGetPowerUsage") }

func (d *device) MaxClockMHz(c Clock) (int, Return) {
	return d.valueOf("nvmlDeviceGetMaxClockInfo", int(c))
}

func (d *device) ClockMHz(c Clock) (int, Return) { return d.valueOf("nvmlDeviceGetClockInfo", int(c)) }

const sensorGPU = 0

func (d *device) TemperatureC() (int, Return) {
	return d.valueOf("nvmlDeviceGetTemperature", sensorGPU)
}

func (d *device) ClockReasons() (uint64, Return) {
	// Before driver 535, the function had the second name.
	for _, name := range []string{"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"} {
		var v C.ulonglong
		ret := d.with(name, func(f unsafe.Pointer) C.int { return C.cx_device_long(f, d.handle, &v) })
		if ret != FunctionNotFound {
			return uint64(v), ret
		}
	}
	return 0, FunctionNotFound
}

// heldFields are the counters for HeldNanos; see NVML_FI_DEV_PERF_POLICY and
// NVML_FI_DEV_CLOCKS_EVENT_REASON in nvml.h. Drivers before 575 have a single counter for
// all effects of heat. Of two fields with the same bit, the last one that the driver reports
// is used.
var heldFields = []struct {
	id  C.uint
	bit uint64
}{
	{74, ReasonSWPowerCap},
	{75, ReasonSWThermal},
	{76, ReasonSyncBoost},
	{269, ReasonSWThermal},
	{270, ReasonHWThermal},
	{271, ReasonPowerBrake},
}

func (d *device) HeldNanos() (map[uint64]uint64, Return) {
	fields := make([]C.cx_field, len(heldFields))
	for i, f := range heldFields {
		fields[i].id = f.id
	}
	ret := d.with("nvmlDeviceGetFieldValues", func(f unsafe.Pointer) C.int {
		return C.cx_device_fields(f, d.handle, C.int(len(fields)), &fields[0])
	})
	if ret != Success {
		return nil, ret
	}
	held := map[uint64]uint64{}
	for i, f := range heldFields {
		if Return(fields[i].ret) == Success {
			held[f.bit] = uint64(fields[i].value)
		}
	}
	return held, ret
}

func (d *device) ECCErrors(uncorrected bool) (uint64, Return) {
	const volatile = 0 // since the driver started
	var kind C.uint
	if uncorrected {
		kind = 1
	}
	var v C.ulonglong
	ret := d.with("nvmlDeviceGetTotalEccErrors", func(f unsafe.Pointer) C.int {
		return C.cx_device_long_of(f, d.handle, kind, volatile, &v)
	})
	return uint64(v), ret
}

// processLists are the functions that list processes of a device. All fill the same structure. Only the first is in
// every driver from 510 on.
var processLists = []string{
	"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3",
}

func (d *device) Processes() ([]int, Return) {
	var pids []int
	for i, name := range processLists {
		more, ret := d.processes(name)
		if ret == Success {
			pids = append(pids, more...)
		} else if i == 0 || ret != FunctionNotFound && ret != notSupported {
			return nil, ret
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids), Success
}

func (d *device) processes(list string) (pids []int, ret Return) {
	const maxProcesses = 1 << 12
	for length := 64; length <= maxProcesses; length *= 4 {
		found := make([]C.cx_process, length)
		n := C.uint(length)
		ret = d.with(list, func(f unsafe.Pointer) C.int { return C.cx_device_processes(f, d.handle, &n, &found[0]) })
		if ret == Success {
			for _, p := range found[:min(int(n), length)] {
				pids = append(pids, int(p.pid))
			}
		}
		if ret != insufficientSize {
			break
		}
	}
	return pids, ret
}

func (d *device) BusyPercent() (int, Return) {
	var v [2]C.uint // nvmlUtilization_t: kernels, memory
	ret := d.with("nvmlDeviceGetUtilizationRates", func(f unsafe.Pointer) C.int { return C.cx_device_number(f, d.handle, &v[0]) })
	return int(v[0]), ret
}

func (d *device) MemoryBusBits() (int, Return) { return d.value("nvmlDeviceGetMemoryBusWidth") }

// Fields of nvml.h. NVML_FI_DEV_NVLINK_GET_SPEED is for the link in the field's scope.
// NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON is for all links; drivers report it only for devices
// before Hopper. The driver writes only the four bytes of an unsigned int.
const (
	fieldNVLinkSpeed  = 164
	fieldNVLinkCommon = 90
)

func (d *device) NVLinkMBps(link int) (int, Return) {
	v, ret := d.field(C.cx_field{id: fieldNVLinkSpeed, scope: C.uint(link)})
	if ret != Success {
		return d.field(C.cx_field{id: fieldNVLinkCommon})
	}
	return v, ret
}

func (d *device) field(field C.cx_field) (int, Return) {
	ret := d.with("nvmlDeviceGetFieldValues", func(f unsafe.Pointer) C.int { return C.cx_device_fields(f, d.handle, 1, &field) })
	if ret == Success {
		ret = Return(field.ret)
	}
	return int(uint32(field.value)), ret
}

func (d *device) NVLinkActive(link int) (bool, Return) {
	v, ret := d.valueOf("nvmlDeviceGetNvLinkState", link)
	return v == 1, ret
}

func (d *device) NVLinkRemoteBusID(link int) (string, Return) {
	var p C.cx_pci
	ret := d.with("nvmlDeviceGetNvLinkRemotePciInfo_v2", func(f unsafe.Pointer) C.int {
		return C.cx_device_pci_of(f, d.handle, C.uint(link), &p)
	})
	return C.GoString(&p.bus_id[0]), ret
}

func (d *device) value(name string) (int, Return) {
	var v C.uint
	ret := d.with(name, func(f unsafe.Pointer) C.int { return C.cx_device_number(f, d.handle, &v) })
	return int(v), ret
}

func (d *device) valueOf(name string, of int) (int, Return) {
	var v C.uint
	ret := d.with(name, func(f unsafe.Pointer) C.int { return C.cx_device_of(f, d.handle, C.uint(of), &v) })
	return int(v), ret
}

func (d *device) pair(name string) (first, second int, ret Return) {
	var v, w C.uint
	ret = d.with(name, func(f unsafe.Pointer) C.int { return C.cx_device_pair(f, d.handle, &v, &w) })
	return int(v), int(w), ret
}
