package inventory_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/inventory"
	"github.com/collectivex/collectivex/pkg/provenance"
)

// product is a device as a DGX machine has it.
type product struct {
	name         string
	major, minor int
	memory       uint64
	nvlinks      int
	gen          int
	watts        uint32
	sm, mem      uint32
	link, bus    uint32 // MB/s of an NVLink, bits of the memory bus
}

var (
	a100 = product{"NVIDIA A100-SXM4-40GB", 8, 0, 40 << 30, 12, 4, 400, 1410, 1215, 25000, 5120}
	h100 = product{"NVIDIA H100 80GB HBM3", 9, 0, 80 << 30, 18, 5, 700, 1980, 2619, 26562, 5120}
	h200 = product{"NVIDIA H200", 9, 0, 141 << 30, 18, 5, 700, 1980, 3201, 26562, 6144}
	b200 = product{"NVIDIA B200", 10, 0, 180 << 30, 18, 5, 1000, 1965, 3996, 53125, 8192}
)

// secrets are what must never leave.
var secrets = []string{"GPU-", "SN-1234", "0000:", "00000000:", "mlx5_", "fe80"}

// dgx is go-nvml's machine of eight devices with what it leaves out: the answers
// of p's driver, and links to switches.
func dgx(p product) *dgxa100.Server {
	server := dgxa100.New()
	server.DriverVersion, server.CudaDriverVersion = "580.95.05", 13000
	for i, device := range server.Devices {
		d := device.(*dgxa100.Device)
		d.Name, d.MemoryInfo.Total = p.name, p.memory
		d.CudaComputeCapability.Major, d.CudaComputeCapability.Minor = p.major, p.minor
		complete(&d.Device, p, fmt.Sprintf("00000000:%02X:00.0", busOf(i)))
	}
	return server
}

// busOf spreads devices over the bus as real machines do, not in NVML's order.
func busOf(i int) int { return []int{0x1b, 0x43, 0x52, 0x61, 0x9d, 0xc3, 0xd1, 0xdf}[i] }

func complete(d *mock.Device, p product, address string) {
	d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) { return pciInfo(address), nvml.SUCCESS }
	d.GetSerialFunc = func() (string, nvml.Return) { return "SN-1234", nvml.SUCCESS }
	d.GetMaxPcieLinkGenerationFunc = func() (int, nvml.Return) { return p.gen, nvml.SUCCESS }
	d.GetMaxPcieLinkWidthFunc = func() (int, nvml.Return) { return 16, nvml.SUCCESS }
	d.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) {
		return nvml.FEATURE_ENABLED, nvml.FEATURE_ENABLED, nvml.SUCCESS
	}
	d.GetEnforcedPowerLimitFunc = func() (uint32, nvml.Return) { return p.watts * 1000, nvml.SUCCESS }
	clock := func(now bool) func(nvml.ClockType) (uint32, nvml.Return) {
		return func(c nvml.ClockType) (uint32, nvml.Return) {
			if c == nvml.CLOCK_MEM {
				return p.mem, nvml.SUCCESS
			}
			if now {
				return 345, nvml.SUCCESS
			}
			return p.sm, nvml.SUCCESS
		}
	}
	d.GetMaxClockInfoFunc, d.GetClockInfoFunc = clock(false), clock(true)
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 41, nvml.SUCCESS }
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 76_543, nvml.SUCCESS }
	d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) {
		return nvml.ClocksEventReasonGpuIdle | nvml.ClocksEventReasonSwPowerCap | nvml.ClocksThrottleReasonHwSlowdown, nvml.SUCCESS
	}
	d.GetViolationStatusFunc = func(nvml.PerfPolicyType) (nvml.ViolationTime, nvml.Return) {
		return nvml.ViolationTime{ViolationTime: 5_000_000}, nvml.SUCCESS
	}
	d.GetTotalEccErrorsFunc = func(kind nvml.MemoryErrorType, _ nvml.EccCounterType) (uint64, nvml.Return) {
		if kind == nvml.MEMORY_ERROR_TYPE_CORRECTED {
			return 3, nvml.SUCCESS
		}
		return 0, nvml.SUCCESS
	}
	d.GetMemoryBusWidthFunc = func() (uint32, nvml.Return) { return p.bus, nvml.SUCCESS }
	d.GetFieldValuesFunc = func(values []nvml.FieldValue) nvml.Return {
		if len(values) != 1 || values[0].FieldId != nvml.FI_DEV_NVLINK_GET_SPEED || int(values[0].ScopeId) >= p.nvlinks {
			return nvml.ERROR_INVALID_ARGUMENT
		}
		binary.LittleEndian.PutUint32(values[0].Value[:], p.link)
		return nvml.SUCCESS
	}
	d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
		if link >= p.nvlinks {
			return 0, nvml.ERROR_INVALID_ARGUMENT
		}
		return nvml.FEATURE_ENABLED, nvml.SUCCESS
	}
	d.GetNvLinkRemotePciInfoFunc = func(int) (nvml.PciInfo, nvml.Return) {
		return pciInfo("00000000:05:00.0"), nvml.SUCCESS // a switch
	}
}

func pciInfo(address string) nvml.PciInfo {
	var p nvml.PciInfo
	for i := range address {
		p.BusId[i] = int8(address[i])
	}
	return p
}

// noNVML is a machine without NVIDIA's driver.
func noNVML(ret nvml.Return) mockLibrary {
	return mockLibrary{&mock.Interface{
		InitFunc:     func() nvml.Return { return ret },
		ShutdownFunc: func() nvml.Return { return nvml.SUCCESS },
	}}
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func link(target string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
}

// pciFiles puts a device on the bus; way leads to it from its host bridge.
func pciFiles(root fstest.MapFS, vendor, class, numa string, way string, address string) {
	dir := "sys/devices/" + way + "/" + address
	root[dir+"/vendor"] = file(vendor + "\n")
	root[dir+"/class"] = file(class + "\n")
	root[dir+"/numa_node"] = file(numa + "\n")
	root["sys/bus/pci/devices/"+address] = link("../../../devices/" + way + "/" + address)
}

// requirePublic fails where a published form of v holds what names a machine.
func requirePublic(t *testing.T, v any) {
	t.Helper()
	out, err := json.Marshal(v)
	require.NoError(t, err)
	for _, s := range secrets {
		require.NotContains(t, string(out), s)
	}
	require.NoError(t, provenance.NewScreen().Document(out))
}

func TestDGX(t *testing.T) {
	for _, tc := range []struct {
		product product
		arch    string
		model   string
	}{{a100, "sm_80", "a100"}, {h100, "sm_90", "h100"}, {h200, "sm_90", "h200"}, {b200, "sm_100", "b200"}} {
		t.Run(tc.model, func(t *testing.T) {
			root := fstest.MapFS{}
			for i := range 8 {
				pciFiles(root, "0x10de", "0x030200", fmt.Sprint(i/4), fmt.Sprintf("pci0000:%02x/0000:%02x:01.0", busOf(i)-1, busOf(i)-1),
					fmt.Sprintf("0000:%02x:00.0", busOf(i)))
			}
			m := inventory.NewReader(root, mockLibrary{dgx(tc.product)}).Machine()
			require.Empty(t, m.Warnings)
			require.Empty(t, m.Undriven)
			require.Equal(t, []inventory.Driver{{Vendor: "nvidia", Version: "580.95.05", Runtime: "CUDA 13.0"}}, m.Drivers)
			require.Len(t, m.GPUs, 8)
			g := m.GPUs[5]
			require.Equal(t, 5, g.Index)
			require.Equal(t, tc.arch, g.Arch)
			require.Equal(t, tc.model, g.Model())
			require.Equal(t, tc.product.name, g.Product)
			require.EqualValues(t, tc.product.memory, g.MemoryBytes)
			require.Equal(t, 1, g.NUMANode)
			require.Equal(t, 0, m.GPUs[0].NUMANode)
			require.Equal(t, fmt.Sprintf("gen%d x16", tc.product.gen), g.PCIe)
			require.Equal(t, "on", g.ECC)
			require.Equal(t, "no-mig", g.Partition)
			require.EqualValues(t, tc.product.watts, g.PowerLimitW)
			require.EqualValues(t, tc.product.sm, g.MaxSMMHz)
			require.EqualValues(t, tc.product.mem, g.MaxMemMHz)

			require.Len(t, m.Links, 28, "every pair")
			for _, l := range m.Links {
				require.Equal(t, "nvlink", l.Kind)
				require.Equal(t, tc.product.nvlinks, l.Width)
				require.Less(t, l.A, l.B)
			}
			require.Equal(t, "nvlink", m.Transport("nvidia"))
			requirePublic(t, m)

			// CUDA spells addresses its own way.
			require.True(t, m.GPUs[0].At("0000:1B:00.0"))
			require.True(t, m.GPUs[0].At("1b:00.0"))
			require.False(t, m.GPUs[1].At("0000:1B:00.0"))
		})
	}
}

func TestState(t *testing.T) {
	s := inventory.NewReader(fstest.MapFS{}, mockLibrary{dgx(h200)}).State()
	require.Len(t, s.GPUs, 8)
	require.Equal(t, inventory.GPUState{
		Index: 2, Vendor: "nvidia", SMMHz: 345, MemMHz: 3201, TemperatureC: 41, PowerW: 76,
		Throttle: []string{"sw-power-cap", "hw-slowdown"}, Idle: true,
		ThrottleCounters: map[string]uint64{"sw-power-cap": 5_000_000}, ECCCorrected: 3,
	}, s.GPUs[2])
	require.Nil(t, s.Fabric)
	requirePublic(t, s)
}

func TestMIGAndUnsupportedQueries(t *testing.T) {
	server := dgx(h100)
	for _, device := range server.Devices {
		d := device.(*dgxa100.Device)
		d.MigMode = nvml.DEVICE_MIG_ENABLE
		d.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) {
			return 0, 0, nvml.ERROR_NOT_SUPPORTED
		}
		d.GetNvLinkStateFunc = func(int) (nvml.EnableState, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
		d.GetEnforcedPowerLimitFunc = func() (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	}
	m := inventory.NewReader(fstest.MapFS{}, mockLibrary{server}).Machine()
	require.Empty(t, m.Warnings)
	require.Equal(t, "mig", m.GPUs[0].Partition)
	require.Empty(t, m.GPUs[0].ECC)
	require.Zero(t, m.GPUs[0].PowerLimitW)
	require.Equal(t, -1, m.GPUs[0].NUMANode)
	require.Equal(t, "pcie", m.Transport("nvidia"))
	require.Len(t, m.Links, 28)
	require.Equal(t, "unknown", m.Links[0].Kind)
}

// Bridges join pairs: four links to one neighbour, none to the others.
func TestDirectNVLinks(t *testing.T) {
	server := dgx(a100)
	for i, device := range server.Devices {
		d := device.(*dgxa100.Device)
		d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
			if link >= 4 {
				return nvml.FEATURE_DISABLED, nvml.SUCCESS
			}
			return nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		d.GetNvLinkRemotePciInfoFunc = func(int) (nvml.PciInfo, nvml.Return) {
			return pciInfo(fmt.Sprintf("00000000:%02X:00.0", busOf(i^1))), nvml.SUCCESS
		}
	}
	m := inventory.NewReader(fstest.MapFS{}, mockLibrary{server}).Machine()
	for _, l := range m.Links {
		if l.A^1 == l.B {
			require.Equal(t, "nvlink", l.Kind)
			require.Equal(t, 4, l.Width)
		} else {
			require.Equal(t, "unknown", l.Kind)
		}
	}
	require.Equal(t, "pcie", m.Transport("nvidia"), "some pairs have nothing better")
}

func TestBrokenDriver(t *testing.T) {
	root := fstest.MapFS{}
	pciFiles(root, "0x10de", "0x030200", "0", "pci0000:00/0000:00:01.0", "0000:01:00.0")
	pciFiles(root, "0x10de", "0x030200", "0", "pci0000:00/0000:00:02.0", "0000:02:00.0")
	pciFiles(root, "0x8086", "0x030000", "0", "pci0000:00", "0000:00:02.1")              // an Intel display
	pciFiles(root, "0x1002", "0x030000", "0", "pci0000:00", "0000:00:08.1")              // an AMD display
	pciFiles(root, "0x10de", "0x040300", "0", "pci0000:00/0000:00:01.0", "0000:01:00.1") // sound
	for _, tc := range []struct {
		name     string
		ret      nvml.Return
		warnings []string
	}{
		{"no driver", nvml.ERROR_LIBRARY_NOT_FOUND, nil},
		{"driver not loaded", nvml.ERROR_DRIVER_NOT_LOADED, []string{"NVML does not start: error 9"}},
		{"versions differ", nvml.ERROR_LIB_RM_VERSION_MISMATCH, []string{"NVML does not start: error 18"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := inventory.NewReader(root, noNVML(tc.ret)).Machine()
			require.Empty(t, m.GPUs)
			require.Empty(t, m.Drivers)
			require.Equal(t, map[string]int{"nvidia": 2}, m.Undriven)
			require.Equal(t, tc.warnings, m.Warnings)
			requirePublic(t, m)
		})
	}
}

func TestNothing(t *testing.T) {
	r := inventory.NewReader(fstest.MapFS{}, noNVML(nvml.ERROR_LIBRARY_NOT_FOUND))
	m := r.Machine()
	require.Equal(t, inventory.Machine{GPUs: []inventory.GPU{}}, m)
	require.Equal(t, "pcie", m.Transport("nvidia"))
	require.Equal(t, inventory.State{}, r.State())
}

// This machine, whatever it is.
func TestThisMachine(t *testing.T) {
	r := inventory.New()
	m := r.Machine()
	requirePublic(t, m)
	s := r.State()
	requirePublic(t, s)
	require.Len(t, s.GPUs, len(m.GPUs))
	t.Logf("%+v %+v", m, s)
}

func TestVariant(t *testing.T) {
	for want, devices := range map[string][]inventory.GPU{
		"": {
			{Product: "NVIDIA H100 80GB HBM3", Partition: "no-mig"},
			{Product: "NVIDIA H200"},
			{Product: "NVIDIA GB200"},
			{Product: "NVIDIA GH200 480GB"},
			{Product: "NVIDIA B300 SXM6 AC"},
			{Product: "NVIDIA A100-SXM4-80GB"},
			{Product: "AMD Instinct MI300X OAM", Partition: "SPX/NPS1"},
			{Product: "AMD Instinct MI355X", Partition: "SPX"},
		},
		"pcie":        {{Product: "NVIDIA H100 PCIe"}},
		"nvl":         {{Product: "NVIDIA H100 NVL"}},
		"pcie 40gb":   {{Product: "NVIDIA A100-PCIE-40GB"}},
		"mig":         {{Product: "NVIDIA H200", Partition: "mig"}},
		"mig 1g.10gb": {{Product: "NVIDIA H100 80GB HBM3 MIG 1g.10gb", Partition: "mig"}},
		"cpx/nps4":    {{Product: "AMD Instinct MI300X", Partition: "CPX/NPS4"}},
		"laptop":      {{Product: "NVIDIA GeForce RTX 4090 Laptop GPU"}},
	} {
		for _, g := range devices {
			require.Equal(t, want, g.Variant(), g.Product)
		}
	}
}

func TestModel(t *testing.T) {
	for product, want := range map[string]string{
		"NVIDIA H200":               "h200",
		"NVIDIA H200 NVL":           "h200",
		"NVIDIA H100 80GB HBM3":     "h100",
		"NVIDIA GB200":              "gb200",
		"NVIDIA GB300":              "gb300",
		"NVIDIA B300 SXM6 AC":       "b300",
		"NVIDIA A100-SXM4-40GB":     "a100",
		"NVIDIA L40S":               "l40s",
		"Tesla T4":                  "t4",
		"NVIDIA GeForce RTX 4090":   "rtx4090",
		"AMD Instinct MI300X OAM":   "mi300x",
		"AMD Instinct MI355X":       "mi355x",
		"AMD Instinct MI250X/MI250": "mi250x",
		"Quadro K620":               "quadro-k620",
		"CX Fake NVIDIA GPU":        "cx-fake-nvidia-gpu",
	} {
		require.Equal(t, want, (&inventory.GPU{Product: product}).Model(), product)
	}
}
