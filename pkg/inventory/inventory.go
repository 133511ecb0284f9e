// Package inventory reads what accelerators and fabric a machine has and in
// what state they are: NVIDIA's from NVML, AMD's from the kernel's KFD, and
// links, NUMA and InfiniBand from sysfs. It opens no device.
//
// Every exported field of its types may be published. What names one machine
// (PCI addresses, serial numbers, UUIDs, adapter names) is read only where it is
// needed to put things together, and has no exported field.
package inventory

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/inventory/nvml"
	"github.com/collectivex/collectivex/pkg/sysfs"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Vendors.
const (
	NVIDIA = vocab.NVIDIA
	AMD    = vocab.AMD
)

// Kinds of a Link, best first.
const (
	LinkNVLink = "nvlink"
	LinkXGMI   = "xgmi"
	LinkPIX    = "pix"  // through one PCIe switch
	LinkPXB    = "pxb"  // through several PCIe switches
	LinkPHB    = "phb"  // through a PCIe host bridge
	LinkNode   = "node" // between host bridges of one NUMA node
	LinkSys    = "sys"  // between NUMA nodes
	// LinkUnknown is a pair of which sysfs says nothing.
	LinkUnknown = "unknown"
)

// Machine is the accelerators and fabric of one machine.
type Machine struct {
	Drivers []Driver `json:"drivers,omitempty"`
	GPUs    []GPU    `json:"gpus"`
	// Links has one entry for each pair of GPUs.
	Links []Link `json:"links,omitempty"`
	NICs  []NIC  `json:"nics,omitempty"`
	// Lost are the devices that NVML lists and does not open, by its own index.
	Lost []int `json:"lost,omitempty"`
	// Undriven counts, by vendor, the GPUs on the PCI bus that no driver answers for.
	Undriven map[string]int `json:"undriven,omitempty"`
	// Warnings say what could not be read; each is one line without names.
	Warnings []string `json:"warnings,omitempty"`
}

// Driver is the kernel driver of a vendor's GPUs.
type Driver struct {
	Vendor  string `json:"vendor"`
	Version string `json:"version"`           // 580.95.05; 6.12.12
	Runtime string `json:"runtime,omitempty"` // newest runtime it serves, such as CUDA 13.0
}

// GPU is one device, as it is set up. Empty and zero fields are unknown.
type GPU struct {
	Index       int    `json:"index"` // by PCI address, among those of its vendor
	Vendor      string `json:"vendor"`
	Product     string `json:"product"` // name the driver reports
	Arch        string `json:"arch"`    // sm_90, gfx942
	MemoryBytes int64  `json:"memory_bytes"`
	NUMANode    int    `json:"numa_node"`           // −1: unknown
	PCIe        string `json:"pcie,omitempty"`      // what the slot allows: gen5 x16
	ECC         string `json:"ecc,omitempty"`       // on or off
	Partition   string `json:"partition,omitempty"` // mig, no-mig; SPX/NPS1
	PowerLimitW int    `json:"power_limit_w,omitempty"`
	MaxSMMHz    int    `json:"max_sm_mhz,omitempty"`
	MaxMemMHz   int    `json:"max_mem_mhz,omitempty"`
	// NVLinks are active, each of NVLinkMBps in one direction.
	NVLinks       int `json:"nvlinks,omitempty"`
	NVLinkMBps    int `json:"nvlink_mbps,omitempty"`
	MemoryBusBits int `json:"memory_bus_bits,omitempty"`

	address string // PCI address
}

// At reports whether the GPU is the one with this PCI address, in any spelling;
// an accelerator runtime numbers devices its own way.
func (g *GPU) At(address string) bool { return g.address != "" && g.address == pciAddress(address) }

// Link is the best connection between two GPUs of the same vendor.
type Link struct {
	Vendor string `json:"vendor"`
	A      int    `json:"a"` // GPU.Index
	B      int    `json:"b"`
	Kind   string `json:"kind"`
	Width  int    `json:"width,omitempty"` // parallel links of nvlink
}

// NIC is a kind of RDMA adapter port that the machine has Count of.
type NIC struct {
	Adapter   string `json:"adapter"`    // MT4129
	LinkLayer string `json:"link_layer"` // InfiniBand or Ethernet
	Rate      string `json:"rate"`       // 400 Gb/sec (4X NDR)
	Active    bool   `json:"active"`
	Firmware  string `json:"firmware,omitempty"`
	Count     int    `json:"count"`
}

// Transport names what the GPUs of a vendor with these indices, or all of them,
// reach each other by: nvlink, xgmi or pcie. A single GPU has pcie.
func (m *Machine) Transport(vendor string, indices ...int) string {
	among := func(index int) bool { return len(indices) == 0 || slices.Contains(indices, index) }
	kind := ""
	for _, l := range m.Links {
		if l.Vendor != vendor || !among(l.A) || !among(l.B) {
			continue
		}
		switch {
		case l.Kind != LinkNVLink && l.Kind != LinkXGMI, kind != "" && kind != l.Kind:
			return "pcie"
		}
		kind = l.Kind
	}
	if kind == "" {
		return "pcie"
	}
	return kind
}

// model finds the part of a product's name that people call it by.
var model = regexp.MustCompile(`(?i)\b(MI|GB|RTX|[ABHLPTVW])[ -]?([0-9]{1,4}[A-Z]{0,2})\b`)

// Model is what people call the product: h200 of "NVIDIA H200", mi300x of "AMD
// Instinct MI300X OAM". It is lower case and without blanks.
func (g *GPU) Model() string {
	if m := model.FindStringSubmatch(g.Product); m != nil {
		return strings.ToLower(m[1] + m[2])
	}
	return strings.ToLower(strings.Join(strings.Fields(g.Product), "-"))
}

// Reader reads a machine.
type Reader struct {
	root sysfs.Root
	nvml nvml.Library
}

// New returns a reader of this machine.
func New() *Reader { return &Reader{root: sysfs.Here(), nvml: nvml.New()} }

// NewReader returns a reader of the machine whose file systems are below root
// ("sys") and whose NVIDIA driver is library.
func NewReader(root fs.FS, library nvml.Library) *Reader {
	return &Reader{root: sysfs.Root{FS: root}, nvml: library}
}

// Machine reads what there is. What cannot be read is missing, with a warning
// where it should have been there.
func (r *Reader) Machine() Machine {
	m := Machine{GPUs: []GPU{}}
	pci := r.readPCI()
	r.addNVIDIA(&m)
	r.addAMD(&m)
	for i := range m.GPUs {
		m.GPUs[i].NUMANode = pci.numaNode(m.GPUs[i].address)
	}
	m.addPCILinks(pci)
	m.NICs = r.readNICs()
	m.Undriven = pci.undriven(m.GPUs)
	return m
}

func (m *Machine) warn(text string) {
	if !slices.Contains(m.Warnings, text) {
		m.Warnings = append(m.Warnings, text)
	}
}
