package nvml_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/inventory/nvml"
)

func TestAnswers(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	t.Setenv("CX_FAKE_DEVICES", "4")
	t.Setenv("CX_FAKE_NAME", "NVIDIA H200")
	t.Setenv("CX_FAKE_USED", "1048576")
	t.Setenv("CX_FAKE_REASONS", "65") // idle, and hot
	l := nvml.New()
	require.Equal(t, nvml.Success, l.Init())
	defer l.Shutdown()

	good := func(ret nvml.Return) { t.Helper(); require.Equal(t, nvml.Success, ret) }
	version, ret := l.DriverVersion()
	good(ret)
	require.Equal(t, "580.95.05", version)
	cuda, ret := l.CUDAVersion()
	good(ret)
	require.Equal(t, 13000, cuda)
	count, ret := l.Count()
	good(ret)
	require.Equal(t, 4, count)
	_, ret = l.Device(4)
	require.NotEqual(t, nvml.Success, ret)

	d, ret := l.Device(2)
	good(ret)
	name, ret := d.Name()
	good(ret)
	require.Equal(t, "NVIDIA H200", name)
	id, ret := d.BusID()
	good(ret)
	require.Equal(t, "00000000:12:00.0", id)
	major, minor, ret := d.ComputeCapability()
	good(ret)
	require.Equal(t, [2]int{9, 0}, [2]int{major, minor})
	total, used, ret := d.Memory()
	good(ret)
	require.EqualValues(t, 2<<30, total)
	require.EqualValues(t, 1<<20, used)
	for _, tc := range []struct {
		name string
		ask  func() (int, nvml.Return)
		want int
	}{
		{"generation", d.MaxPCIeGeneration, 5},
		{"width", d.MaxPCIeWidth, 16},
		{"power limit", d.PowerLimitMilliwatts, 700000},
		{"power", d.PowerMilliwatts, 123456},
		{"temperature", d.TemperatureC, 33},
		{"greatest SM clock", func() (int, nvml.Return) { return d.MaxClockMHz(nvml.ClockSM) }, 1980},
		{"greatest memory clock", func() (int, nvml.Return) { return d.MaxClockMHz(nvml.ClockMem) }, 3201},
		{"SM clock", func() (int, nvml.Return) { return d.ClockMHz(nvml.ClockSM) }, 1755},
		{"memory clock", func() (int, nvml.Return) { return d.ClockMHz(nvml.ClockMem) }, 3201},
	} {
		v, ret := tc.ask()
		require.Equal(t, nvml.Success, ret, tc.name)
		require.Equal(t, tc.want, v, tc.name)
	}
	ecc, ret := d.ECC()
	good(ret)
	require.True(t, ecc)
	mig, ret := d.MIG()
	good(ret)
	require.False(t, mig)
	reasons, ret := d.ClockReasons() // by the name of old drivers
	good(ret)
	require.EqualValues(t, 0x41, reasons)
	held, ret := d.HeldNanos()
	good(ret)
	require.Equal(t, map[uint64]uint64{
		nvml.ReasonSWPowerCap: 0, nvml.ReasonSyncBoost: 0, nvml.ReasonSWThermal: 0, nvml.ReasonHWThermal: 1e6, nvml.ReasonPowerBrake: 0,
	}, held)
	same, ret := l.DeviceAt("0000:12:00.0")
	good(ret)
	id, ret = same.BusID()
	good(ret)
	require.Equal(t, "00000000:12:00.0", id)
	_, ret = l.DeviceAt("0000:99:00.0")
	require.EqualValues(t, 6, ret, "not found")
	errors, ret := d.ECCErrors(false)
	good(ret)
	require.EqualValues(t, 7, errors)
	errors, ret = d.ECCErrors(true)
	good(ret)
	require.Zero(t, errors)
	t.Setenv("CX_FAKE_PROCESSES", "3"+strings.Repeat(",5", 99)) // more than one call has room for
	t.Setenv("CX_FAKE_GRAPHICS", "4,3")
	t.Setenv("CX_FAKE_MPS", "2")
	t.Setenv("CX_FAKE_SELF", "7")
	t.Setenv("CX_FAKE_BUSY", "37")
	pids, ret := d.Processes()
	good(ret)
	require.Equal(t, []int{2, 3, 4, 5, 7}, pids)
	busy, ret := d.BusyPercent()
	good(ret)
	require.Equal(t, 37, busy)
	active, ret := d.NVLinkActive(17)
	good(ret)
	require.True(t, active)
	_, ret = d.NVLinkActive(18)
	require.NotEqual(t, nvml.Success, ret)
	remote, ret := d.NVLinkRemoteBusID(0)
	good(ret)
	require.Equal(t, "00000000:05:00.0", remote)
}

func TestWithout(t *testing.T) {
	t.Setenv("CX_NVML_LIB", "/nowhere/libnvidia-ml.so.1")
	require.Equal(t, nvml.LibraryNotFound, nvml.New().Init())
}

func TestDoesNotStart(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	t.Setenv("CX_FAKE_NVML_FAIL", "9")
	require.EqualValues(t, 9, nvml.New().Init())
}

// A library without NVML's functions has no answers; it does not end the program.
func TestAnotherLibrary(t *testing.T) {
	set := fakes.Build(t)
	t.Setenv("CX_NVML_LIB", set.NVRTC)
	require.Equal(t, nvml.FunctionNotFound, nvml.New().Init())
}

// The machine's own library, where there is one.
func TestThisMachine(t *testing.T) {
	if os.Getenv("CX_TEST_CUDA") != "real" {
		t.Setenv("CX_NVML_LIB", fakes.Build(t).NVML)
	}
	l := nvml.New()
	require.Equal(t, nvml.Success, l.Init())
	defer l.Shutdown()
	count, ret := l.Count()
	require.Equal(t, nvml.Success, ret)
	for i := range count {
		d, ret := l.Device(i)
		require.Equal(t, nvml.Success, ret)
		began := time.Now()
		for range 1000 { // as they are read between windows
			_, _ = d.ClockReasons()
			_, _ = d.ClockMHz(nvml.ClockSM)
		}
		t.Logf("a reading of the clock takes %s", time.Since(began)/1000)
		name, ret := d.Name()
		require.Equal(t, nvml.Success, ret)
		reasons, ret := d.ClockReasons()
		require.Equal(t, nvml.Success, ret)
		active, ret := d.NVLinkActive(0)
		held, ret2 := d.HeldNanos()
		_, used, _ := d.Memory()
		pids, ret3 := d.Processes()
		busy, ret4 := d.BusyPercent()
		t.Logf("processes %v %d, busy %d %% %d", pids, ret3, busy, ret4)
		t.Logf("%s reasons %#x held %v %d link 0 %v %d, %d MiB in use", name, reasons, held, ret2, active, ret, used>>20)
	}
}
