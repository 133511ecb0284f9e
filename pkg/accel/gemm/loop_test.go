package gemm

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/numeric"
)

func ptr[T any](s []T) accel.Ptr { return accel.Ptr(uintptr(unsafe.Pointer(&s[0]))) }

// multiply prepares and enqueues a product.
func multiply(t *testing.T, e Engine, s accel.Stream, p Product) {
	t.Helper()
	enqueue, err := e.Prepare(p)
	require.NoError(t, err)
	require.NoError(t, enqueue(s))
}

// value is the definition of Values in Go.
func value(v Values, i int64) int32 {
	mix := func(x uint32) uint32 {
		x ^= x >> 16
		x *= 0x7feb352d
		x ^= x >> 15
		x *= 0x846ca68b
		return x ^ x>>16
	}
	h := mix(mix(v.Seed^uint32(i)) + uint32(uint64(i)>>32))
	magnitude := int32(1 + h>>30&1)
	if h>>31 == 1 {
		return -magnitude
	}
	return magnitude
}

// The loop, the values and the check of products agree with sums that are written out here, in
// shapes that are no multiples of anything.
func TestLoopIsExact(t *testing.T) {
	shape := Shape{M: 5, N: 7, K: 37}
	a, b, c := make([]float32, 5*37), make([]float32, 7*37), make([]float32, 5*7)
	left, right := Values{numeric.Float, 3}, Values{numeric.Float, 4}
	d := Inline{}
	require.NoError(t, d.Fill(nil, ptr(a), left, 0, int64(len(a))))
	require.NoError(t, d.Fill(nil, ptr(b), right, 0, int64(len(b))))
	multiply(t, Loop{}, nil, Product{Shape: shape, Type: numeric.Float, A: ptr(a), B: ptr(b), C: ptr(c)})
	seen := map[int32]bool{}
	for i := range shape.M {
		for j := range shape.N {
			var sum int32
			for k := range shape.K {
				x := value(left, i*shape.K+k)
				seen[x] = true
				require.Equal(t, float32(x), a[i*shape.K+k])
				sum += x * value(right, j*shape.K+k)
			}
			require.Equal(t, float32(sum), c[i*shape.N+j])
		}
	}
	require.Len(t, seen, 4, "-2, -1, 1 and 2")

	v, err := d.CheckProducts(nil, Outputs{ptr(c), 0, 1}, shape, left, right)
	require.NoError(t, err)
	require.Equal(t, int64(35), v.Checked)
	require.Zero(t, v.Wrong)
}

// A wrong element of a product or of a matrix is found where it is: one that is off by 1, one
// that is another's, one of the seed before.
func TestWrongElementsAreFound(t *testing.T) {
	shape := Shape{M: 4, N: 6, K: 33}
	a, b, c := make([]float32, 4*33), make([]float32, 6*33), make([]float32, 2*4*6)
	left, right := Values{numeric.Float, 7}, Values{numeric.Float, 8}
	for _, dtype := range Types() {
		d, left := Inline{}, Values{dtype, left.Seed}
		require.NoError(t, d.Fill(nil, ptr(a), left, 0, int64(len(a))))
		v, err := d.Check(nil, ptr(a), left, 0, int64(len(a)))
		require.NoError(t, err)
		require.Equal(t, int64(len(a)), v.Checked)
		require.Zero(t, v.Wrong)
		v, err = d.Check(nil, ptr(a), Values{dtype, 6}, 0, int64(len(a)))
		require.NoError(t, err)
		require.Greater(t, v.Wrong, int64(len(a)/2))
		v, err = d.Check(nil, ptr(a), left, 1, int64(len(a)-1))
		require.NoError(t, err)
		require.Greater(t, v.Wrong, int64(len(a)/2), "shifted by one")
	}
	d := Inline{}
	require.NoError(t, d.Fill(nil, ptr(a), left, 0, int64(len(a))))
	require.NoError(t, d.Fill(nil, ptr(b), right, 0, int64(len(b))))
	outputs := Outputs{ptr(c), 4 * 24, 2}
	for _, at := range []accel.Ptr{ptr(c), ptr(c[24:])} {
		multiply(t, Loop{}, nil, Product{Shape: shape, Type: numeric.Float, A: ptr(a), B: ptr(b), C: at})
	}
	c[24+9]++
	v, err := d.CheckProducts(nil, outputs, shape, left, right)
	require.NoError(t, err)
	require.Equal(t, int64(48), v.Checked)
	require.Equal(t, int64(1), v.Wrong)
	require.Equal(t, int64(9), v.First)
	v, err = d.CheckProducts(nil, outputs, shape, Values{numeric.Float, 6}, right)
	require.NoError(t, err)
	require.Greater(t, v.Wrong, int64(24), "the product of another matrix")
}

// Products that no float holds exactly are refused.
func TestInexactShapesAreRefused(t *testing.T) {
	require.NoError(t, Shape{1, 1, maxDepth}.Check())
	for _, s := range []Shape{{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {1, 1, maxDepth + 1}} {
		require.ErrorContains(t, s.Check(), "want dimensions of at least 1")
		_, err := Loop{}.Prepare(Product{Shape: s, Type: numeric.Float})
		require.ErrorContains(t, err, "want dimensions of at least 1")
	}
	_, err := Loop{}.Prepare(Product{Shape: Shape{1, 1, 1}, Type: numeric.Half})
	require.ErrorContains(t, err, "unsupported element type half")
}
