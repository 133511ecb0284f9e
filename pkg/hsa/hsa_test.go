package hsa

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/accel/hip"
	"github.com/collectivex/collectivex/pkg/dl"
)

// Without the library, and with one that lacks a function, the error says what to set.
func TestOpenRefuses(t *testing.T) {
	t.Setenv("CX_HSA_LIB", "/nowhere/libhsa-runtime64.so.1")
	_, err := Open()
	require.ErrorIs(t, err, dl.ErrNoLibrary)
	require.ErrorContains(t, err, "CX_HSA_LIB")
	fake := fakes.Build(t)
	fake.UseWithoutKernels(t)
	t.Setenv("CX_HSA_LIB", fake.HIP)
	_, err = Open()
	require.ErrorIs(t, err, dl.ErrNoSymbol)
	require.ErrorContains(t, err, "hsa_init")
}

// The stand-in refuses what the runtime documents as mistakes, so that a backend that makes them
// is found out.
func TestStandInRefusesMisuse(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	goruntime(t)
	driver, err := hip.Load()
	require.NoError(t, err)
	d, err := driver.Open(0, t.TempDir())
	require.NoError(t, err)
	r, err := Open()
	require.NoError(t, err)
	require.Equal(t, "1.1", r.Version())

	const bytes = 4096
	p, err := d.Alloc(bytes)
	require.NoError(t, err)
	h, err := d.AllocHost(bytes)
	require.NoError(t, err)
	device, err := r.Locate(uintptr(p))
	require.NoError(t, err)
	host, err := r.Locate(uintptr(h))
	require.NoError(t, err)
	require.Equal(t, uintptr(h), host.Base)
	require.GreaterOrEqual(t, device.Bytes, int64(bytes))
	for agent, want := range map[Agent]bool{device.Owner: true, host.Owner: false} {
		gpu, err := r.IsGPU(agent)
		require.NoError(t, err)
		require.Equal(t, want, gpu)
	}
	var outside int
	_, err = r.Locate(uintptr(unsafe.Pointer(&outside)))
	require.ErrorContains(t, err, "not in memory that the HSA runtime knows")
	engines, err := r.Engines(device.Owner, host.Owner)
	require.NoError(t, err)
	require.Equal(t, uint32(1), engines[0])
	_, err = r.Engines(device.Owner, device.Owner)
	require.ErrorContains(t, err, "INVALID_AGENT")

	done, err := r.NewSignal(1)
	require.NoError(t, err)
	to, from := End{uintptr(p), device.Owner}, End{uintptr(h), host.Owner}
	require.NoError(t, r.Copy(to, from, bytes, nil, done, engines[0]))
	require.NoError(t, r.Wait(done))
	start, end, err := r.Times(done)
	require.NoError(t, err)
	require.GreaterOrEqual(t, end, start)

	fresh := func() Signal {
		s, err := r.NewSignal(1)
		require.NoError(t, err)
		return s
	}
	_, _, err = r.Times(fresh())
	require.ErrorContains(t, err, "HSA_STATUS_ERROR", "no copy used the signal")
	for want, refused := range map[string]func() error{
		"a signal of 0":       func() error { return r.Copy(to, from, bytes, nil, done, engines[0]) },
		"no signal":           func() error { return r.Copy(to, from, bytes, nil, 0, engines[0]) },
		"two engines":         func() error { return r.Copy(to, from, bytes, nil, fresh(), 3) },
		"no engine":           func() error { return r.Copy(to, from, bytes, nil, fresh(), 0) },
		"an engine too many":  func() error { return r.Copy(to, from, bytes, nil, fresh(), 1<<9) },
		"another's memory":    func() error { return r.Copy(to, End{from.At, device.Owner}, bytes, nil, fresh(), 1) },
		"too many bytes":      func() error { return r.Copy(to, from, device.Bytes+1, nil, fresh(), 1) },
		"an ended dependency": func() error { return r.Copy(to, from, bytes, []Signal{9999}, fresh(), 1) },
		"no agent":            func() error { return r.Copy(End{to.At, 7}, from, bytes, nil, fresh(), 1) },
		"a signal twice":      func() error { s := fresh(); require.NoError(t, r.Destroy(s)); return r.Destroy(s) },
	} {
		require.Error(t, refused(), want)
	}
	require.NoError(t, d.Free(p))
	require.NoError(t, d.FreeHost(h))
	require.NoError(t, r.Close())
	require.NoError(t, d.Close())
}

// goruntime keeps the test on its thread, as devices want it.
func goruntime(t *testing.T) {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
}
