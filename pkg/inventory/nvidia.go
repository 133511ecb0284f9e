package inventory

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// withNVML runs read on the devices of the driver, if there is one, in order of
// their PCI addresses.
func (r *Reader) withNVML(m *Machine, read func([]nvmlDevice)) {
	switch ret := r.nvml.Init(); ret {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return
	default:
		m.warn("NVML does not start: " + nvmlError(ret))
		return
	}
	defer func() { _ = r.nvml.Shutdown() }()
	count, ret := r.nvml.DeviceGetCount()
	if ret != nvml.SUCCESS {
		m.warn("NVML does not list devices: " + nvmlError(ret))
		return
	}
	var devices []nvmlDevice
	for i := range count {
		d, ret := r.nvml.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			m.warn("NVML does not open a device: " + nvmlError(ret))
			continue
		}
		pci, _ := d.GetPciInfo()
		devices = append(devices, nvmlDevice{d, pciAddress(busID(pci))})
	}
	slices.SortStableFunc(devices, func(a, b nvmlDevice) int { return cmp.Compare(a.address, b.address) })
	read(devices)
}

type nvmlDevice struct {
	nvml.Device
	address string
}

// nvmlError spells a code without asking the library, whose text may hold names.
func nvmlError(ret nvml.Return) string { return fmt.Sprintf("error %d", ret) }

func busID(pci nvml.PciInfo) string {
	var text []byte
	for _, c := range pci.BusId {
		if c == 0 {
			break
		}
		text = append(text, byte(c))
	}
	return string(text)
}

func (r *Reader) addNVIDIA(m *Machine) {
	r.withNVML(m, func(devices []nvmlDevice) {
		d := Driver{Vendor: NVIDIA}
		d.Version, _ = r.nvml.SystemGetDriverVersion()
		if v, ret := r.nvml.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
			d.Runtime = fmt.Sprintf("CUDA %d.%d", v/1000, v%1000/10)
		}
		m.Drivers = append(m.Drivers, d)
		for i, device := range devices {
			m.GPUs = append(m.GPUs, describe(i, device))
		}
		m.Links = append(m.Links, nvlinks(devices)...)
	})
}

// describe reads one device; what the driver does not answer stays empty.
func describe(index int, d nvmlDevice) GPU {
	g := GPU{Index: index, Vendor: NVIDIA, address: d.address}
	g.Product, _ = d.GetName()
	if major, minor, ret := d.GetCudaComputeCapability(); ret == nvml.SUCCESS {
		g.Arch = fmt.Sprintf("sm_%d%d", major, minor)
	}
	if memory, ret := d.GetMemoryInfo(); ret == nvml.SUCCESS {
		g.MemoryBytes = int64(memory.Total)
	}
	gen, ret := d.GetMaxPcieLinkGeneration()
	if width, widthRet := d.GetMaxPcieLinkWidth(); ret == nvml.SUCCESS && widthRet == nvml.SUCCESS {
		g.PCIe = fmt.Sprintf("gen%d x%d", gen, width)
	}
	if current, _, ret := d.GetEccMode(); ret == nvml.SUCCESS {
		g.ECC = "off"
		if current == nvml.FEATURE_ENABLED {
			g.ECC = "on"
		}
	}
	if current, _, ret := d.GetMigMode(); ret == nvml.SUCCESS {
		g.Partition = "no-mig"
		if current == nvml.DEVICE_MIG_ENABLE {
			g.Partition = "mig"
		}
	}
	if milliwatts, ret := d.GetEnforcedPowerLimit(); ret == nvml.SUCCESS {
		g.PowerLimitW = int(milliwatts / 1000)
	}
	if mhz, ret := d.GetMaxClockInfo(nvml.CLOCK_SM); ret == nvml.SUCCESS {
		g.MaxSMMHz = int(mhz)
	}
	if mhz, ret := d.GetMaxClockInfo(nvml.CLOCK_MEM); ret == nvml.SUCCESS {
		g.MaxMemMHz = int(mhz)
	}
	return g
}

// nvlinks finds the pairs that NVLink joins. An active link ends at another GPU
// or at a switch; all that hang on switches reach each other with all their
// switch links.
func nvlinks(devices []nvmlDevice) []Link {
	at := map[string]int{}
	for i, d := range devices {
		at[d.address] = i
	}
	direct := map[[2]int]int{}
	switched := make([]int, len(devices))
	for i, d := range devices {
		for link := range nvml.NVLINK_MAX_LINKS {
			state, ret := d.GetNvLinkState(link)
			if ret != nvml.SUCCESS {
				break // no link has a higher number
			}
			if state != nvml.FEATURE_ENABLED {
				continue
			}
			remote, ret := d.GetNvLinkRemotePciInfo(link)
			if ret != nvml.SUCCESS {
				continue
			}
			if j, ok := at[pciAddress(busID(remote))]; ok {
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
