package inventory

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	kfdNodes     = "sys/class/kfd/kfd/topology/nodes"
	kfdProcesses = "sys/class/kfd/kfd/proc"
	drm          = "sys/class/drm"
)

// kfdNode is a GPU in the list of the compute driver.
type kfdNode struct {
	number  string // directory
	address string
	arch    string
	memory  int64
	card    string // directory of the device in sysfs; empty if there is none
}

// kfd returns the GPUs in order of their PCI addresses.
func (r *Reader) kfd() []kfdNode {
	var nodes []kfdNode
	for _, number := range r.root.List(kfdNodes) {
		p := r.root.Counts(" ", kfdNodes, number, "properties")
		if p["simd_count"] == 0 || p["gfx_target_version"] == 0 {
			continue // a processor
		}
		// location_id is bus, device and function; see kfd_topology.c.
		location := p["location_id"]
		n := kfdNode{
			number:  number,
			address: fmt.Sprintf("%04x:%02x:%02x.%x", p["domain"], location>>8&0xff, location>>3&0x1f, location&7),
			arch:    gfx(p["gfx_target_version"]),
		}
		for _, bank := range r.root.List(kfdNodes, number, "mem_banks") {
			n.memory += int64(r.root.Counts(" ", kfdNodes, number, "mem_banks", bank, "properties")["size_in_bytes"])
		}
		if minor := p["drm_render_minor"]; minor > 0 {
			n.card = path.Join(drm, fmt.Sprintf("renderD%d", minor), "device")
		}
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b kfdNode) int { return cmp.Compare(a.address, b.address) })
	return nodes
}

// gfx formats gfx_target_version: 90402 is gfx942, 90010 is gfx90a.
func gfx(version uint64) string {
	return fmt.Sprintf("gfx%d%x%x", version/10000, version/100%100, version%100)
}

func (r *Reader) addAMD(m *Machine) {
	nodes := r.kfd()
	if len(nodes) == 0 {
		return
	}
	version := cmp.Or(r.root.Text("sys/module/amdgpu/version"), "in-tree") // the kernel's own
	m.Drivers = append(m.Drivers, Driver{Vendor: AMD, Version: version})
	for i, n := range nodes {
		m.GPUs = append(m.GPUs, r.describeAMD(i, n))
	}
	m.Links = append(m.Links, r.xgmi(nodes)...)
}

func (r *Reader) describeAMD(index int, n kfdNode) GPU {
	g := GPU{Index: index, Vendor: AMD, Arch: n.arch, MemoryBytes: n.memory, address: n.address}
	g.Product = cmp.Or(r.root.Text(n.card, "product_name"), "AMD "+n.arch)
	g.PCIe = r.pcie(n.card)
	compute, memory := r.root.Text(n.card, "current_compute_partition"), r.root.Text(n.card, "current_memory_partition")
	g.Partition = strings.Trim(compute+"/"+memory, "/")
	g.MaxSMMHz = maxClock(r.root.Text(n.card, "pp_dpm_sclk"))
	g.MaxMemMHz = maxClock(r.root.Text(n.card, "pp_dpm_mclk"))
	microwatts, _ := r.root.Number(r.hwmon(n.card), "power1_cap")
	g.PowerLimitW = int(microwatts / 1_000_000)
	return g
}

var pcieGenerations = map[string]int{"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}

func (r *Reader) pcie(card string) string {
	rate, _, _ := strings.Cut(r.root.Text(card, "max_link_speed"), " ")
	width, ok := r.root.Number(card, "max_link_width")
	gen := pcieGenerations[rate]
	if !ok || gen == 0 {
		return ""
	}
	return fmt.Sprintf("gen%d x%d", gen, width)
}

func (r *Reader) hwmon(card string) string {
	dir := path.Join(card, "hwmon")
	if names := r.root.List(dir); len(names) > 0 {
		return path.Join(dir, names[0])
	}
	return dir
}

// ioLinkXGMI is the type of a KFD link; see kfd_crat.h.
const ioLinkXGMI = 11

// xgmi returns the pairs of devices that XGMI connects, as the compute driver lists them.
func (r *Reader) xgmi(nodes []kfdNode) []Link {
	index := map[string]int{}
	for i, n := range nodes {
		index[n.number] = i
	}
	var links []Link
	for a, n := range nodes {
		for _, link := range r.root.List(kfdNodes, n.number, "io_links") {
			p := r.root.Counts(" ", kfdNodes, n.number, "io_links", link, "properties")
			b, ok := index[fmt.Sprint(p["node_to"])]
			if ok && p["type"] == ioLinkXGMI && a < b {
				links = append(links, Link{Vendor: AMD, A: a, B: b, Kind: LinkXGMI})
			}
		}
	}
	return links
}

// amdProcesses returns the processes with a queue on a device. The compute driver lists every process that has
// opened it, with its queues, by the host's process ids.
func (r *Reader) amdProcesses(n kfdNode) (pids []int, ok bool) {
	if !r.root.Exists(kfdProcesses) {
		return nil, false
	}
	id := r.root.Text(kfdNodes, n.number, "gpu_id")
	for _, name := range r.root.List(kfdProcesses) {
		pid, err := strconv.Atoi(name)
		queues := path.Join(kfdProcesses, name, "queues")
		if err == nil && slices.ContainsFunc(r.root.List(queues), func(q string) bool { return r.root.Text(queues, q, "gpuid") == id }) {
			pids = append(pids, pid)
		}
	}
	return pids, true
}

func (r *Reader) amdBusy(n kfdNode) (percent int, ok bool) {
	p, ok := r.root.Number(n.card, "gpu_busy_percent")
	return int(p), ok
}

// maxClock returns the highest clock in a table of levels such as "0: 132Mhz *".
func maxClock(table string) int {
	highest := 0
	for line := range strings.Lines(table) {
		highest = max(highest, levelMHz(line))
	}
	return highest
}

// currentClock returns the clock of the current level, which has a star. sleeps reports whether it is
// the sleep level, S.
func currentClock(table string) (mhz int, sleeps bool) {
	for line := range strings.Lines(table) {
		if strings.Contains(line, "*") {
			return levelMHz(line), strings.HasPrefix(line, "S:")
		}
	}
	return 0, false
}

func levelMHz(line string) int {
	_, rest, _ := strings.Cut(line, ":")
	var mhz int
	if n, _ := fmt.Sscanf(rest, "%dMhz", &mhz); n != 1 {
		return 0
	}
	return mhz
}
