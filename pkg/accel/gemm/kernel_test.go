package gemm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/compilers"
	"github.com/collectivex/collectivex/internal/devicetest"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/numeric"
)

func TestRealCompilersTakeTheKernels(t *testing.T) {
	t.Run("NVRTC", func(t *testing.T) { compilers.NVRTC(t, "gemm.cu", source()) })
	t.Run("HIPRTC", func(t *testing.T) { compilers.HIPRTC(t, "gemm.cu", source()) })
}

// On each vendor's device (CX_TEST_CUDA=real: on this machine's GPU), the kernels write the
// matrices and products that the host writes, in every type, and find what is wrong in them
// where it is.
func TestKernelsAgreeWithTheLoop(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, d accel.Device, s accel.Stream) {
		g, err := NewDevice(t.Context(), d)
		require.NoError(t, err)
		for _, dtype := range Types() {
			for _, shape := range []Shape{{M: 70, N: 130, K: 50}, {M: 3, N: 2, K: 2}, {M: 5, N: 7, K: 1}, {M: 93, N: 14, K: 467}} {
				products(t, d, s, g, dtype, shape)
			}
		}
		require.NoError(t, g.Close())
	})
}

// products holds two products of a shape against the host.
func products(t *testing.T, d accel.Device, s accel.Stream, g *Device, dtype numeric.Type, shape Shape) {
	size := int64(dtype.Size())
	left, right := matrices(dtype, 21, shape.K)
	read := func(at accel.Ptr, elements int64) []byte {
		data, err := accel.Read[byte](d, s, at, int(elements*size))
		require.NoError(t, err)
		return data
	}
	memory, err := d.Alloc(1 << 20)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Free(memory)) }()
	a, b := memory, memory.Add(256<<10)
	c := Outputs{At: memory.Add(512 << 10), Stride: 128 << 10, Count: 2}
	elements := shape.M * shape.N
	for _, m := range []struct {
		at accel.Ptr
		v  Values
		n  int64
	}{{a, left, shape.M * shape.K}, {b, right, shape.N * shape.K}} {
		require.NoError(t, g.Fill(s, m.at, m.v, 0, m.n))
		data := read(m.at, m.n)
		v, err := Inline{}.Check(nil, ptr(data), m.v, 0, m.n)
		require.NoError(t, err)
		require.Zero(t, v.Wrong)
		v, err = g.Check(s, m.at, m.v, 0, m.n)
		require.NoError(t, err)
		require.Equal(t, m.n, v.Checked)
		require.Zero(t, v.Wrong)
		other := m.v
		other.Seed = 99
		v, err = g.Check(s, m.at, other, 0, m.n)
		require.NoError(t, err)
		host, err := Inline{}.Check(nil, ptr(data), other, 0, m.n)
		require.NoError(t, err)
		require.Equal(t, host, v)
		if m.v.Right && m.v.Columns == 1 {
			require.Zero(t, v.Wrong, "all elements are 1")
		} else {
			require.Positive(t, v.Wrong)
		}
	}
	for i := range c.Count {
		multiply(t, g.Kernel(), s, Product{shape, dtype, a, b, c.At.Add(int64(i) * c.Stride)})
	}
	v, err := g.CheckProducts(s, c, shape, left, right)
	require.NoError(t, err)
	require.Equal(t, 2*elements, v.Checked)
	require.Zero(t, v.Wrong, "%s %v", dtype, shape)
	data := read(c.At, elements)
	host, err := Inline{}.CheckProducts(nil, Outputs{ptr(data), 0, 1}, shape, left, right)
	require.NoError(t, err)
	require.Zero(t, host.Wrong)

	wrong := elements / 2
	at := c.At.Add(c.Stride + (wrong+1)*size).Add(-1)
	word, err := accel.Read[byte](d, s, at, 1)
	require.NoError(t, err)
	word[0] ^= 0x40
	require.NoError(t, accel.Write(d, s, at, word))
	v, err = g.CheckProducts(s, c, shape, left, right)
	require.NoError(t, err)
	require.Equal(t, int64(1), v.Wrong)
	require.Equal(t, wrong, v.First)
	_, err = g.Kernel().Prepare(Product{shape, numeric.Double, a, b, c.At})
	require.ErrorContains(t, err, "unsupported element type double")
}
