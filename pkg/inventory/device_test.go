package inventory_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/inventory"
)

// twoNodes is the processors of a machine with two NUMA nodes of four.
func twoNodes(root fstest.MapFS) fstest.MapFS {
	root["sys/devices/system/cpu/online"] = file("0-7\n")
	root["sys/devices/system/node/node0/cpulist"] = file("0-1,4-5\n")
	root["sys/devices/system/node/node1/cpulist"] = file("2-3,6-7\n")
	root["sys/devices/system/node/has_cpu"] = file("0-1\n")
	return root
}

func TestDeviceOfNVIDIA(t *testing.T) {
	root := twoNodes(fstest.MapFS{})
	for i := range 8 {
		pciFiles(root, "0x10de", "0x030200", fmt.Sprint(i/4), fmt.Sprintf("pci0000:%02x", busOf(i)), fmt.Sprintf("0000:%02x:00.0", busOf(i)))
	}
	server := dgx(h200)
	r := inventory.NewReader(root, mockLibrary{server})
	d, err := r.Device("0000:C3:00.0") // as CUDA spells it
	require.NoError(t, err)
	defer d.Close()
	g := d.GPU()
	require.Equal(t, "NVIDIA H200", g.Product)
	require.Equal(t, 1, g.NUMANode)
	s, err := d.State()
	require.NoError(t, err)
	require.Equal(t, r.State().GPUs[5].SMMHz, s.SMMHz)
	require.Equal(t, []string{"sw-power-cap", "hw-slowdown"}, s.Throttle)

	server.Devices[5].(*dgxa100.Device).GetClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return 0, nvml.ERROR_GPU_IS_LOST }
	_, err = d.State()
	require.EqualError(t, err, "NVML does not read the device: error 15")

	_, err = r.Device("0000:99:00.0")
	require.EqualError(t, err, "NVML does not open the device: error 6")
	_, err = inventory.NewReader(root, noNVML(nvml.ERROR_LIBRARY_NOT_FOUND)).Device("0000:C3:00.0")
	require.EqualError(t, err, "NVML does not start: error 12")
}

func TestDeviceOfAMD(t *testing.T) {
	r := inventory.NewReader(mi300x(), noNVML(nvml.ERROR_LIBRARY_NOT_FOUND))
	d, err := r.Device("0000:65:00.0")
	require.NoError(t, err)
	defer d.Close()
	require.Equal(t, "AMD Instinct MI300X OAM", d.GPU().Product)
	require.Equal(t, 0, d.GPU().NUMANode)
	s, err := d.State()
	require.NoError(t, err)
	require.Equal(t, r.State().GPUs[3], s)
}

// The compute driver lists all processes that opened it; those with a queue on the device use it.
func TestProcessesOfAMD(t *testing.T) {
	root := mi300x()
	d, err := inventory.NewReader(root, noNVML(nvml.ERROR_LIBRARY_NOT_FOUND)).Device("0000:65:00.0")
	require.NoError(t, err)
	defer d.Close()
	_, ok := d.Processes()
	require.False(t, ok, "a kernel that does not list them")
	_, ok = d.BusyPercent()
	require.False(t, ok)
	root["sys/class/kfd/kfd/topology/nodes/6/gpu_id"] = file("51237\n")
	for pid, gpu := range map[int]string{100: "51237", 200: "99", 300: "51237"} {
		root[fmt.Sprintf("sys/class/kfd/kfd/proc/%d/queues/0/gpuid", pid)] = file(gpu + "\n")
		root[fmt.Sprintf("sys/class/kfd/kfd/proc/%d/queues/1/gpuid", pid)] = file("7\n")
		root[fmt.Sprintf("sys/class/kfd/kfd/proc/%d/vram_51237", pid)] = file("0\n")
	}
	root["sys/class/kfd/kfd/proc/400/vram_51237"] = file("0\n")
	root["sys/class/drm/renderD152/device/gpu_busy_percent"] = file("12\n")
	pids, ok := d.Processes()
	require.True(t, ok)
	require.Equal(t, []int{100, 300}, pids)
	percent, ok := d.BusyPercent()
	require.True(t, ok)
	require.Equal(t, 12, percent)
}

func TestCPUs(t *testing.T) {
	root := twoNodes(fstest.MapFS{})
	pciFiles(root, "0x10de", "0x030200", "1", "pci0000:10", "0000:10:00.0")
	pciFiles(root, "0x10de", "0x030200", "-1", "pci0000:20", "0000:20:00.0") // one node, or firmware that does not tell
	pciFiles(root, "0x10de", "0x030200", "7", "pci0000:30", "0000:30:00.0")  // a node that is not there
	r := inventory.NewReader(root, noNVML(nvml.ERROR_LIBRARY_NOT_FOUND))
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, r.OnlineCPUs())
	require.Equal(t, []int{2, 3, 6, 7}, r.CPUs("00000000:10:00.0"))
	for _, address := range []string{"0000:20:00.0", "0000:30:00.0", "0000:40:00.0", ""} {
		require.Empty(t, r.CPUs(address), address)
	}
	for want, cpus := range map[int][]int{0: {4}, 1: {2, 7}, -1: {1, 2}} {
		require.Equal(t, want, r.NUMANode(cpus))
	}
	require.Equal(t, -1, r.NUMANode(nil))
	require.Equal(t, -1, r.NUMANode([]int{8}))

	for _, list := range []string{"", "x", "3-1", "0-99999999"} {
		root["sys/devices/system/cpu/online"] = file(list + "\n")
		require.Empty(t, r.OnlineCPUs(), list)
	}
	require.Empty(t, inventory.NewReader(fstest.MapFS{}, noNVML(nvml.ERROR_LIBRARY_NOT_FOUND)).OnlineCPUs())
}
