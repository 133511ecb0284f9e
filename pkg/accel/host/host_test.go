package host

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/affinity"
	"github.com/collectivex/collectivex/pkg/sysfs"
)

// peerVariable makes the test binary a second process that adds one to the
// first byte of each segment named in it.
const peerVariable = "CX_TEST_HOST_PEER"

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(peerVariable); ok {
		if err := peer(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func peer(text string) error {
	var h Handle
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return err
	}
	s, err := OpenSegment(h)
	if err != nil {
		return err
	}
	*(*byte)(s.Base())++
	return s.Close()
}

func openDevice(t *testing.T, rank, world int) *Device {
	runtime.LockOSThread() // never unlocked: the thread is pinned and ends with the test
	d, err := Open(rank, world)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// A site that limits the address space (ulimit -v) leaves room for the heaps of all ranks.
func TestHeapFitsIntoTheAddressSpace(t *testing.T) {
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_AS, &before))
	t.Cleanup(func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &before)) })
	const world, limit = 4, 32 << 30
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: limit, Max: before.Max}))
	d := openDevice(t, 0, world)
	for range world - 1 { // as the other ranks' heaps are mapped
		peer, err := OpenSegment(d.Segment().Handle())
		require.NoError(t, err)
		defer peer.Close()
	}
	free, _, err := d.Memory()
	require.NoError(t, err)
	require.LessOrEqual(t, free, int64(limit/world/2))
	p, err := d.Alloc(free / 1024)
	require.NoError(t, err)
	require.NoError(t, d.Free(p))
}

func TestSegmentIsSharedWithAnotherProcess(t *testing.T) {
	s, err := NewSegment("test", 1<<20)
	require.NoError(t, err)
	defer s.Close()
	*(*byte)(s.Base()) = 41
	h, err := json.Marshal(s.Handle())
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), peerVariable+"="+string(h))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.EqualValues(t, 42, *(*byte)(s.Base()))

	_, err = OpenSegment(Handle{PID: os.Getpid(), FD: 1 << 20, Bytes: 4096})
	require.ErrorContains(t, err, "open shared memory of process")
}

func TestPopulateKeepsWhatIsThere(t *testing.T) {
	s, err := NewSegment("test", 1<<20)
	require.NoError(t, err)
	defer s.Close()
	*(*byte)(unsafe.Add(s.Base(), 8191)) = 7
	require.NoError(t, s.Populate(8000, 20000))
	require.EqualValues(t, 7, *(*byte)(unsafe.Add(s.Base(), 8191)))
}

func TestHeap(t *testing.T) {
	h := heap{bytes: 16 << 20, used: map[int64]int64{}}
	take := func(bytes, want int64) {
		t.Helper()
		at, err := h.take(bytes)
		require.NoError(t, err)
		require.Equal(t, want, at)
	}
	take(10, 0)
	take(3<<20, 2<<20)
	take(4096, 4096)
	take(100, 8192)
	take(5<<20, 6<<20)
	bytes, err := h.drop(2 << 20)
	require.NoError(t, err)
	require.EqualValues(t, 3<<20, bytes)
	take(4096, 12288)
	take(2<<20, 2<<20)
	_, err = h.take(8 << 20)
	require.ErrorContains(t, err, "no free range")
	_, err = h.drop(1)
	require.Error(t, err)
}

func TestDeviceMemory(t *testing.T) {
	d := openDevice(t, 0, 1)
	p, err := d.Alloc(3 << 20)
	require.NoError(t, err)
	require.Zero(t, uintptr(p)%4096)
	require.NoError(t, d.Set(nil, p, 0xa5, 3<<20))
	q, err := d.Alloc(100)
	require.NoError(t, err)
	require.NoError(t, d.Copy(nil, q, p.Add(17), 100))

	pinned, err := d.AllocHost(100)
	require.NoError(t, err)
	require.NoError(t, d.CopyOut(nil, pinned, q, 100))
	got := unsafe.Slice((*byte)(pinned), 100)
	require.EqualValues(t, 0xa5, got[99])
	got[0] = 1
	require.NoError(t, d.CopyIn(nil, q, pinned, 100))
	require.Equal(t, []byte{1, 0xa5}, Bytes(q, 2))
	require.NoError(t, d.FreeHost(pinned))
	require.Error(t, d.FreeHost(pinned))

	require.NoError(t, d.Free(p))
	require.Error(t, d.Free(p))
	again, err := d.Alloc(3 << 20)
	require.NoError(t, err)
	require.Equal(t, p, again)
	require.Zero(t, Bytes(again, 1)[0], "freed memory was given back")
	_, err = d.Alloc(0)
	require.Error(t, err)
	_, err = d.Alloc(maxHeap + 1)
	require.Error(t, err)
}

func TestDeviceSaysWhatItIs(t *testing.T) {
	d := openDevice(t, 0, 1)
	info := d.Info()
	require.Equal(t, "host", info.Vendor)
	require.NotEmpty(t, info.Product)
	require.Positive(t, info.TotalBytes)
	cpus, pinned := d.CPUs()
	require.True(t, pinned)
	require.Len(t, cpus, 1)
	now, err := affinity.Allowed()
	require.NoError(t, err)
	require.Equal(t, cpus, now)
	require.NoError(t, d.Synchronize())

	_, err = Open(2, 2)
	require.Error(t, err)
}

func TestCrowdedDeviceIsNotPinned(t *testing.T) {
	d := openDevice(t, 0, 1<<16)
	_, pinned := d.CPUs()
	require.False(t, pinned)
	require.Equal(t, -1, d.NUMANode())
}

func TestEvents(t *testing.T) {
	d := openDevice(t, 0, 1)
	s, err := d.NewStream()
	require.NoError(t, err)
	from, err := d.NewEvent()
	require.NoError(t, err)
	to, err := d.NewEvent()
	require.NoError(t, err)
	require.NoError(t, s.Record(from))
	_, err = d.Elapsed(from, to)
	require.Error(t, err)
	time.Sleep(2 * time.Millisecond)
	require.NoError(t, s.Record(to))
	us, err := d.Elapsed(from, to)
	require.NoError(t, err)
	require.GreaterOrEqual(t, us, 2000.0)
	done, err := s.Query()
	require.NoError(t, err)
	require.True(t, done)
	require.ErrorIs(t, s.BeginCapture(), accel.ErrUnsupported)
	_, err = d.Compile(t.Context(), "k", "")
	require.ErrorIs(t, err, accel.ErrUnsupported)
}

func TestMachine(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	m := machine{sysfs.Root{FS: os.DirFS(root)}}
	require.Equal(t, arch(), m.product())
	require.Equal(t, "Linux", m.kernel())
	require.Zero(t, m.lastLevelCache(3))
	require.Equal(t, -1, m.NUMANode(3))

	write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some  CPU  9000 \nflags\t: fpu\n")
	require.Equal(t, "Some CPU 9000", m.product())
	write("proc/sys/kernel/osrelease", "6.18.4-builder.corp.example\n")
	require.Equal(t, "Linux 6.18.4", m.kernel())
	write("sys/devices/system/cpu/cpu3/cache/index0/size", "32K\n")
	write("sys/devices/system/cpu/cpu3/cache/index3/size", "33792K\n")
	require.EqualValues(t, 33792<<10, m.lastLevelCache(3))
	write("sys/devices/system/node/node1/cpulist", "3\n")
	require.Equal(t, 1, m.NUMANode(3))
}
