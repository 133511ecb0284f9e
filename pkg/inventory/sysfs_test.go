package inventory_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/inventory"
)

// mi300x is a machine with two processors and eight MI300X, as its kernel
// shows it.
func mi300x() fstest.MapFS {
	root := fstest.MapFS{"sys/module/amdgpu/version": file("6.12.12\n")}
	nodes := "sys/class/kfd/kfd/topology/nodes/"
	for cpu := range 2 {
		root[nodes+fmt.Sprint(cpu)+"/properties"] = file("cpu_cores_count 96\nsimd_count 0\ngfx_target_version 0\n")
	}
	for i := range 8 {
		bus := []int{0x05, 0x26, 0x46, 0x65, 0x85, 0xa6, 0xc6, 0xe5}[i]
		minor := 128 + 8*i // past card10, as partitioned machines have them
		node := nodes + fmt.Sprint(9-i)
		root[node+"/properties"] = file(fmt.Sprintf(
			"cpu_cores_count 0\nsimd_count 1216\ngfx_target_version 90402\nvendor_id 4098\ndevice_id 29857\nlocation_id %d\ndomain 0\ndrm_render_minor %d\nunique_id 1234567890123456789\n",
			bus<<8, minor))
		root[node+"/mem_banks/0/properties"] = file("heap_type 1\nsize_in_bytes 206141652992\nflags 0\n")
		for to := range 8 {
			if to != i {
				root[fmt.Sprintf("%s/io_links/%d/properties", node, to)] = file(fmt.Sprintf(
					"type 11\nversion_major 0\nnode_from %d\nnode_to %d\nweight 15\n", 9-i, 9-to))
			}
		}
		root[node+"/io_links/8/properties"] = file(fmt.Sprintf("type 2\nnode_from %d\nnode_to 0\nweight 20\n", 9-i))
		card := fmt.Sprintf("sys/class/drm/renderD%d/device", minor)
		root[card+"/product_name"] = file("AMD Instinct MI300X OAM\n")
		root[card+"/unique_id"] = file("SN-1234\n")
		root[card+"/max_link_speed"] = file("32.0 GT/s PCIe\n")
		root[card+"/max_link_width"] = file("16\n")
		root[card+"/current_compute_partition"] = file("SPX\n")
		root[card+"/current_memory_partition"] = file("NPS1\n")
		root[card+"/pp_dpm_sclk"] = file("S: 132Mhz *\n0: 500Mhz\n1: 2100Mhz\n")
		root[card+"/pp_dpm_mclk"] = file("0: 900Mhz\n1: 1100Mhz\n2: 1300Mhz *\n")
		root[card+"/hwmon/hwmon7/power1_cap"] = file("750000000\n")
		root[card+"/hwmon/hwmon7/power1_input"] = file("139000000\n")
		root[card+"/hwmon/hwmon7/temp1_input"] = file("42000\n")
		root[card+"/mem_info_vram_used"] = file("297984000\n")
		root[card+"/gpu_metrics"] = &fstest.MapFile{Data: metrics(2208, 7, map[int]uint32{44: 0, 48: 1000 + uint32(i), 52: 7, 56: 0, 60: 2})}
		root[card+"/ras/umc_err_count"] = file("ue: 0\nce: 2\n")
		root[card+"/ras/gfx_err_count"] = file("ue: 1\nce: 0\n")
		root[card+"/ras/features"] = file("feature mask: 0x3fff\n")
		pciFiles(root, "0x1002", "0x120000", fmt.Sprint(i/4), fmt.Sprintf("pci0000:%02x/0000:%02x:01.1", bus-1, bus-1),
			fmt.Sprintf("0000:%02x:00.0", bus))
	}
	return root
}

// metrics is a gpu_metrics table of revision 1.content, of size bytes, with 32-bit
// values at offsets.
func metrics(size int, content byte, values map[int]uint32) []byte {
	table := make([]byte, size)
	binary.LittleEndian.PutUint16(table, uint16(size))
	table[2], table[3] = 1, content
	for at, v := range values {
		binary.LittleEndian.PutUint32(table[at:], v)
	}
	return table
}

func TestAMDThrottling(t *testing.T) {
	const card = "sys/class/drm/renderD128/device"
	for _, tt := range []struct {
		name     string
		table    []byte
		now      []string
		counters map[string]uint64
	}{
		{"MI200, hot and at its limit", metrics(120, 3, map[int]uint32{112: 1 << 1, 116: 1 << (36 - 32)}), []string{"sw-power-cap", "thermal"}, nil},
		{"MI200, at ease", metrics(120, 3, nil), nil, nil},
		{"firmware without a status", metrics(120, 3, map[int]uint32{112: ^uint32(0), 116: ^uint32(0)}), nil, nil},
		{"MI300, revision 1.6", metrics(1664, 6, map[int]uint32{36: 1, 40: 2, 44: 3, 48: 4, 52: 5}), nil, map[string]uint64{
			"prochot": 1, "sw-power-cap": 2, "socket-thermal": 3, "vr-thermal": 4, "hbm-thermal": 5,
		}},
		{"MI355X, revision 1.8", metrics(3360, 8, map[int]uint32{44: 1}), nil, map[string]uint64{
			"prochot": 1, "sw-power-cap": 0, "socket-thermal": 0, "vr-thermal": 0, "hbm-thermal": 0,
		}},
		{"revision 1.6 before its release", metrics(400, 6, map[int]uint32{36: 1}), nil, nil},
		{"revision nobody knows", metrics(64, 9, nil), nil, nil},
		{"cut short", metrics(2208, 7, nil)[:50], nil, nil},
		{"empty", []byte{}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := fstest.MapFS{
				"sys/class/kfd/kfd/topology/nodes/1/properties": file("simd_count 304\ngfx_target_version 90010\nlocation_id 256\ndrm_render_minor 128\n"),
				card + "/gpu_metrics":                           &fstest.MapFile{Data: tt.table},
			}
			s := inventory.NewReader(root, noNVML(nvml.ERROR_LIBRARY_NOT_FOUND)).State()
			require.Equal(t, tt.now, s.GPUs[0].Throttle)
			require.Equal(t, tt.counters, s.GPUs[0].ThrottleCounters)
		})
	}
}

func TestAMD(t *testing.T) {
	r := inventory.NewReader(mi300x(), noNVML(nvml.ERROR_LIBRARY_NOT_FOUND))
	m := r.Machine()
	require.Equal(t, []inventory.Driver{{Vendor: "amd", Version: "6.12.12"}}, m.Drivers)
	require.Len(t, m.GPUs, 8)
	g := m.GPUs[6]
	require.True(t, g.At("0000:C6:00.0"))
	require.Equal(t, 6, g.Index)
	require.Equal(t, "amd", g.Vendor)
	require.Equal(t, "AMD Instinct MI300X OAM", g.Product)
	require.Equal(t, "gfx942", g.Arch)
	require.EqualValues(t, 206141652992, g.MemoryBytes)
	require.Equal(t, 1, g.NUMANode)
	require.Equal(t, "gen5 x16", g.PCIe)
	require.Equal(t, "SPX/NPS1", g.Partition)
	require.Equal(t, 750, g.PowerLimitW)
	require.Equal(t, 2100, g.MaxSMMHz)
	require.Equal(t, 1300, g.MaxMemMHz)
	require.Len(t, m.Links, 28)
	for _, l := range m.Links {
		require.Equal(t, "xgmi", l.Kind)
	}
	require.Equal(t, "xgmi", m.Transport("amd"))
	require.Empty(t, m.Undriven)
	requirePublic(t, m)

	s := r.State()
	require.Len(t, s.GPUs, 8)
	require.Equal(t, inventory.GPUState{
		Index: 3, Vendor: "amd", SMMHz: 132, MemMHz: 1300, TemperatureC: 42, PowerW: 139, Idle: true, MemoryUsedBytes: 297984000,
		ThrottleCounters: map[string]uint64{"prochot": 0, "sw-power-cap": 1003, "socket-thermal": 7, "vr-thermal": 0, "hbm-thermal": 2},
		ECCCorrected:     2, ECCUncorrected: 1,
	}, s.GPUs[3])
	requirePublic(t, s)
}

// What the driver does not tell stays empty: a kernel without the vendor's own
// module, a card without sensors.
func TestAMDWithLittle(t *testing.T) {
	root := fstest.MapFS{"sys/class/kfd/kfd/topology/nodes/1/properties": file("simd_count 304\ngfx_target_version 90010\nlocation_id 256\n")}
	m := inventory.NewReader(root, noNVML(nvml.ERROR_LIBRARY_NOT_FOUND)).Machine()
	require.Equal(t, []inventory.Driver{{Vendor: "amd", Version: "in-tree"}}, m.Drivers)
	require.Len(t, m.GPUs, 1)
	require.Equal(t, "gfx90a", m.GPUs[0].Arch)
	require.Equal(t, "AMD gfx90a", m.GPUs[0].Product)
	require.Empty(t, m.GPUs[0].PCIe)
}

func TestPCILevels(t *testing.T) {
	root := fstest.MapFS{}
	for address, place := range map[string]struct{ numa, way string }{
		"0000:17:00.0": {"0", "pci0000:15/0000:15:01.0/0000:16:00.0/0000:16:01.0"},
		"0000:18:00.0": {"0", "pci0000:15/0000:15:01.0/0000:16:00.0/0000:16:02.0"},                           // same switch
		"0000:1c:00.0": {"0", "pci0000:15/0000:15:01.0/0000:16:00.0/0000:16:03.0/0000:1a:00.0/0000:1a:01.0"}, // a switch behind it
		"0000:20:00.0": {"0", "pci0000:15/0000:15:02.0"},                                                     // another port of the bridge
		"0000:30:00.0": {"0", "pci0000:2f/0000:2f:01.0"},                                                     // another bridge
		"0000:80:00.0": {"1", "pci0000:7f/0000:7f:01.0"},                                                     // the other processor
	} {
		pciFiles(root, "0x1002", "0x120000", place.numa, place.way, address)
	}
	nodes := "sys/class/kfd/kfd/topology/nodes/"
	for i, bus := range []int{0x17, 0x18, 0x1c, 0x20, 0x30, 0x80} {
		root[nodes+fmt.Sprint(i+2)+"/properties"] = file(fmt.Sprintf("simd_count 1\ngfx_target_version 90010\nlocation_id %d\n", bus<<8))
	}
	m := inventory.NewReader(root, noNVML(nvml.ERROR_LIBRARY_NOT_FOUND)).Machine()
	got := map[int]string{}
	for _, l := range m.Links {
		if l.A == 0 {
			got[l.B] = l.Kind
		}
	}
	require.Equal(t, map[int]string{1: "pix", 2: "pxb", 3: "phb", 4: "node", 5: "sys"}, got)
}

func TestInfiniBand(t *testing.T) {
	root := fstest.MapFS{}
	for i := range 10 {
		dir := fmt.Sprintf("sys/class/infiniband/mlx5_%d", i)
		port := dir + "/ports/1"
		root[dir+"/hca_type"], root[dir+"/fw_ver"] = file("MT4129\n"), file("28.39.3560\n")
		root[dir+"/node_guid"] = file("fe80:0000:0000:1234\n")
		root[port+"/link_layer"], root[port+"/rate"] = file("InfiniBand\n"), file("400 Gb/sec (4X NDR)\n")
		root[port+"/state"] = file("4: ACTIVE\n")
		if i == 9 {
			root[port+"/link_layer"], root[port+"/rate"] = file("Ethernet\n"), file("100 Gb/sec (4X EDR)\n")
			root[port+"/state"] = file("1: DOWN\n")
		}
		root[port+"/counters/port_xmit_data"] = file(fmt.Sprint(1000*i) + "\n")
		root[port+"/counters/port_rcv_data"] = file("7\n")
		root[port+"/counters/port_xmit_wait"] = file("2\n")
		root[port+"/counters/symbol_error"] = file("1\n")
		root[port+"/counters/link_downed"] = file("0\n")
	}
	r := inventory.NewReader(root, noNVML(nvml.ERROR_LIBRARY_NOT_FOUND))
	m := r.Machine()
	require.Equal(t, []inventory.NIC{
		{Adapter: "MT4129", LinkLayer: "InfiniBand", Rate: "400 Gb/sec (4X NDR)", Active: true, Firmware: "28.39.3560", Count: 9},
		{Adapter: "MT4129", LinkLayer: "Ethernet", Rate: "100 Gb/sec (4X EDR)", Firmware: "28.39.3560", Count: 1},
	}, m.NICs)
	requirePublic(t, m)
	require.Equal(t, &inventory.Fabric{
		SentBytes: 4 * 45000, ReceivedBytes: 4 * 70, WaitTicks: 20, SymbolErrors: 10,
	}, r.State().Fabric)
}

// An adapter that names itself in no known form keeps its name to itself.
func TestInfiniBandOddTexts(t *testing.T) {
	root := fstest.MapFS{
		"sys/class/infiniband/x/hca_type":           file("owned by rack 7, see 10.0.0.1\n"),
		"sys/class/infiniband/x/ports/1/link_layer": file("InfiniBand\n"),
	}
	m := inventory.NewReader(root, noNVML(nvml.ERROR_LIBRARY_NOT_FOUND)).Machine()
	require.Equal(t, []inventory.NIC{{LinkLayer: "InfiniBand", Count: 1}}, m.NICs)
}
