package inventory

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/inventory/nvml"
)

// withNVML calls read with the devices of NVML, in the order of their PCI addresses. It does
// not call read without NVML.
func (r *Reader) withNVML(m *Machine, read func([]nvmlDevice)) {
	switch ret := r.nvml.Init(); ret {
	case nvml.Success:
	case nvml.LibraryNotFound:
		return
	default:
		m.warn(fmt.Sprintf("NVML does not start: error %d", ret))
		return
	}
	defer r.nvml.Shutdown()
	count, ret := r.nvml.Count()
	if ret != nvml.Success {
		m.warn(fmt.Sprintf("NVML does not list devices: error %d", ret))
		return
	}
	var devices []nvmlDevice
	for i := range count {
		d, ret := r.nvml.Device(i)
		if ret != nvml.Success {
			m.Lost = append(m.Lost, i)
			m.warn(fmt.Sprintf("NVML does not open device %d: error %d", i, ret))
			continue
		}
		devices = append(devices, nvmlDevice{d, pciAddress(or(d.BusID()))})
	}
	slices.SortStableFunc(devices, func(a, b nvmlDevice) int { return cmp.Compare(a.address, b.address) })
	read(devices)
}

type nvmlDevice struct {
	nvml.Device
	address string
}

func (r *Reader) addNVIDIA(m *Machine) {
	r.withNVML(m, func(devices []nvmlDevice) {
		d := Driver{Vendor: NVIDIA}
		d.Version, _ = r.nvml.DriverVersion()
		if v, ret := r.nvml.CUDAVersion(); ret == nvml.Success {
			d.Runtime = fmt.Sprintf("CUDA %d.%d", v/1000, v%1000/10)
		}
		m.Drivers = append(m.Drivers, d)
		for i, device := range devices {
			m.GPUs = append(m.GPUs, describe(i, device))
		}
		m.Links = append(m.Links, nvlinks(devices)...)
	})
}

// or returns v if ret is Success, otherwise the zero value.
func or[T any](v T, ret nvml.Return) T {
	if ret != nvml.Success {
		var none T
		return none
	}
	return v
}

// describe reads one device. Fields that the driver does not report stay empty.
func describe(index int, d nvmlDevice) GPU {
	g := GPU{
		Index: index, Vendor: NVIDIA, address: d.address,
		Product:     or(d.Name()),
		PowerLimitW: or(d.PowerLimitMilliwatts()) / 1000,
		MaxSMMHz:    or(d.MaxClockMHz(nvml.ClockSM)),
		MaxMemMHz:   or(d.MaxClockMHz(nvml.ClockMem)),

		MemoryBusBits: or(d.MemoryBusBits()),
	}
	for link := range nvml.MaxNVLinks {
		active, ret := d.NVLinkActive(link)
		if ret != nvml.Success {
			break // no link has a higher number
		}
		if active {
			g.NVLinks++
			g.NVLinkMBps = or(d.NVLinkMBps(link))
		}
	}
	if total, _, ret := d.Memory(); ret == nvml.Success {
		g.MemoryBytes = total
	}
	if major, minor, ret := d.ComputeCapability(); ret == nvml.Success {
		g.Arch = fmt.Sprintf("sm_%d%d", major, minor)
	}
	if gen, width := or(d.MaxPCIeGeneration()), or(d.MaxPCIeWidth()); gen > 0 && width > 0 {
		g.PCIe = fmt.Sprintf("gen%d x%d", gen, width)
	}
	if on, ret := d.ECC(); ret == nvml.Success {
		g.ECC = map[bool]string{false: "off", true: "on"}[on]
	}
	if on, ret := d.MIG(); ret == nvml.Success {
		g.Partition = map[bool]string{false: "no-mig", true: "mig"}[on]
	}
	return g
}

// nvlinks returns the pairs of devices that NVLink connects. An active link ends at another
// GPU or at a switch. Devices on switches reach each other through all their switch links.
func nvlinks(devices []nvmlDevice) []Link {
	at := map[string]int{}
	for i, d := range devices {
		at[d.address] = i
	}
	direct := map[[2]int]int{}
	switched := make([]int, len(devices))
	for i, d := range devices {
		for link := range nvml.MaxNVLinks {
			active, ret := d.NVLinkActive(link)
			if ret != nvml.Success {
				break // no link has a higher number
			}
			remote, ret := d.NVLinkRemoteBusID(link)
			if !active || ret != nvml.Success {
				continue
			}
			if j, ok := at[pciAddress(remote)]; ok {
				direct[[2]int{i, j}]++
			} else {
				switched[i]++
			}
		}
	}
	var links []Link
	for i := range devices {
		for j := i + 1; j < len(devices); j++ {
			if width := direct[[2]int{i, j}] + min(switched[i], switched[j]); width > 0 {
				links = append(links, Link{Vendor: NVIDIA, A: i, B: j, Kind: LinkNVLink, Width: width})
			}
		}
	}
	return links
}

// throttles has nvidia-smi's names of the bits of NVML's clock reasons. Idle is not
// throttling.
var throttles = []struct {
	bit  uint64
	name string
}{
	{nvml.ReasonApplicationClocks, "applications-clocks-setting"},
	{nvml.ReasonSWPowerCap, ThrottlePowerCap},
	{nvml.ReasonHWSlowdown, "hw-slowdown"},
	{nvml.ReasonSyncBoost, "sync-boost"},
	{nvml.ReasonSWThermal, "sw-thermal-slowdown"},
	{nvml.ReasonHWThermal, "hw-thermal-slowdown"},
	{nvml.ReasonPowerBrake, "hw-power-brake-slowdown"},
	{nvml.ReasonDisplayClock, "display-clock-setting"},
}

// settings are the clock reasons that are settings of a user.
const settings = nvml.ReasonApplicationClocks | nvml.ReasonDisplayClock

func nvidiaClock(d nvml.Device, maxMHz int) (c Clock, ok bool) {
	reasons, known := d.ClockReasons()
	mhz, read := d.ClockMHz(nvml.ClockSM)
	if known != nvml.Success || read != nvml.Success || maxMHz == 0 || reasons&nvml.ReasonIdle != 0 {
		return c, false
	}
	c.MHz = mhz
	for _, t := range throttles {
		if float64(mhz) < cappedBelow*float64(maxMHz) && reasons&^settings&t.bit != 0 {
			c.CappedBy = append(c.CappedBy, t.name)
		}
	}
	return c, true
}

func nvidiaState(index int, d nvml.Device) GPUState {
	s := GPUState{
		Index: index, Vendor: NVIDIA,
		SMMHz:          or(d.ClockMHz(nvml.ClockSM)),
		MemMHz:         or(d.ClockMHz(nvml.ClockMem)),
		TemperatureC:   or(d.TemperatureC()),
		PowerW:         or(d.PowerMilliwatts()) / 1000,
		ECCCorrected:   or(d.ECCErrors(false)),
		ECCUncorrected: or(d.ECCErrors(true)),
	}
	if _, used, ret := d.Memory(); ret == nvml.Success {
		s.MemoryUsedBytes = used
	}
	reasons, held := or(d.ClockReasons()), or(d.HeldNanos())
	s.Idle = reasons&nvml.ReasonIdle != 0
	for _, t := range throttles {
		if reasons&t.bit != 0 {
			s.Throttle = append(s.Throttle, t.name)
		}
		if nanos, counted := held[t.bit]; counted {
			s.count(t.name, nanos)
		}
	}
	return s
}
