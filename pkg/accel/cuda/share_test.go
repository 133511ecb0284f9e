package cuda_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/fdpass"
)

// peerVariable makes the test binary a process that opens the memory of another one; it has the
// address of the offer and the bytes.
const peerVariable = "CX_TEST_VMM_PEER"

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(peerVariable); ok {
		if err := peer(text); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	fromOwner = 0x11 // bytes that the owner of the memory has written
	fromPeer  = 0x33 // … and the other process
)

// peer maps memory of another process on the same device. It finds what the owner wrote, writes its
// first half, and says so. When it is told to go on, it looks again and lets go.
func peer(text string) (err error) {
	var address string
	var bytes int64
	if _, err := fmt.Sscan(text, &address, &bytes); err != nil {
		return err
	}
	runtime.LockOSThread()
	driver, err := cuda.Load()
	if err != nil {
		return err
	}
	d, err := driver.Open(0, "")
	if err != nil {
		return err
	}
	s, err := d.NewStream()
	if err != nil {
		return err
	}
	f, err := fdpass.Take(context.Background(), address)
	if err != nil {
		return err
	}
	p, err := d.ImportVirtual(f, bytes)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	own, err := d.Alloc(bytes)
	if err != nil {
		return err
	}
	rate, err := copied(d, s, own, p, bytes)
	if err == nil {
		err = find(d, s, own, bytes, fromOwner)
	}
	if err == nil {
		err = errors.Join(d.Set(s, own, fromPeer, bytes), d.Copy(s, p, own, bytes/2), s.Synchronize())
	}
	if err != nil {
		return err
	}
	fmt.Printf("mapped, read and written: %.1f GB/s\n", rate)
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	err = errors.Join(find(d, s, p, bytes/2, fromPeer), find(d, s, p.Add(bytes/2), bytes/2, fromOwner), d.Free(p))
	if err == nil && d.Free(p) == nil {
		err = errors.New("memory was freed twice")
	}
	return err
}

// copied returns the rate of the faster of several copies, in 1e9 bytes per second.
func copied(d *gpu.Device, s accel.Stream, dst, src accel.Ptr, bytes int64) (rate float64, err error) {
	for range 5 {
		start := time.Now()
		if err := errors.Join(d.Copy(s, dst, src, bytes), s.Synchronize()); err != nil {
			return 0, err
		}
		rate = max(rate, float64(bytes)/time.Since(start).Seconds()/1e9)
	}
	return rate, nil
}

// find returns an error unless every byte is value.
func find(d *gpu.Device, s accel.Stream, p accel.Ptr, bytes int64, value byte) error {
	got, err := accel.Read[byte](d, s, p, int(bytes))
	if err != nil {
		return err
	}
	if at := slices.IndexFunc(got, func(b byte) bool { return b != value }); at >= 0 {
		return fmt.Errorf("byte %d is %#x and not %#x", at, got[at], value)
	}
	return nil
}

// shared is memory that a peer has mapped, read and half written.
type shared struct {
	p     accel.Ptr
	bytes int64
	offer *fdpass.Offer
	peer  *exec.Cmd
	in    io.Writer
	out   *bufio.Reader
}

func share(t *testing.T, d *gpu.Device, s accel.Stream, bytes int64) (m shared) {
	t.Helper()
	var err error
	m.p, err = d.AllocVirtual(bytes)
	require.NoError(t, err)
	require.NoError(t, d.Set(s, m.p, fromOwner, bytes))
	require.NoError(t, s.Synchronize())
	f, mapped, err := d.ExportVirtual(m.p)
	require.NoError(t, err)
	require.GreaterOrEqual(t, mapped, bytes)
	require.NoError(t, d.Set(s, m.p, fromOwner, mapped))
	require.NoError(t, s.Synchronize())
	m.bytes = mapped
	m.offer, err = fdpass.NewOffer(f)
	require.NoError(t, err)
	m.peer = exec.CommandContext(t.Context(), os.Args[0])
	m.peer.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", peerVariable, m.offer.Address(), mapped))
	m.peer.Stderr = os.Stderr
	m.in, err = m.peer.StdinPipe()
	require.NoError(t, err)
	out, err := m.peer.StdoutPipe()
	require.NoError(t, err)
	m.out = bufio.NewReader(out)
	require.NoError(t, m.peer.Start())
	said, err := m.out.ReadString('\n')
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(said, "mapped, read and written"), said)
	t.Logf("another process copies %d bytes of it: %s", mapped, strings.TrimSpace(said))
	return m
}

// ends lets the peer go on, and requires that it finds what it should.
func (m *shared) ends(t *testing.T) {
	t.Helper()
	_, err := io.WriteString(m.in, "go on\n")
	require.NoError(t, err)
	rest, _ := io.ReadAll(m.out)
	require.NoError(t, m.peer.Wait(), "%s", rest)
}

// opened is the first device and a stream of it.
func opened(t *testing.T) (*gpu.Device, accel.Stream) {
	t.Helper()
	setUp(t)
	d := open(t, 0)
	s, err := d.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return d, s
}

// Another process on the same device maps memory by the descriptor that it was given, reads what is
// there and writes what the owner then finds.
func TestMemoryOfAnotherProcess(t *testing.T) {
	d, s := opened(t)
	before, _, err := d.Memory()
	require.NoError(t, err)
	for _, bytes := range []int64{1, 64<<20 + 1} {
		m := share(t, d, s, bytes)
		require.NoError(t, find(d, s, m.p, m.bytes/2, fromPeer))
		require.NoError(t, find(d, s, m.p.Add(m.bytes/2), m.bytes/2, fromOwner))
		m.ends(t)
		require.NoError(t, m.offer.Close())
		require.NoError(t, d.Free(m.p))
	}
	after, _, err := d.Memory()
	require.NoError(t, err)
	require.InDelta(t, before, after, 64<<20)
}

// Memory that its owner has freed stays with a process that has it mapped.
func TestMemoryOutlivesItsOwner(t *testing.T) {
	d, s := opened(t)
	m := share(t, d, s, 4<<20)
	require.NoError(t, m.offer.Close())
	require.NoError(t, d.Free(m.p))
	again, err := d.AllocVirtual(m.bytes) // which must be other memory
	require.NoError(t, err)
	require.NoError(t, d.Set(s, again, 0x77, m.bytes))
	require.NoError(t, s.Synchronize())
	m.ends(t)
	require.NoError(t, d.Free(again))
}

// A process that is killed with the memory mapped takes nothing along.
func TestKilledPeerLeavesTheMemory(t *testing.T) {
	d, s := opened(t)
	m := share(t, d, s, 4<<20)
	require.NoError(t, m.peer.Process.Kill())
	require.Error(t, m.peer.Wait())
	require.NoError(t, find(d, s, m.p, m.bytes/2, fromPeer))
	require.NoError(t, d.Set(s, m.p, fromOwner, m.bytes))
	require.NoError(t, find(d, s, m.p, m.bytes, fromOwner))
	require.NoError(t, m.offer.Close())
	require.NoError(t, d.Free(m.p))
}

// What cannot be shared or mapped is refused with the driver's call.
func TestSharingIsRefused(t *testing.T) {
	setUp(t)
	d := open(t, 0)
	plain, err := d.Alloc(2 << 20)
	require.NoError(t, err)
	_, _, err = d.ExportVirtual(plain)
	require.EqualError(t, err, "export virtual memory: AllocVirtual did not allocate it")
	require.NoError(t, d.Free(plain))

	ordinary, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer ordinary.Close()
	_, err = d.ImportVirtual(ordinary, 2<<20)
	require.ErrorContains(t, err, "cuMemImportFromShareableHandle: ")
	p, err := d.AllocVirtual(2 << 20)
	require.NoError(t, err)
	f, bytes, err := d.ExportVirtual(p)
	require.NoError(t, err)
	defer f.Close()
	_, err = d.ImportVirtual(f, 2*bytes)
	require.ErrorContains(t, err, "cuMemMap: ", "more than there is")
	require.NoError(t, d.Free(p))
}

// What a driver or a device lacks is named, before anything is made.
func TestSharingThatIsUnsupported(t *testing.T) {
	setUpStandIn(t)
	d := open(t, 0)
	t.Setenv("CX_FAKE_VMM_FD", "0")
	_, err := d.ImportVirtual(os.Stdin, 2<<20)
	require.ErrorIs(t, err, accel.ErrUnsupported)
	require.EqualError(t, err, "share virtual memory by file descriptors (attribute 103 of device 0 is 0): not supported by this device")
	t.Setenv("CX_CUDA_LIB", fakes.OldCUDA(t, "cuMemExportToShareableHandle"))
	d = open(t, 0)
	p, err := d.AllocVirtual(1)
	require.NoError(t, err)
	_, _, err = d.ExportVirtual(p)
	require.EqualError(t, err, "share virtual memory by file descriptors (CUDA 13.0 lacks the functions): not supported by this device")
	require.NoError(t, d.Free(p))
}

// rules calls the driver in other orders than package gpu does, and prints what it answers: fine or
// refused. Its arguments are the library and what that is.
const rules = `
import ctypes, os, sys
cuda = ctypes.CDLL(sys.argv[1])
u64, size, byref = ctypes.c_uint64, ctypes.c_size_t, ctypes.byref

class Prop(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int) for n in ("type", "handles", "location", "id")] + [("rest", u64 * 2)]

class Access(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int) for n in ("location", "id", "flags")]

def must(name, *args):
    code = getattr(cuda, name)(*args)
    assert code == 0, (name, code)

def says(what, name, *args):
    print(what + ":", "refused" if getattr(cuda, name)(*args) else "fine")

context, n = ctypes.c_void_p(), size()
must("cuInit", 0)
must("cuDevicePrimaryCtxRetain", byref(context), 0)
must("cuCtxSetCurrent", context)
private, file = Prop(1, 0, 1, 0), Prop(1, 1, 1, 0)
must("cuMemGetAllocationGranularity", byref(n), byref(file), 1)
memory, own, again, at, descriptor, handle = u64(), u64(), u64(), u64(), ctypes.c_int(-1), ctypes.create_string_buffer(64)
rw = Access(1, 0, 3)

says("less than the unit", "cuMemCreate", byref(memory), size(n.value - 4096), byref(file), u64(0))
must("cuMemCreate", byref(own), n, byref(private), u64(0))
says("export of memory without handles", "cuMemExportToShareableHandle", byref(descriptor), own, 1, u64(0))
must("cuMemRelease", own)
must("cuMemCreate", byref(memory), n, byref(file), u64(0))
says("export by another handle", "cuMemExportToShareableHandle", ctypes.create_string_buffer(64), memory, 8, u64(0))
must("cuMemExportToShareableHandle", byref(descriptor), memory, 1, u64(0))
must("cuMemAddressReserve", byref(at), n, n, u64(0), u64(0))
says("access before it is mapped", "cuMemSetAccess", at, n, byref(rw), size(1))
says("map half of it", "cuMemMap", at, size(n.value // 2), size(0), memory, u64(0))
must("cuMemMap", at, n, size(0), memory, u64(0))
says("map twice", "cuMemMap", at, n, size(0), memory, u64(0))
says("addresses freed while mapped", "cuMemAddressFree", at, n)
says("IPC handle of it", "cuIpcGetMemHandle", handle, at)
if sys.argv[2] == "stand-in": # a device would fault for good
    says("used without access", "cuMemsetD8Async", at, ctypes.c_ubyte(7), size(64), None)
must("cuMemSetAccess", at, n, byref(rw), size(1))
says("IPC handle of it, with access", "cuIpcGetMemHandle", handle, at)
says("released while mapped", "cuMemRelease", memory)
says("used after its release", "cuMemsetD8Async", at, ctypes.c_ubyte(7), size(64), None)
says("import of the descriptor here", "cuMemImportFromShareableHandle", byref(again), ctypes.c_void_p(descriptor.value), 1)
says("release of the import", "cuMemRelease", again)
says("unmap", "cuMemUnmap", at, n)
says("unmap twice", "cuMemUnmap", at, n)
says("addresses freed", "cuMemAddressFree", at, n)
says("addresses freed twice", "cuMemAddressFree", at, n)
os.close(descriptor.value)
`

// The rules of the stand-in are those of the driver: with CX_TEST_CUDA=real it is the driver that
// has to answer so.
func TestRulesOfVirtualMemory(t *testing.T) {
	setUp(t)
	library, kind, used := "libcuda.so.1", "driver", ""
	if !onGPU() {
		library, kind, used = os.Getenv("CX_CUDA_LIB"), "stand-in", "used without access: refused\n"
	}
	out, err := exec.CommandContext(t.Context(), need.Tool(t, "python3"), "-c", rules, library, kind).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, `less than the unit: refused
export of memory without handles: refused
export by another handle: refused
access before it is mapped: refused
map half of it: refused
map twice: refused
addresses freed while mapped: refused
IPC handle of it: refused
`+used+`IPC handle of it, with access: refused
released while mapped: fine
used after its release: fine
import of the descriptor here: fine
release of the import: fine
unmap: fine
unmap twice: fine
addresses freed: fine
addresses freed twice: refused
`, string(out))
}
