package inventory_test

import (
	"testing"
	"testing/fstest"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/inventory"
)

func TestPeaks(t *testing.T) {
	for _, tt := range []struct {
		p            product
		link, memory float64
		sum          string
	}{
		{a100, 332, 1555.2, "12 x 25 nvlink + gen4 x16 pcie"},
		{h200, 542.116, 4916.736, "18 x 26.562 nvlink + gen5 x16 pcie"},
		{b200, 1020.25, 8183.808, "18 x 53.125 nvlink + gen5 x16 pcie"},
	} {
		g := inventory.NewReader(fstest.MapFS{}, mockLibrary{dgx(tt.p)}).Machine().GPUs[0]
		link, ok := g.LinkPeak()
		require.True(t, ok)
		require.InDelta(t, tt.link, link.GBps, 1e-9)
		require.Equal(t, tt.sum, link.Sum)
		require.Equal(t, "nvml", link.Source)
		memory, ok := g.MemoryPeak()
		require.True(t, ok)
		require.InDelta(t, tt.memory, memory.GBps, 1e-9)
	}
}

// A peak that is not known in full is no peak.
func TestNoPeak(t *testing.T) {
	whole := inventory.GPU{Vendor: inventory.NVIDIA, Product: "NVIDIA H200", PCIe: "gen5 x16", NVLinks: 18, NVLinkMBps: 26562, MaxMemMHz: 3201, MemoryBusBits: 6144}
	for name, edit := range map[string]func(*inventory.GPU){
		"rate of the links": func(g *inventory.GPU) { g.NVLinkMBps = 0 },
		"PCIe":              func(g *inventory.GPU) { g.PCIe = "" },
		"later PCIe":        func(g *inventory.GPU) { g.PCIe = "gen9 x16" },
		"part of a device":  func(g *inventory.GPU) { g.Partition = "mig" },
		"product of AMD":    func(g *inventory.GPU) { g.Vendor = inventory.AMD },
	} {
		g := whole
		edit(&g)
		_, ok := g.LinkPeak()
		require.False(t, ok, name)
	}
	whole.MemoryBusBits = 0
	_, ok := whole.MemoryPeak()
	require.False(t, ok)
}

func TestPeaksOfOtherProducts(t *testing.T) {
	mi300x := inventory.GPU{Vendor: inventory.AMD, Product: "AMD Instinct MI300X OAM", PCIe: "gen5 x16", Partition: "SPX/NPS1"}
	link, ok := mi300x.LinkPeak()
	require.True(t, ok)
	require.Equal(t, inventory.Peak{GBps: 512, Sum: "448 xgmi + gen5 x16 pcie", Source: "datasheet mi300x"}, link)
	memory, ok := mi300x.MemoryPeak()
	require.True(t, ok)
	require.Equal(t, inventory.Peak{GBps: 5325, Sum: "memory", Source: "datasheet mi300x"}, memory)
	mi300x.Partition = "CPX/NPS4"
	_, ok = mi300x.LinkPeak()
	require.False(t, ok, "the parts of a device have faster ways to each other")

	grace := inventory.GPU{Vendor: inventory.NVIDIA, Product: "NVIDIA GB200", PCIe: "gen5 x16", NVLinks: 18, NVLinkMBps: 50000}
	link, ok = grace.LinkPeak()
	require.True(t, ok)
	require.Equal(t, inventory.Peak{GBps: 1414, Sum: "450 c2c + 18 x 50 nvlink + gen5 x16 pcie", Source: "nvml"}, link)
}

func TestNetworkPeak(t *testing.T) {
	ports := func(adapter, layer, rate, state string) fstest.MapFS {
		root := fstest.MapFS{}
		for _, name := range []string{"mlx5_0", adapter} {
			port := "sys/class/infiniband/" + name + "/ports/1/"
			root[port+"link_layer"], root[port+"rate"], root[port+"state"] = file("InfiniBand\n"), file("400 Gb/sec (4X NDR)\n"), file("4: ACTIVE\n")
		}
		port := "sys/class/infiniband/" + adapter + "/ports/1/"
		root[port+"link_layer"], root[port+"rate"], root[port+"state"] = file(layer), file(rate), file(state)
		return root
	}
	for _, tt := range []struct {
		name string
		root fstest.MapFS
		want float64 // 0: none
	}{
		{"two ports", ports("mlx5_1", "Ethernet\n", "200 Gb/sec (2X HDR)\n", "4: ACTIVE\n"), 75},
		{"one is down", ports("mlx5_1", "Ethernet\n", "200 Gb/sec (2X HDR)\n", "1: DOWN\n"), 50},
		{"rate of one port of a bond", ports("mlx5_bond_0", "Ethernet\n", "200 Gb/sec (2X HDR)\n", "4: ACTIVE\n"), 0},
		{"another link layer", ports("rdmap0", "Unspecified\n", "100 Gb/sec (4X EDR)\n", "4: ACTIVE\n"), 0},
		{"no rate", ports("mlx5_1", "InfiniBand\n", "\n", "4: ACTIVE\n"), 0},
		{"no port", fstest.MapFS{}, 0},
	} {
		p, ok := inventory.NewReader(tt.root, noNVML(nvml.ERROR_LIBRARY_NOT_FOUND)).NetworkPeak()
		require.Equal(t, tt.want > 0, ok, tt.name)
		if ok {
			require.InDelta(t, tt.want, p.GBps, 1e-9, tt.name)
		}
	}
}
