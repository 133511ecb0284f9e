package cuda_test

import (
	_ "embed" // the kernels
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/compilers"
	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/kernels"
	"github.com/collectivex/collectivex/pkg/numeric"
)

//go:embed testdata/smoke.cu
var source string

// smokeSource is the source of the kernels that the contract is tested with, ready to compile.
func smokeSource() string { return kernels.Complete(source) }

func TestRealCompilersTakeTheKernels(t *testing.T) {
	t.Run("NVRTC", func(t *testing.T) { compilers.NVRTC(t, "smoke.cu", smokeSource()) })
	t.Run("HIPRTC", func(t *testing.T) { compilers.HIPRTC(t, "smoke.cu", smokeSource()) })
}

func smoke(t *testing.T, d accel.Device) accel.Module {
	t.Helper()
	fakes.NeedKernels(t)
	m, err := d.Compile(t.Context(), "smoke.cu", smokeSource())
	require.NoError(t, err)
	return m
}

func kernel(t *testing.T, m accel.Module, name string) accel.Kernel {
	t.Helper()
	k, err := m.Kernel(name)
	require.NoError(t, err)
	return k
}

// smokeArgs are the parameters of cx_smoke.
type smokeArgs struct {
	in, out, count accel.Ptr
	n              uint64
	scale          uint32
	first          uint8
}

// smokeInput is n elements on the device, their values on the host, and room
// for the output and the count.
type smokeInput struct {
	*smokeArgs
	values []uint32
}

func newSmokeInput(t *testing.T, d accel.Device, s accel.Stream, n int) *smokeInput {
	t.Helper()
	x := &smokeInput{&smokeArgs{n: uint64(n), scale: 2654435761, first: 201}, make([]uint32, n)}
	for i := range x.values {
		x.values[i] = uint32(i * i)
	}
	x.in, x.out, x.count = alloc(t, d, 4*n), alloc(t, d, 4*n), alloc(t, d, 8)
	copyIn(t, d, s, x.in, x.values)
	copyIn(t, d, s, x.count, []uint64{0})
	return x
}

func (x *smokeInput) launch(t *testing.T, k accel.Kernel, s accel.Stream, grid, block uint32) {
	t.Helper()
	require.NoError(t, k.Launch(s, grid, block, 0, unsafe.Pointer(&x.in), unsafe.Pointer(&x.out), unsafe.Pointer(&x.count),
		unsafe.Pointer(&x.n), unsafe.Pointer(&x.scale), unsafe.Pointer(&x.first)))
}

func (x *smokeInput) check(t *testing.T, d accel.Device, s accel.Stream, launches uint64) {
	t.Helper()
	require.Equal(t, []uint64{launches * x.n}, copyOut[uint64](t, d, s, x.count, 1))
	for i, got := range copyOut[uint32](t, d, s, x.out, int(x.n)) {
		require.Equal(t, x.values[i]*x.scale+uint32(x.first)+uint32(i), got, "element %d", i)
	}
}

func (x *smokeInput) free(t *testing.T, d accel.Device) {
	t.Helper()
	for _, p := range []accel.Ptr{x.in, x.out, x.count} {
		require.NoError(t, d.Free(p))
	}
}

func testKernel(t *testing.T, d accel.Device) {
	s := stream(t, d)
	defer s.Close()
	m := smoke(t, d)
	k := kernel(t, m, "cx_smoke")
	for _, shape := range []struct {
		n           int
		grid, block uint32
	}{{1, 1, 1}, {1000, 1, 64}, {1000, 7, 128}, {65_537, 13, 256}, {5000, 3, 1024}} {
		x := newSmokeInput(t, d, s, shape.n)
		x.launch(t, k, s, shape.grid, shape.block)
		x.check(t, d, s, 1)
		x.free(t, d)
	}
	require.NoError(t, m.Close())
}

func testKernelGraph(t *testing.T, d accel.Device) {
	s := stream(t, d)
	defer s.Close()
	m := smoke(t, d)
	k := kernel(t, m, "cx_smoke")
	x := newSmokeInput(t, d, s, 1000)
	g := capture(t, s, func() {
		x.launch(t, k, s, 4, 64)
		x.launch(t, k, s, 4, 64)
	})
	for range 3 {
		require.NoError(t, g.Launch(s))
	}
	x.check(t, d, s, 6)
	require.NoError(t, g.Close())
	x.free(t, d)
	require.NoError(t, m.Close())
}

// The kernels' codecs are package numeric's, bit for bit.
func testSmallFloats(t *testing.T, d accel.Device) {
	s := stream(t, d)
	defer s.Close()
	m := smoke(t, d)
	encode, decode := kernel(t, m, "cx_smoke_encode"), kernel(t, m, "cx_smoke_decode")

	// Every 16-bit pattern as the top of a float, with tails that round up, down
	// and to even, then floats with any bits.
	var x []float32
	for top := range uint32(1 << 16) {
		for _, tail := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001} {
			x = append(x, math.Float32frombits(top<<16|tail))
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		x = append(x, math.Float32frombits(r.Uint32()))
	}
	n := uint64(len(x))
	in, codes := alloc(t, d, 4*len(x)), alloc(t, d, 20*len(x))
	copyIn(t, d, s, in, x)
	require.NoError(t, encode.Launch(s, 64, 256, 0, unsafe.Pointer(&in), unsafe.Pointer(&codes), unsafe.Pointer(&n)))
	got := copyOut[uint32](t, d, s, codes, 5*len(x))
	for i, v := range x {
		want := [5]uint32{
			uint32(numeric.BF16(v)), uint32(numeric.FP16(v)),
			uint32(numeric.E4M3FN.Encode(v)), uint32(numeric.E4M3FNUZ.Encode(v)), uint32(numeric.E5M2.Encode(v)),
		}
		if want != [5]uint32(got[5*i:]) {
			require.Equal(t, want, [5]uint32(got[5*i:]), "encode %x (%v)", math.Float32bits(v), v)
		}
	}

	n = 1 << 16
	require.NoError(t, decode.Launch(s, 64, 256, 0, unsafe.Pointer(&codes), unsafe.Pointer(&n)))
	got = copyOut[uint32](t, d, s, codes, 5<<16)
	for i := range 1 << 16 {
		want := [5]float32{
			numeric.FromBF16(uint16(i)), numeric.FromFP16(uint16(i)),
			numeric.E4M3FN.Decode(byte(i)), numeric.E4M3FNUZ.Decode(byte(i)), numeric.E5M2.Decode(byte(i)),
		}
		for f, w := range want {
			bits := got[5*i+f]
			if w != w { // which NaN it is does not matter
				require.True(t, bits&0x7fffffff > 0x7f800000, "decode %#x of format %d: %#x is no NaN", i, f, bits)
				continue
			}
			if bits != math.Float32bits(w) {
				require.Equal(t, math.Float32bits(w), bits, "decode %#x of format %d", i, f)
			}
		}
	}
	require.NoError(t, d.Free(in))
	require.NoError(t, d.Free(codes))
	require.NoError(t, m.Close())
}

func testKernelErrors(t *testing.T, d accel.Device) {
	s := stream(t, d)
	defer s.Close()
	fakes.NeedKernels(t)
	_, err := d.Compile(t.Context(), "broken.cu", "extern \"C\" __global__ void k() { no_such_name(); }\n")
	oneLine(t, err, "compile broken.cu for "+d.Info().Arch, "no_such_name")

	m := smoke(t, d)
	_, err = m.Kernel("cx_no_such_kernel")
	oneLine(t, err, "kernel cx_no_such_kernel: ")
	k := kernel(t, m, "cx_smoke")
	var args [17]unsafe.Pointer
	require.ErrorContains(t, k.Launch(s, 1, 1, 0, args[:]...), "at most 16")
	x := newSmokeInput(t, d, s, 10)
	good := []unsafe.Pointer{
		unsafe.Pointer(&x.in), unsafe.Pointer(&x.out), unsafe.Pointer(&x.count),
		unsafe.Pointer(&x.n), unsafe.Pointer(&x.scale), unsafe.Pointer(&x.first),
	}
	require.Error(t, k.Launch(s, 0, 64, 0, good...), "an empty grid")
	require.Error(t, k.Launch(s, 1, 1<<20, 0, good...), "a block that is too large")
	x.launch(t, k, s, 1, 64)
	x.check(t, d, s, 1)
	x.free(t, d)
	require.NoError(t, m.Close())
}
