package inventory

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

const pciDevices = "sys/bus/pci/devices"

type pciDevice struct {
	vendor string
	numa   int
	// vga reports whether the device drives displays. Such a device may intentionally have no
	// compute driver.
	vga bool
	// path is the path from the host bridge to the device: pci0000:15, 0000:15:01.0, …
	path []string
}

type pciBus map[string]pciDevice

var pciVendors = map[string]string{"0x10de": NVIDIA, "0x1002": AMD}

// readPCI returns the display controllers (class 03) and processing accelerators (class 12)
// of known vendors.
func (r *Reader) readPCI() pciBus {
	bus := pciBus{}
	for _, address := range r.root.List(pciDevices) {
		vendor := pciVendors[r.root.Text(pciDevices, address, "vendor")]
		class := r.root.Text(pciDevices, address, "class")
		if vendor == "" || !strings.HasPrefix(class, "0x03") && !strings.HasPrefix(class, "0x12") {
			continue
		}
		d := pciDevice{vendor: vendor, numa: r.numaNode(address), vga: strings.HasPrefix(class, "0x0300")}
		if target, err := fs.ReadLink(r.root.FS, path.Join(pciDevices, address)); err == nil {
			_, below, _ := strings.Cut(target, "devices/")
			d.path = strings.Split(below, "/")
		}
		bus[address] = d
	}
	return bus
}

// pciAddress formats an address as sysfs does: 0000:1b:00.0.
func pciAddress(s string) string {
	var domain, bus, device, function uint32
	s = strings.ToLower(strings.TrimSpace(s))
	if n, err := fmt.Sscanf(s, "%x:%x:%x.%x", &domain, &bus, &device, &function); n != 4 || err != nil {
		if n, err := fmt.Sscanf(s, "%x:%x.%x", &bus, &device, &function); n != 3 || err != nil {
			return s
		}
		domain = 0
	}
	return fmt.Sprintf("%04x:%02x:%02x.%x", domain, bus, device, function)
}

func (b pciBus) numaNode(address string) int {
	if d, ok := b[address]; ok {
		return d.numa
	}
	return -1
}

func (b pciBus) between(one, other string) string {
	x, known := b[one]
	y, alsoKnown := b[other]
	if !known || !alsoKnown {
		return LinkUnknown
	}
	shared := 0
	for shared < min(len(x.path), len(y.path)) && x.path[shared] == y.path[shared] {
		shared++
	}
	switch {
	case shared == 0 && x.numa >= 0 && x.numa == y.numa:
		return LinkNode
	case shared == 0:
		return LinkSys
	case shared == 1:
		return LinkPHB
	// Below a single switch, each side has a port and the device.
	case len(x.path)-shared <= 2 && len(y.path)-shared <= 2:
		return LinkPIX
	}
	return LinkPXB
}

// undriven counts, by vendor, the compute-only devices of vendors without any device in gpus. A
// driver that lists some devices omits the others intentionally.
func (b pciBus) undriven(gpus []GPU) map[string]int {
	var out map[string]int
	for _, d := range b {
		if d.vga || slices.ContainsFunc(gpus, func(g GPU) bool { return g.Vendor == d.vendor }) {
			continue
		}
		if out == nil {
			out = map[string]int{}
		}
		out[d.vendor]++
	}
	return out
}

// addPCILinks adds the PCIe link of each pair of GPUs of one vendor without a better link.
func (m *Machine) addPCILinks(bus pciBus) {
	for i := range m.GPUs {
		for j := i + 1; j < len(m.GPUs); j++ {
			a, b := &m.GPUs[i], &m.GPUs[j]
			if a.Vendor != b.Vendor || m.linked(a.Vendor, a.Index, b.Index) {
				continue
			}
			m.Links = append(m.Links, Link{Vendor: a.Vendor, A: a.Index, B: b.Index, Kind: bus.between(a.address, b.address)})
		}
	}
	slices.SortFunc(m.Links, func(x, y Link) int {
		return cmp.Or(-cmp.Compare(x.Vendor, y.Vendor), cmp.Compare(x.A, y.A), cmp.Compare(x.B, y.B))
	})
}

func (m *Machine) linked(vendor string, a, b int) bool {
	return slices.ContainsFunc(m.Links, func(l Link) bool { return l.Vendor == vendor && l.A == a && l.B == b })
}
