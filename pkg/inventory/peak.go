package inventory

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Peak is the raw rate of a part of the machine, before deducting the overhead of encoding and
// protocol.
type Peak struct {
	GBps   float64 // GB/s = 1e9 bytes per second
	Sum    string  // how the rate is composed
	Source string  // nvml, sysfs, or datasheet of a product
}

// NetworkPeak returns the sum of the rates of all RDMA ports of the machine in one
// direction. ok is false if there is no port, or if the rate of a port is unknown.
func (r *Reader) NetworkPeak() (p Peak, ok bool) {
	ports := 0
	for _, port := range r.ports() {
		if !port.active() {
			continue
		}
		layer := port.text("link_layer")
		var gbit float64
		_, err := fmt.Sscanf(port.text("rate"), "%f Gb/sec", &gbit)
		// A bond reports the rate of one of its ports. For other link layers (EFA),
		// some drivers report a rate that is not the port's.
		if err != nil || strings.Contains(port.adapter, "bond") || layer != "InfiniBand" && layer != "Ethernet" {
			return Peak{}, false
		}
		ports++
		p.GBps += gbit / 8
	}
	p.Sum, p.Source = fmt.Sprintf("%d active ports", ports), "sysfs"
	return p, ports > 0
}

// products has the peaks, in GB/s, of devices whose drivers do not report them, from their
// datasheets: all links of a device in one direction, and its memory.
var products = map[string]struct{ links, memory float64 }{
	"mi300x": {7 * 64, 5325},
	"mi325x": {7 * 64, 6144},
	"mi350x": {7 * 76.8, 8192},
	"mi355x": {7 * 76.8, 8192},
}

// c2c is the rate in one direction, in GB/s, of NVLink-C2C, which joins a GPU and a Grace
// processor. NVML does not list it among the NVLinks.
const c2c = 450

var grace = regexp.MustCompile(`\bG[BH][0-9]`)

// LinkPeak returns the rate at which data can leave or enter the device through all its
// links together, since a library may use NVLink or XGMI and PCIe at once. ok is false if
// the rate is unknown. It is also false for a partition of a device, since links between
// partitions are not included.
func (g *GPU) LinkPeak() (p Peak, ok bool) {
	if g.partitioned() {
		return p, false
	}
	var gen, width int
	if n, _ := fmt.Sscanf(g.PCIe, "gen%d x%d", &gen, &width); n != 2 {
		return p, false
	}
	p.GBps, p.Sum, p.Source = transfers(gen)*float64(width)/8, g.PCIe+" pcie", "nvml"
	if p.GBps == 0 {
		return p, false
	}
	add := func(gbps float64, format string, args ...any) {
		p.GBps += gbps
		p.Sum = fmt.Sprintf(format, args...) + " + " + p.Sum
	}
	switch product, listed := products[g.Model()]; {
	case g.Vendor == AMD && listed:
		p.Source = "datasheet " + g.Model()
		add(product.links, "%g xgmi", product.links)
	case g.Vendor == AMD:
		return p, false
	case g.NVLinks > 0 && g.NVLinkMBps == 0:
		return p, false
	case g.NVLinks > 0:
		add(float64(g.NVLinks*g.NVLinkMBps)/1e3, "%d x %g nvlink", g.NVLinks, float64(g.NVLinkMBps)/1e3)
	}
	if grace.MatchString(g.Product) {
		add(c2c, "%d c2c", c2c)
	}
	return p, true
}

// MemoryPeak returns the rate of the device's memory, reads and writes together. All memory
// that NVML reports makes two transfers per clock.
func (g *GPU) MemoryPeak() (p Peak, ok bool) {
	product, listed := products[g.Model()]
	switch {
	case g.partitioned():
		return p, false
	case g.Vendor == AMD && listed:
		return Peak{product.memory, "memory", "datasheet " + g.Model()}, true
	case g.Vendor != NVIDIA || g.MaxMemMHz == 0 || g.MemoryBusBits == 0:
		return p, false
	}
	return Peak{
		GBps:   2 * float64(g.MaxMemMHz) * float64(g.MemoryBusBits) / 8 / 1e3,
		Sum:    fmt.Sprintf("2 x %d MHz x %d bit", g.MaxMemMHz, g.MemoryBusBits),
		Source: "nvml",
	}, true
}

// partitioned reports whether the device is a partition of a larger one.
func (g *GPU) partitioned() bool {
	return g.Partition == "mig" || g.Vendor == AMD && g.Partition != "" && !strings.HasPrefix(g.Partition, "SPX")
}

// transfers returns the rate of a PCIe lane in gigatransfers per second; 0 for an unknown
// generation.
func transfers(generation int) float64 {
	for rate, g := range pcieGenerations {
		if g == generation {
			v, _ := strconv.ParseFloat(rate, 64)
			return v
		}
	}
	return 0
}
