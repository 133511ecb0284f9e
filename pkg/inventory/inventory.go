// Package inventory reads which accelerators and fabric a machine has, and their state. It
// reads NVIDIA devices from NVML, AMD devices from the kernel's KFD, and PCIe links, NUMA
// nodes and InfiniBand from sysfs. It does not open devices.
//
// Every exported field of its types may be published. PCI addresses, serial numbers, UUIDs
// and adapter names, which identify one machine, have no exported field.
package inventory

import (
	"cmp"
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

// Kinds of a Link, fastest first.
const (
	LinkNVLink = "nvlink"
	LinkXGMI   = "xgmi"
	LinkPIX    = "pix"  // through one PCIe switch
	LinkPXB    = "pxb"  // through several PCIe switches
	LinkPHB    = "phb"  // through a PCIe host bridge
	LinkNode   = "node" // between host bridges of one NUMA node
	LinkSys    = "sys"  // between NUMA nodes
	// LinkUnknown is the kind for a pair about which sysfs reports nothing.
	LinkUnknown = "unknown"
)

// Machine is the accelerators and fabric of one machine.
type Machine struct {
	Drivers []Driver `json:"drivers,omitempty"`
	GPUs    []GPU    `json:"gpus"`
	// Links has one entry for each pair of GPUs of the same vendor.
	Links []Link `json:"links,omitempty"`
	NICs  []NIC  `json:"nics,omitempty"`
	// Lost has the NVML indices of devices that NVML lists but cannot open.
	Lost []int `json:"lost,omitempty"`
	// Undriven is the number of GPUs on the PCI bus, by vendor, for which no driver
	// responds.
	Undriven map[string]int `json:"undriven,omitempty"`
	// Warnings describe what could not be read, one line each, without names of devices.
	Warnings []string `json:"warnings,omitempty"`
}

// Driver is the kernel driver of a vendor's GPUs.
type Driver struct {
	Vendor  string `json:"vendor"`
	Version string `json:"version"`           // 580.95.05; 6.12.12
	Runtime string `json:"runtime,omitempty"` // newest runtime it supports, such as CUDA 13.0
}

// GPU is one device and its configuration. Empty and zero fields are unknown.
type GPU struct {
	Index       int    `json:"index"` // by PCI address, among the vendor's devices
	Vendor      string `json:"vendor"`
	Product     string `json:"product"` // as the driver reports it
	Arch        string `json:"arch"`    // sm_90, gfx942
	MemoryBytes int64  `json:"memory_bytes"`
	NUMANode    int    `json:"numa_node"`           // −1 if unknown
	PCIe        string `json:"pcie,omitempty"`      // maximum of the slot: gen5 x16
	ECC         string `json:"ecc,omitempty"`       // on or off
	Partition   string `json:"partition,omitempty"` // mig, no-mig; SPX/NPS1
	PowerLimitW int    `json:"power_limit_w,omitempty"`
	MaxSMMHz    int    `json:"max_sm_mhz,omitempty"`
	MaxMemMHz   int    `json:"max_mem_mhz,omitempty"`
	// NVLinks is the number of active links. Each has NVLinkMBps in one direction, in 10⁶
	// bytes per second.
	NVLinks       int `json:"nvlinks,omitempty"`
	NVLinkMBps    int `json:"nvlink_mbps,omitempty"`
	MemoryBusBits int `json:"memory_bus_bits,omitempty"`

	address string // PCI address
}

// At reports whether the GPU has this PCI address, in any spelling. Accelerator runtimes
// number devices differently.
func (g *GPU) At(address string) bool { return g.address != "" && g.address == pciAddress(address) }

// Link is the best connection between two GPUs of the same vendor.
type Link struct {
	Vendor string `json:"vendor"`
	A      int    `json:"a"` // GPU.Index
	B      int    `json:"b"`
	Kind   string `json:"kind"`
	Width  int    `json:"width,omitempty"` // parallel links of nvlink
}

// NIC is a kind of RDMA adapter port. The machine has Count ports of this kind.
type NIC struct {
	Adapter   string `json:"adapter"`    // MT4129
	LinkLayer string `json:"link_layer"` // InfiniBand or Ethernet
	Rate      string `json:"rate"`       // 400 Gb/sec (4X NDR)
	Active    bool   `json:"active"`
	Firmware  string `json:"firmware,omitempty"`
	Count     int    `json:"count"`
}

// Transport returns the transport between the GPUs of a vendor with these indices, or
// between all of them: nvlink, xgmi or pcie. For a single GPU it is pcie.
func (m *Machine) Transport(vendor string, indices ...int) string {
	among := func(index int) bool { return len(indices) == 0 || slices.Contains(indices, index) }
	kind := ""
	for _, l := range m.Links {
		if l.Vendor != vendor || !among(l.A) || !among(l.B) {
			continue
		}
		if l.Kind != LinkNVLink && l.Kind != LinkXGMI || kind != "" && kind != l.Kind {
			return "pcie"
		}
		kind = l.Kind
	}
	return cmp.Or(kind, "pcie")
}

// Model returns vocab.Model of the product.
func (g *GPU) Model() string { return vocab.Model(g.Product) }

// variants matches the words by which products of one model differ in processors, memory, power or links.
var variants = regexp.MustCompile(`(?i)\b(PCIe|NVL|MIG|Laptop|Max-Q|Ti|SUPER|Ada|Quadro|(16|24|32|40|48|64|94|96)GB|[1-7]g\.[0-9]+gb)\b`)

// Variant distinguishes devices of one model. It returns the words of the product that do, in lower case, such as pcie
// for "NVIDIA H100 PCIe", and the partition mode of a partitioned device. It returns "" for most devices.
func (g *GPU) Variant() string {
	words := variants.FindAllString(strings.ToLower(g.Product), -1)
	if g.Partition != "" && !slices.Contains(append(words, "no-mig", "spx", "spx/nps1"), strings.ToLower(g.Partition)) {
		words = append(words, strings.ToLower(g.Partition))
	}
	return strings.Join(words, " ")
}

// Reader reads the inventory and the state of a machine.
type Reader struct {
	root sysfs.Root
	nvml nvml.Library
}

// New returns a reader of this machine.
func New() *Reader { return &Reader{root: sysfs.Here(), nvml: nvml.New()} }

// NewReader returns a reader of the machine whose file systems are below root, such as "sys",
// and whose NVML is library.
func NewReader(root fs.FS, library nvml.Library) *Reader {
	return &Reader{root: sysfs.Root{FS: root}, nvml: library}
}

// Machine reads the inventory. It omits what it cannot read, and adds a warning if that should be
// present.
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
