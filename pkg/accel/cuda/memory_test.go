package cuda_test

import (
	"errors"
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/accel"
)

// faults reports whether this process cannot read memory at an address of a device.
func faults(p accel.Ptr) (fault bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { fault = recover() != nil }()
	return **(**byte)(unsafe.Pointer(&p)) == 0
}

// A kernel can use addresses of devices, and before and after it the host cannot.
func TestAddressesOfDevicesAreNotTheHosts(t *testing.T) {
	setUpStandIn(t)
	fakes.NeedKernels(t)
	first := open(t, 0)
	p, err := first.Alloc(4)
	require.NoError(t, err)
	d := open(t, 1) // which is the current one now
	q, err := d.Alloc(4)
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	m, err := d.Compile(t.Context(), "set.cu", `extern "C" __global__ void set(int *p, int *q) { *p = 1; *q = 2; }`)
	require.NoError(t, err)
	k, err := m.Kernel("set")
	require.NoError(t, err)
	for range 2 {
		require.True(t, faults(p) && faults(q))
		require.NoError(t, k.Launch(s, 1, 1, 0, accel.Arg(p), accel.Arg(q)))
		require.NoError(t, s.Synchronize())
	}
	require.True(t, faults(p) && faults(q))
	for at, want := range map[accel.Ptr]int32{p: 1, q: 2} {
		got, err := accel.Read[int32](d, s, at, 1)
		require.NoError(t, err)
		require.Equal(t, want, got[0])
	}
	require.NoError(t, errors.Join(m.Close(), s.Close(), first.Free(p), d.Free(q)))
}
