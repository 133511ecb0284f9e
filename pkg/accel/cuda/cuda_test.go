package cuda_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/dl"
)

// onGPU says that the tests run on this machine's GPU.
func onGPU() bool { return os.Getenv("CX_TEST_CUDA") == "real" }

func setUp(t testing.TB) {
	if !onGPU() {
		fakes.Build(t).UseWithoutKernels(t)
	}
}

// setUpStandIn is for what only the stand-in can show.
func setUpStandIn(t testing.TB) {
	if onGPU() {
		t.Skip("CX_TEST_CUDA=real: this needs the stand-in driver")
	}
	fakes.Build(t).UseWithoutKernels(t)
}

// open opens a device on the test's OS thread, until the test ends.
func open(t testing.TB, index int) *gpu.Device {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread, on which the device stays current, ends with the test
	driver, err := cuda.Load()
	require.NoError(t, err)
	d, err := driver.Open(index, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// Memory that devices of other hosts can map needs a device with such handles, and a channel.
func TestFabric(t *testing.T) {
	setUpStandIn(t)
	d := open(t, 0)
	_, err := d.AllocFabric(1)
	require.ErrorIs(t, err, accel.ErrUnsupported)
	t.Setenv("CX_FAKE_FABRIC", "no-channel")
	_, err = d.AllocFabric(1)
	require.ErrorContains(t, err, "cuMemCreate: CUDA_ERROR_NOT_PERMITTED (800): give the process an IMEX channel")
	t.Setenv("CX_FAKE_FABRIC", "1")
	p, err := d.AllocFabric(1)
	require.NoError(t, err)
	_, _, err = d.ExportVirtual(p)
	require.Error(t, err, "it has no handle that is a file")
	require.NoError(t, d.Free(p))
}

// A large allocation fills its pages of 2 MiB: what shares the last one with others is mapped in
// smaller pages, which copies between devices read more slowly.
func TestLargeAllocationsAreWholePages(t *testing.T) {
	setUpStandIn(t)
	d := open(t, 0)
	const page = 2 << 20
	for size, want := range map[int64]int64{page: page, page + 1: 2 * page, 3*page - 1: 3 * page} {
		before, _, err := d.Memory()
		require.NoError(t, err)
		p, err := d.Alloc(size)
		require.NoError(t, err)
		during, _, err := d.Memory()
		require.NoError(t, err)
		require.Equal(t, want, before-during, "%d bytes", size)
		require.NoError(t, d.Free(p))
	}
}

func TestDriver(t *testing.T) {
	setUp(t)
	driver, err := cuda.Load()
	require.NoError(t, err)
	require.Equal(t, "libcuda.so.1", driver.Library().SOName())
	require.Regexp(t, `^CUDA [0-9]+\.[0-9]+$`, driver.Version())
	count, err := driver.Count()
	require.NoError(t, err)
	require.Positive(t, count)
	_, err = driver.Open(count, "")
	require.ErrorContains(t, err, "visible to this process")
	_, err = driver.Open(-1, "")
	require.ErrorContains(t, err, "device -1: ")
}

// A device belongs to the thread that opened it.
func TestAnotherThreadHasNoDevice(t *testing.T) {
	setUp(t)
	d := open(t, 0)
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never give it back: it ends with the goroutine
		_, err := d.Alloc(4096)
		failed <- err
	}()
	var code *gpu.Error
	require.ErrorAs(t, <-failed, &code)
	require.Equal(t, "CUDA_ERROR_INVALID_CONTEXT", code.Name)
	require.Equal(t, 201, code.Code)
}

func TestWithoutDriver(t *testing.T) {
	t.Setenv("CX_CUDA_LIB", filepath.Join(t.TempDir(), "libcuda.so.1"))
	_, err := cuda.Load()
	require.ErrorIs(t, err, dl.ErrNoLibrary)
	require.ErrorContains(t, err, "CUDA driver from CX_CUDA_LIB=")
}

func TestOldDriver(t *testing.T) {
	setUpStandIn(t)
	old := fakes.OldCUDA(t, "cuEventRecord")
	t.Setenv("CX_CUDA_LIB", old)
	_, err := cuda.Load()
	require.ErrorIs(t, err, dl.ErrNoSymbol)
	wording.Has(t, err.Error(), "CUDA driver … CX_CUDA_LIB="+old+": too old … cuEventRecord in libcuda.so.1")
}

// What an old driver may lack is told when it is asked for; the rest works.
func TestOldDriverWithoutGraphsAndVirtualMemory(t *testing.T) {
	setUpStandIn(t)
	t.Setenv("CX_CUDA_LIB", fakes.OldCUDA(t, "cuMemMap", "cuStreamBeginCapture_v2"))
	d := open(t, 0)
	_, err := d.AllocVirtual(1 << 20)
	require.ErrorIs(t, err, accel.ErrUnsupported)
	s, err := d.NewStream()
	require.NoError(t, err)
	defer s.Close()
	require.ErrorIs(t, s.BeginCapture(), accel.ErrUnsupported)
	p, err := d.Alloc(1)
	require.NoError(t, err)
	require.NoError(t, d.Free(p))
}

func TestOldDriverWithoutUpload(t *testing.T) {
	setUpStandIn(t)
	t.Setenv("CX_CUDA_LIB", fakes.OldCUDA(t, "cuGraphUpload"))
	d := open(t, 0)
	s, err := d.NewStream()
	require.NoError(t, err)
	defer s.Close()
	p, err := d.Alloc(16)
	require.NoError(t, err)
	require.NoError(t, s.BeginCapture())
	require.NoError(t, d.Set(s, p, 1, 16))
	g, err := s.EndCapture()
	require.NoError(t, err)
	require.NoError(t, g.Launch(s))
	require.NoError(t, s.Synchronize())
}

func TestWithoutCompiler(t *testing.T) {
	setUp(t)
	t.Setenv("CX_NVRTC_LIB", filepath.Join(t.TempDir(), "libnvrtc.so.13"))
	d := open(t, 0)
	_, err := d.Compile(t.Context(), "smoke.cu", "")
	require.ErrorIs(t, err, accel.ErrUnsupported)
	require.ErrorIs(t, err, dl.ErrNoLibrary)
	require.ErrorContains(t, err, "CUDA run-time compiler (NVRTC) from CX_NVRTC_LIB=")
}

// Each failed call of the driver comes back as an error with its name and the
// driver's word for it, and does not stop the process.
func TestEveryFailureIsNamed(t *testing.T) {
	setUpStandIn(t)
	need.CXX(t)
	source := smokeSource()

	for _, call := range []string{"cuInit", "cuDriverGetVersion"} {
		t.Run(call, func(t *testing.T) {
			t.Setenv("CX_FAKE_FAIL", call+"=719")
			_, err := cuda.Load()
			requireInjected(t, err, call)
		})
	}
	for call, inError := range map[string]string{
		"cuDeviceGetCount":         "",
		"cuDeviceGet":              "",
		"cuDevicePrimaryCtxRetain": "bind device",
		"cuCtxSetCurrent":          "bind device",
		"cuDeviceGetName":          "",
		"cuDeviceGetPCIBusId":      "",
		"cuDeviceGetAttribute":     "",
		"cuMemGetInfo_v2":          "",
	} {
		t.Run(call, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			driver, err := cuda.Load()
			require.NoError(t, err)
			t.Setenv("CX_FAKE_FAIL", call+"=719")
			_, err = driver.Open(0, t.TempDir())
			if inError == "" {
				inError = call
			}
			requireInjected(t, err, inError)
		})
	}

	d := open(t, 0)
	s, err := d.NewStream()
	require.NoError(t, err)
	e, err := d.NewEvent()
	require.NoError(t, err)
	require.NoError(t, s.Record(e))
	p, err := d.Alloc(1 << 20)
	require.NoError(t, err)
	m, err := d.Compile(t.Context(), "smoke.cu", source)
	require.NoError(t, err)
	k, err := m.Kernel("cx_smoke")
	require.NoError(t, err)
	buf := make([]byte, 64)
	at := unsafe.Pointer(&buf[0])
	capture := func() (accel.Graph, error) {
		if err := s.BeginCapture(); err != nil {
			return nil, err
		}
		if err := d.Set(s, p, 0, 1); err != nil {
			return nil, err
		}
		return s.EndCapture()
	}
	args := make([]uint64, 6)
	at6 := []unsafe.Pointer{}
	for i := range args {
		at6 = append(at6, unsafe.Pointer(&args[i]))
	}
	for _, tc := range []struct {
		call string
		do   func() error
	}{
		{"cuMemGetInfo_v2", func() error { _, _, err := d.Memory(); return err }},
		{"cuMemAlloc_v2", func() error { _, err := d.Alloc(1); return err }},
		{"cuMemFree_v2", func() error { return d.Free(p) }},
		{"cuMemHostAlloc", func() error { _, err := d.AllocHost(1); return err }},
		{"cuMemFreeHost", func() error { return d.FreeHost(nil) }},
		{"cuMemcpyHtoDAsync_v2", func() error { return d.CopyIn(s, p, at, 64) }},
		{"cuMemcpyDtoHAsync_v2", func() error { return d.CopyOut(s, at, p, 64) }},
		{"cuMemcpyDtoDAsync_v2", func() error { return d.Copy(s, p, p.Add(64), 64) }},
		{"cuMemsetD8Async", func() error { return d.Set(s, p, 0, 64) }},
		{"cuStreamCreate", func() error { _, err := d.NewStream(); return err }},
		{"cuStreamSynchronize", s.Synchronize},
		{"cuStreamQuery", func() error { _, err := s.Query(); return err }},
		{"cuEventCreate", func() error { _, err := d.NewEvent(); return err }},
		{"cuEventRecord", func() error { return s.Record(e) }},
		{"cuEventRecordWithFlags", func() error { return s.RecordExternal(e) }},
		{"cuEventQuery", func() error { _, err := e.Query(); return err }},
		{"cuEventElapsedTime", func() error { _, err := d.Elapsed(e, e); return err }},
		{"cuEventDestroy_v2", e.Close},
		{"cuCtxSynchronize", d.Synchronize},
		{"cuDeviceCanAccessPeer", func() error { _, err := d.CanAccessPeer(1); return err }},
		{"cuStreamBeginCapture_v2", func() error { _, err := capture(); return err }},
		{"cuGraphInstantiateWithFlags", func() error { _, err := capture(); return err }},
		{"cuGraphDestroy", func() error { _, err := capture(); return err }},
		{"cuGraphUpload", func() error { _, err := capture(); return err }},
		{"cuGraphLaunch", func() error {
			g, err := capture()
			require.NoError(t, err)
			return g.Launch(s)
		}},
		{"cuGraphExecDestroy", func() error {
			g, err := capture()
			require.NoError(t, err)
			return g.Close()
		}},
		{"cuModuleLoadData", func() error { _, err := d.Compile(t.Context(), "smoke.cu", source); return err }},
		{"cuModuleGetFunction", func() error { _, err := m.Kernel("cx_smoke"); return err }},
		{"cuModuleUnload", m.Close},
		{"cuLaunchKernel", func() error { return k.Launch(s, 1, 1, 0, at6...) }},
		{"cuDeviceGetAttribute", func() error { _, err := d.AllocVirtual(1); return err }},
		{"cuMemGetAllocationGranularity", func() error { _, err := d.AllocVirtual(1); return err }},
		{"cuMemCreate", func() error { _, err := d.AllocVirtual(1); return err }},
		{"cuMemAddressReserve", func() error { _, err := d.AllocVirtual(1); return err }},
		{"cuMemMap", func() error { _, err := d.AllocVirtual(1); return err }},
		{"cuMemSetAccess", func() error { _, err := d.AllocVirtual(1); return err }},
		{"cuMemExportToShareableHandle", func() error { return exportImport(d) }},
		{"cuMemImportFromShareableHandle", func() error { return exportImport(d) }},
		{"cuMemUnmap", func() error { return allocFree(d) }},
		{"cuMemRelease", func() error { return allocFree(d) }},
		{"cuMemAddressFree", func() error { return allocFree(d) }},
		{"cuStreamEndCapture", func() error { _, err := capture(); return err }},
		{"cuStreamDestroy_v2", s.Close},
	} {
		t.Setenv("CX_FAKE_FAIL", tc.call+"=719")
		err := tc.do()
		requireInjected(t, err, tc.call)
		t.Setenv("CX_FAKE_FAIL", "")
	}
}

func allocFree(d *gpu.Device) error {
	p, err := d.AllocVirtual(1)
	if err != nil {
		return err
	}
	return d.Free(p)
}

func exportImport(d *gpu.Device) error {
	p, err := d.AllocVirtual(1)
	if err != nil {
		return err
	}
	f, bytes, err := d.ExportVirtual(p)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = d.ImportVirtual(f, bytes)
	return err
}

func requireInjected(t *testing.T, err error, call string) {
	t.Helper()
	var code *gpu.Error
	require.ErrorAs(t, err, &code, "%s", call)
	require.Equal(t, call, code.Call)
	require.ErrorContains(t, err, call+": CUDA_ERROR_LAUNCH_FAILED (719)")
	require.NotContains(t, err.Error(), "\n")
}

// What a timed loop calls.
func BenchmarkCalls(b *testing.B) {
	setUp(b)
	d := open(b, 0)
	s, err := d.NewStream()
	require.NoError(b, err)
	e, err := d.NewEvent()
	require.NoError(b, err)
	m, err := d.Compile(b.Context(), "smoke.cu", smokeSource())
	require.NoError(b, err)
	k, err := m.Kernel("cx_smoke_decode")
	require.NoError(b, err)
	p, err := d.Alloc(4096)
	require.NoError(b, err)
	n := uint64(0)
	args := []unsafe.Pointer{unsafe.Pointer(&p), unsafe.Pointer(&n)}
	for _, call := range []struct {
		name string
		do   func() error
	}{
		{"record", func() error { return s.Record(e) }},
		{"query", func() error { _, err := s.Query(); return err }},
		{"synchronize", s.Synchronize},
		{"launch", func() error { return k.Launch(s, 1, 32, 0, args...) }},
		{"copy", func() error { return d.Copy(s, p, p.Add(2048), 8) }},
	} {
		b.Run(call.name, func(b *testing.B) {
			// The device is current on the thread of the parent, which waits.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			driver, err := cuda.Load()
			require.NoError(b, err)
			again, err := driver.Open(0, b.TempDir())
			require.NoError(b, err)
			defer again.Close()
			b.ReportAllocs()
			for b.Loop() {
				if err := call.do(); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			require.NoError(b, s.Synchronize())
		})
	}
}
