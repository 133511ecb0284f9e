package data_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/devicetest"
	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/collective/data"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// bench is a device with a stream and a megabyte or more.
type bench struct {
	accel.Device
	stream accel.Stream
	buf    accel.Ptr
	bytes  int64
}

// each runs body on a device of every vendor.
func each(t *testing.T, bytes int64, body func(t *testing.T, b *bench)) {
	t.Helper()
	devicetest.Each(t, func(t *testing.T, d accel.Device, s accel.Stream) {
		buf, err := d.Alloc(bytes)
		require.NoError(t, err)
		body(t, &bench{Device: d, stream: s, buf: buf, bytes: bytes})
		require.NoError(t, d.Free(buf))
	})
}

func (b *bench) contents(t *testing.T) []byte {
	t.Helper()
	out := make([]byte, b.bytes)
	require.NoError(t, b.CopyOut(b.stream, unsafe.Pointer(&out[0]), b.buf, b.bytes))
	require.NoError(t, b.stream.Synchronize())
	return out
}

// change flips the top bit of the byte at an offset of the buffer.
func (b *bench) change(t *testing.T, at int64) {
	t.Helper()
	var v byte
	require.NoError(t, b.CopyOut(b.stream, unsafe.Pointer(&v), b.buf.Add(at), 1))
	require.NoError(t, b.stream.Synchronize())
	v ^= 0x80
	require.NoError(t, b.CopyIn(b.stream, b.buf.Add(at), unsafe.Pointer(&v), 1))
	require.NoError(t, b.stream.Synchronize())
}

func kernelData(t *testing.T, b *bench) runner.Data {
	t.Helper()
	d, err := data.New(t.Context(), b.Device)
	require.NoError(t, err)
	require.Equal(t, "device", d.CheckedBy())
	return d
}

// regions are parts of every kind that a buffer is made of, with indexes beyond
// 32 bits.
func regions(world int, reduced bool) []workload.Region {
	out := []workload.Region{
		{Offset: 3, Count: 700, First: 11, Source: 0},
		{Offset: 703, Count: 1, First: 1 << 33, Source: world - 1},
		{Offset: 704, Count: 0, First: 5, Source: 0},
	}
	if reduced {
		out = append(out, workload.Region{Offset: 710, Count: 500, First: 1<<32 - 250, Source: workload.AllRanks})
	}
	return out
}

// The kernels write what the reference writes, bit for bit, and nothing else.
func TestFillIsTheReference(t *testing.T) {
	const elements = 1300
	each(t, elements*8, func(t *testing.T, b *bench) {
		d := kernelData(t, b)
		defer d.Close()
		for _, dt := range numeric.Types() {
			for op := workload.Sum; op <= workload.NoRedOp; op++ {
				for _, world := range []int{1, 2, 3, 4, 6, 8, 72} {
					p, err := workload.NewPattern(dt, op, world, uint32(world)<<8|uint32(op))
					require.NoError(t, err)
					host := data.ReferenceOf(p)
					rs := regions(world, op != workload.NoRedOp)
					want := bytes.Repeat([]byte{0xa5}, int(b.bytes))
					for _, step := range []struct {
						host   func([]byte, []workload.Region)
						device func(accel.Stream, workload.Pattern, accel.Ptr, []workload.Region) error
					}{{host.Poison, d.Poison}, {host.Fill, d.Fill}} {
						require.NoError(t, b.Set(b.stream, b.buf, 0xa5, b.bytes))
						require.NoError(t, step.device(b.stream, p, b.buf, rs))
						step.host(want, rs)
						require.Equal(t, want, b.contents(t), "%s %s of %d", dt, op, world)
					}
					v, err := d.Check(b.stream, p, b.buf, rs)
					require.NoError(t, err)
					require.Equal(t, host.Check(want, rs), v)
				}
			}
		}
	})
}

// A wrong element is found wherever it is, by the kernels and by the copy on
// the host alike.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	each(t, 1<<17, func(t *testing.T, b *bench) {
		kernels := kernelData(t, b)
		defer kernels.Close()
		for _, dt := range numeric.Types() {
			size := int64(dt.Size())
			p, err := workload.NewPattern(dt, workload.Sum, 4, 7)
			require.NoError(t, err)
			n := b.bytes / size
			rs := []workload.Region{{Count: n / 2, Source: workload.AllRanks}, {Offset: n / 2, Count: n / 2, First: n / 2, Source: workload.AllRanks}}
			require.NoError(t, kernels.Fill(b.stream, p, b.buf, rs))
			for _, d := range []runner.Data{kernels, data.NewCopied(b.Device)} {
				v, err := d.Check(b.stream, p, b.buf, rs)
				require.NoError(t, err)
				require.Equal(t, workload.Verdict{Checked: n, First: -1}, v, "%s by %s", dt, d.CheckedBy())
				bad := []int64{0, n / 2, n - 1}
				for _, at := range bad {
					b.change(t, at*size+size-1)
				}
				for i, at := range bad {
					v, err := d.Check(b.stream, p, b.buf, rs)
					require.NoError(t, err)
					require.Equal(t, workload.Verdict{Checked: n, Wrong: int64(len(bad) - i), First: at}, v, "%s by %s", dt, d.CheckedBy())
					b.change(t, at*size+size-1)
				}
			}
			// Poison is wrong everywhere.
			require.NoError(t, data.NewCopied(b.Device).Poison(b.stream, p, b.buf, rs))
			v, err := kernels.Check(b.stream, p, b.buf, rs)
			require.NoError(t, err)
			require.Equal(t, workload.Verdict{Checked: n, Wrong: n, First: 0}, v)
			require.NoError(t, data.NewCopied(b.Device).Fill(b.stream, p, b.buf, rs))
			v, err = kernels.Check(b.stream, p, b.buf, rs)
			require.NoError(t, err)
			require.Zero(t, v.Wrong)
		}
	})
}

// An average over a world that is no power of two may be off by one unit in the
// last place, and by no more.
func TestCheckTolerance(t *testing.T) {
	each(t, 4096, func(t *testing.T, b *bench) {
		d := kernelData(t, b)
		defer d.Close()
		p, err := workload.NewPattern(numeric.Float, workload.Avg, 3, 1)
		require.NoError(t, err)
		rs := []workload.Region{{Count: 1, Source: workload.AllRanks}}
		for off, wrong := range []int64{0, 0, 1} {
			v := uint32(data.ReferenceOf(p).Expected(0)) + uint32(off)
			require.NoError(t, b.CopyIn(b.stream, b.buf, unsafe.Pointer(&v), 4))
			require.NoError(t, b.stream.Synchronize())
			got, err := d.Check(b.stream, p, b.buf, rs)
			require.NoError(t, err)
			require.Equal(t, wrong, got.Wrong, "%d units off", off)
		}
	})
}

// One wrong element in a gibibyte is found; the stand-ins, which run kernels on
// the processor, have a smaller buffer.
func TestOneWrongElement(t *testing.T) {
	bytes := int64(16 << 20)
	if devicetest.Real() {
		bytes = 1 << 30
	}
	each(t, bytes, func(t *testing.T, b *bench) {
		d := kernelData(t, b)
		defer d.Close()
		p, err := workload.NewPattern(numeric.Double, workload.Sum, 2, 3)
		require.NoError(t, err)
		n := bytes / 8
		rs := []workload.Region{{Count: n, Source: workload.AllRanks}}
		require.NoError(t, d.Fill(b.stream, p, b.buf, rs))
		at := n/3*2 + 1
		b.change(t, at*8+7)
		v, err := d.Check(b.stream, p, b.buf, rs)
		require.NoError(t, err)
		require.Equal(t, workload.Verdict{Checked: n, Wrong: 1, First: at}, v)
	})
}

// Where nothing compiles kernels the host checks, and says so.
func TestWithoutCompiler(t *testing.T) {
	if devicetest.Real() {
		t.Skip("a real machine keeps its compiler")
	}
	fakes.Build(t).UseWithoutKernels(t)
	t.Setenv("CX_NVRTC_LIB", "/nowhere/libnvrtc.so")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	driver, err := cuda.Load()
	require.NoError(t, err)
	dev, err := driver.Open(0, t.TempDir())
	require.NoError(t, err)
	defer dev.Close()
	d, err := data.New(t.Context(), dev)
	require.NoError(t, err, fmt.Sprint(err))
	require.Equal(t, "host", d.CheckedBy())
	require.NoError(t, d.Close())
}
