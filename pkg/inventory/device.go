package inventory

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/inventory/nvml"
)

// Device is one GPU. Its methods query the driver about this device only.
type Device struct {
	gpu       GPU
	state     func() (GPUState, error)
	processes func() (pids []int, ok bool)
	busy      func() (percent int, ok bool)
	clock     func() (Clock, bool)
	close     func()
}

// Device returns the GPU at a PCI address, in any spelling. Its index is unknown, since
// other devices are not examined. The caller must call Close.
func (r *Reader) Device(address string) (*Device, error) {
	address = pciAddress(address)
	numa := r.numaNode(address)
	for i, n := range r.kfd() {
		if n.address == address {
			g := r.describeAMD(i, n)
			g.NUMANode = numa
			return &Device{
				gpu: g, state: func() (GPUState, error) { return r.amdState(i, n), nil }, close: func() {},
				processes: func() ([]int, bool) { return r.amdProcesses(n) }, busy: func() (int, bool) { return r.amdBusy(n) },
				clock: func() (Clock, bool) { return Clock{}, false }, // reading it would wait for the power firmware
			}, nil
		}
	}
	if ret := r.nvml.Init(); ret != nvml.Success {
		return nil, fmt.Errorf("NVML does not start: error %d", ret)
	}
	d, ret := r.nvml.DeviceAt(address)
	if ret != nvml.Success {
		r.nvml.Shutdown()
		return nil, fmt.Errorf("NVML does not open the device: error %d", ret)
	}
	g := describe(0, nvmlDevice{d, address})
	g.NUMANode = numa
	state := func() (GPUState, error) {
		// All supported drivers report the clock of a present device.
		if _, ret := d.ClockMHz(nvml.ClockSM); ret != nvml.Success {
			return GPUState{}, fmt.Errorf("NVML does not read the device: error %d", ret)
		}
		return nvidiaState(0, d), nil
	}
	return &Device{
		gpu: g, state: state, close: func() { r.nvml.Shutdown() },
		processes: func() ([]int, bool) { return known(d.Processes()) }, busy: func() (int, bool) { return known(d.BusyPercent()) },
		clock: func() (Clock, bool) { return nvidiaClock(d, g.MaxSMMHz) },
	}, nil
}

func known[T any](v T, ret nvml.Return) (T, bool) { return v, ret == nvml.Success }

// GPU describes the device.
func (d *Device) GPU() GPU { return d.gpu }

// State reads the state of the device.
func (d *Device) State() (GPUState, error) { return d.state() }

// Processes returns the ids of the processes that use the device, which are private; ok is false if the driver
// does not list them. In a container, they may be the host's ids, and processes outside may be missing.
func (d *Device) Processes() (pids []int, ok bool) { return d.processes() }

// BusyPercent returns the percentage of the driver's sampling period, at most a second, in which the device computed;
// ok is false if it is unknown.
func (d *Device) BusyPercent() (percent int, ok bool) { return d.busy() }

// Clock reads the SM clock, by two short queries; ok is false if the device is idle or the clock is unknown.
func (d *Device) Clock() (c Clock, ok bool) { return d.clock() }

// Close releases the driver.
func (d *Device) Close() { d.close() }

// CPUs returns the processors of the NUMA node of the device at a PCI address, or nil if
// sysfs does not report it.
func (r *Reader) CPUs(address string) []int { return r.root.NUMACPUs(r.numaNode(pciAddress(address))) }

func (r *Reader) numaNode(address string) int {
	if n, ok := r.root.Number(pciDevices, address, "numa_node"); ok && address != "" {
		return int(n)
	}
	return -1
}

// OnlineCPUs returns the processors that are online, or nil if sysfs does not report them.
func (r *Reader) OnlineCPUs() []int { return r.root.OnlineCPUs() }

// NUMANode returns the NUMA node to which all of cpus belong, or −1 if there is none.
func (r *Reader) NUMANode(cpus []int) int { return r.root.NUMANode(cpus...) }
