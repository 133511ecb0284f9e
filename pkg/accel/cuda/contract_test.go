package cuda_test

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/accel/hip"
)

// The devices of both vendors, real or stand-in, fulfil the contract of accel.Device.
func TestDevice(t *testing.T) {
	for _, vendor := range []struct {
		name string
		load func() (*gpu.Driver, error)
	}{{"CUDA", cuda.Load}, {"HIP", hip.Load}} {
		t.Run(vendor.name, func(t *testing.T) {
			if os.Getenv("CX_TEST_"+vendor.name) != "real" {
				fakes.Build(t).UseWithoutKernels(t)
			}
			cache := t.TempDir()
			contract(t, func(t *testing.T) accel.Device {
				driver, err := vendor.load()
				require.NoError(t, err)
				d, err := driver.Open(0, cache)
				require.NoError(t, err)
				return d
			})
		})
	}
}

// contract runs all tests of the contract. For each, open returns a device that is current on
// the OS thread of the test.
func contract(t *testing.T, open func(t *testing.T) accel.Device) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, d accel.Device)
	}{
		{"info", testInfo},
		{"memory", testMemory},
		{"out of memory", testOutOfMemory},
		{"page-locked memory", testHostMemory},
		{"copies", testCopies},
		{"order", testOrder},
		{"events", testEvents},
		{"waits", testWaits},
		{"graph", testGraph},
		{"times inside of a graph", testGraphTimes},
		{"spoiled capture", testSpoiledCapture},
		{"kernel", testKernel},
		{"kernel in a graph", testKernelGraph},
		{"small floats", testSmallFloats},
		{"kernel errors", testKernelErrors},
		{"virtual memory", testVirtual},
		{"peers", testPeers},
	} {
		t.Run(test.name, func(t *testing.T) {
			runtime.LockOSThread() // never unlocked: the device stays current on the thread, which ends with the test
			d := open(t)
			defer func() { require.NoError(t, d.Close()) }()
			test.run(t, d)
		})
	}
}

// stream returns a stream that is closed at the end of the test.
func stream(t *testing.T, d accel.Device) accel.Stream {
	t.Helper()
	s, err := d.NewStream()
	require.NoError(t, err)
	return s
}

func alloc(t *testing.T, d accel.Device, bytes int) accel.Ptr {
	t.Helper()
	p, err := d.Alloc(int64(bytes))
	require.NoError(t, err)
	return p
}

func pointer[T any](v []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(v)) }

func bytesOf[T any](v []T) int { return len(v) * int(unsafe.Sizeof(*new(T))) }

func copyIn[T any](t *testing.T, d accel.Device, s accel.Stream, dst accel.Ptr, v []T) {
	t.Helper()
	require.NoError(t, d.CopyIn(s, dst, pointer(v), int64(bytesOf(v))))
	require.NoError(t, s.Synchronize())
}

func copyOut[T any](t *testing.T, d accel.Device, s accel.Stream, src accel.Ptr, n int) []T {
	t.Helper()
	v := make([]T, n)
	require.NoError(t, d.CopyOut(s, pointer(v), src, int64(bytesOf(v))))
	require.NoError(t, s.Synchronize())
	return v
}

func testInfo(t *testing.T, d accel.Device) {
	info := d.Info()
	require.Contains(t, []string{"nvidia", "amd"}, info.Vendor)
	require.NotEmpty(t, info.Product)
	require.Regexp(t, `^(sm_[0-9]{2,3}|gfx[0-9a-f]{3,5}(:[a-z]+[+-])*)$`, info.Arch)
	require.Regexp(t, `^(CUDA|HIP) [0-9]+\.[0-9]+$`, info.Runtime)
	require.Positive(t, info.Multiproc)
	require.Positive(t, info.L2Bytes)
	require.Regexp(t, `^[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]$`, info.PCIBusID)
	free, total, err := d.Memory()
	require.NoError(t, err)
	require.Equal(t, info.TotalBytes, total)
	require.Positive(t, free)
	require.LessOrEqual(t, free, total)
}

func testMemory(t *testing.T, d accel.Device) {
	before, _, err := d.Memory()
	require.NoError(t, err)
	taken := map[accel.Ptr]int64{}
	for _, size := range []int64{1, 100, 256, 4095, 4096, 4097, 1 << 20, 100, 1, 3 << 20} {
		p, err := d.Alloc(size)
		require.NoError(t, err)
		require.Zero(t, p%4096, "%d bytes at %#x", size, p)
		for q, n := range taken {
			require.True(t, p+accel.Ptr(size) <= q || q+accel.Ptr(n) <= p, "allocations overlap")
		}
		taken[p] = size
	}
	for p := range taken {
		require.NoError(t, d.Free(p))
	}
	// Drivers may keep a page or two of their own.
	after, _, err := d.Memory()
	require.NoError(t, err)
	require.InDelta(t, before, after, 64<<20)

	p := alloc(t, d, 1<<20)
	require.NoError(t, d.Free(p))
	require.Error(t, d.Free(p), "freed twice")
	for _, size := range []int64{0, -1} {
		_, err := d.Alloc(size)
		require.ErrorContains(t, err, "a size must be positive")
	}
}

func testOutOfMemory(t *testing.T, d accel.Device) {
	_, total, err := d.Memory()
	require.NoError(t, err)
	_, err = d.Alloc(2 * total)
	require.ErrorIs(t, err, accel.ErrOutOfMemory)
	require.NotErrorIs(t, err, accel.ErrUnsupported)
	p := alloc(t, d, 1<<20) // the device is still usable
	require.NoError(t, d.Free(p))
}

func testHostMemory(t *testing.T, d accel.Device) {
	s := stream(t, d)
	defer s.Close()
	const n = 1 << 16
	h, err := d.AllocHost(2 * n)
	require.NoError(t, err)
	p := alloc(t, d, n)
	host := unsafe.Slice((*byte)(h), 2*n)
	for i := range n {
		host[i] = byte(i * 7)
	}
	require.NoError(t, d.CopyIn(s, p, h, n))
	require.NoError(t, d.CopyOut(s, unsafe.Add(h, n), p, n))
	require.NoError(t, s.Synchronize())
	require.Equal(t, host[:n], host[n:])
	require.NoError(t, d.Free(p))
	require.NoError(t, d.FreeHost(h))
	_, err = d.AllocHost(0)
	require.ErrorContains(t, err, "a size must be positive")
}

func testCopies(t *testing.T, d accel.Device) {
	s := stream(t, d)
	defer s.Close()
	const n = 100_003
	in := make([]byte, n)
	for i := range in {
		in[i] = byte(i*31 + i>>8)
	}
	a, b := alloc(t, d, n), alloc(t, d, n)
	copyIn(t, d, s, a, in)
	require.NoError(t, d.Set(s, b, 0x5a, n))
	require.NoError(t, d.Copy(s, b.Add(3), a.Add(7), n-11))
	got := copyOut[byte](t, d, s, b, n)
	want := bytes.Repeat([]byte{0x5a}, n)
	copy(want[3:], in[7:n-4])
	require.Equal(t, want, got)
	require.NoError(t, d.Free(a))
	require.NoError(t, d.Free(b))
	require.Error(t, d.CopyOut(s, pointer(got), 4096, n), "an address that is no memory")
}

// Work of one stream ends in the order in which it was enqueued.
func testOrder(t *testing.T, d accel.Device) {
	s := stream(t, d)
	defer s.Close()
	const n = 1 << 20
	p := alloc(t, d, n)
	for i := range 200 {
		require.NoError(t, d.Set(s, p, byte(i), n))
	}
	got := copyOut[byte](t, d, s, p, n)
	require.Equal(t, n, bytes.Count(got, []byte{199}))
	require.NoError(t, d.Free(p))
	require.NoError(t, d.Synchronize())
}

// A stream that waits for an event does nothing before the work that the event marks.
func testWaits(t *testing.T, d accel.Device) {
	first, second := stream(t, d), stream(t, d)
	defer first.Close()
	defer second.Close()
	e, err := d.NewEvent()
	require.NoError(t, err)
	defer e.Close()
	require.NoError(t, second.Wait(e), "nothing was recorded")
	const n = 64 << 20
	p := alloc(t, d, n)
	for i := range byte(20) {
		require.NoError(t, d.Set(first, p, i, n))
	}
	require.NoError(t, first.Record(e))
	require.NoError(t, second.Wait(e))
	var last byte
	require.NoError(t, d.CopyOut(second, unsafe.Pointer(&last), p.Add(n-1), 1))
	require.NoError(t, second.Synchronize())
	require.Equal(t, byte(19), last)
	require.NoError(t, d.Free(p))
}

func testEvents(t *testing.T, d accel.Device) {
	s := stream(t, d)
	defer s.Close()
	var events [3]accel.Event
	for i := range events {
		e, err := d.NewEvent()
		require.NoError(t, err)
		events[i] = e
	}
	_, err := d.Elapsed(events[0], events[1])
	require.Error(t, err, "events that were never recorded")

	const n = 64 << 20
	p := alloc(t, d, n)
	require.NoError(t, s.Record(events[0]))
	for i := range 20 {
		require.NoError(t, d.Set(s, p, byte(i), n))
	}
	require.NoError(t, s.Record(events[1]))
	require.NoError(t, s.Record(events[2]))
	deadline := time.Now().Add(time.Minute)
	for done := false; !done; {
		done, err = s.Query()
		require.NoError(t, err)
		require.True(t, time.Now().Before(deadline), "the stream never ends")
	}
	work, err := d.Elapsed(events[0], events[1])
	require.NoError(t, err)
	nothing, err := d.Elapsed(events[1], events[2])
	require.NoError(t, err)
	require.Greater(t, work, 20.0, "20 fills of 64 MiB in microseconds")
	require.Less(t, work, 60e6)
	require.GreaterOrEqual(t, nothing, 0.0)
	back, err := d.Elapsed(events[1], events[0])
	require.NoError(t, err)
	require.InDelta(t, -work, back, 1)
	require.NoError(t, d.Free(p))
	for _, e := range events {
		require.NoError(t, e.Close())
	}
}

// capture captures what enqueue enqueues.
func capture(t *testing.T, s accel.Stream, enqueue func()) accel.Graph {
	t.Helper()
	require.NoError(t, s.BeginCapture())
	enqueue()
	g, err := s.EndCapture()
	require.NoError(t, err)
	return g
}

func testGraph(t *testing.T, d accel.Device) {
	s := stream(t, d)
	defer s.Close()
	const n = 4096
	a, b := alloc(t, d, n), alloc(t, d, n)
	require.NoError(t, d.Set(s, a, 1, n))
	require.NoError(t, d.Set(s, b, 2, n))
	require.NoError(t, s.Synchronize())
	g := capture(t, s, func() {
		require.NoError(t, d.Copy(s, b, a, n))
		require.NoError(t, d.Set(s, a, 3, n))
	})
	require.EqualValues(t, 2, copyOut[byte](t, d, s, b, n)[n-1], "capturing runs nothing")
	require.NoError(t, g.Launch(s))
	require.EqualValues(t, 1, copyOut[byte](t, d, s, b, n)[n-1])
	require.NoError(t, g.Launch(s))
	require.NoError(t, g.Launch(s))
	require.EqualValues(t, 3, copyOut[byte](t, d, s, b, n)[n-1], "each launch runs all of it")
	require.NoError(t, g.Close())
	require.NoError(t, d.Free(a))
	require.NoError(t, d.Free(b))
}

// Each launch of a graph takes the times of its events anew.
func testGraphTimes(t *testing.T, d accel.Device) {
	s := stream(t, d)
	defer s.Close()
	const n = 16 << 20
	p := alloc(t, d, n)
	var events [2]accel.Event
	for i := range events {
		e, err := d.NewEvent()
		require.NoError(t, err)
		events[i] = e
	}
	g := capture(t, s, func() {
		require.NoError(t, s.RecordExternal(events[0]))
		for range 8 {
			require.NoError(t, d.Set(s, p, 1, n))
		}
		require.NoError(t, s.RecordExternal(events[1]))
	})
	_, err := d.Elapsed(events[0], events[1])
	require.Error(t, err, "nothing was launched")
	seen := map[float64]bool{}
	for range 3 {
		require.NoError(t, g.Launch(s))
		require.NoError(t, s.Synchronize())
		us, err := d.Elapsed(events[0], events[1])
		require.NoError(t, err)
		require.Positive(t, us)
		seen[us] = true
	}
	require.Greater(t, len(seen), 1, "launches with the time of the first")
	require.NoError(t, g.Close())
	for _, e := range events {
		require.NoError(t, e.Close())
	}
	require.NoError(t, d.Free(p))
}

// Waiting inside a capture invalidates it. The stream is usable again afterwards.
func testSpoiledCapture(t *testing.T, d accel.Device) {
	s := stream(t, d)
	defer s.Close()
	_, err := s.EndCapture()
	require.Error(t, err, "nothing is being captured")
	require.NoError(t, s.BeginCapture())
	require.Error(t, s.BeginCapture(), "captured twice")
	_, err = s.EndCapture()
	if err != nil { // a driver may end the capture because of that
		require.NotErrorIs(t, err, accel.ErrUnsupported)
	}
	require.NoError(t, s.BeginCapture())
	require.Error(t, s.Synchronize())
	_, err = s.EndCapture()
	require.Error(t, err)
	testOrderOn(t, d, s)
}

func testOrderOn(t *testing.T, d accel.Device, s accel.Stream) {
	t.Helper()
	p := alloc(t, d, 64)
	require.NoError(t, d.Set(s, p, 9, 64))
	require.EqualValues(t, 9, copyOut[byte](t, d, s, p, 64)[63])
	require.NoError(t, d.Free(p))
}

func testVirtual(t *testing.T, d accel.Device) {
	v, ok := d.(*gpu.Device)
	require.True(t, ok)
	s := stream(t, d)
	defer s.Close()
	const n = 5 << 20
	before, _, err := d.Memory()
	require.NoError(t, err)
	p, err := v.AllocVirtual(n)
	require.NoError(t, err)
	require.Zero(t, p%4096)
	during, _, err := d.Memory()
	require.NoError(t, err)
	require.LessOrEqual(t, during, before-n)
	require.NoError(t, d.Set(s, p, 0x11, n))
	require.NoError(t, d.Set(s, p.Add(n-1), 0x22, 1))
	got := copyOut[byte](t, d, s, p, n)
	require.EqualValues(t, 0x11, got[0])
	require.EqualValues(t, 0x22, got[n-1])
	require.NoError(t, d.Free(p))
	require.Error(t, d.Free(p), "freed twice")
	after, _, err := d.Memory()
	require.NoError(t, err)
	require.InDelta(t, before, after, 64<<20)

	_, err = v.AllocVirtual(0)
	require.ErrorContains(t, err, "a size must be positive")
	_, total, err := d.Memory()
	require.NoError(t, err)
	_, err = v.AllocVirtual(2 * total)
	require.ErrorIs(t, err, accel.ErrOutOfMemory)
}

func testPeers(t *testing.T, d accel.Device) {
	p, ok := d.(*gpu.Device)
	require.True(t, ok)
	_, err := p.CanAccessPeer(1 << 20)
	require.Error(t, err, "no such device")
	self, err := p.CanAccessPeer(0)
	require.NoError(t, err)
	require.False(t, self, "device 0 is no peer of itself")
}

// oneLine requires an error of one line that contains parts, as the error of every mistake
// of a user must.
func oneLine(t *testing.T, err error, parts ...string) {
	t.Helper()
	require.Error(t, err)
	require.NotContains(t, strings.TrimSpace(err.Error()), "\n")
	for _, p := range parts {
		require.ErrorContains(t, err, p)
	}
}
