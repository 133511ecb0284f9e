package gemm

import (
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/planner"
)

// ptr returns the address of a slice, which stays there until the tests end.
func ptr[T any](s []T) accel.Ptr {
	kept.Lock()
	defer kept.Unlock()
	kept.all = append(kept.all, s)
	return accel.Ptr(uintptr(unsafe.Pointer(&s[0])))
}

// kept are the slices that C reads. They are on the heap, because stacks move.
var kept struct {
	sync.Mutex
	all []any
}

// multiply prepares and enqueues a product.
func multiply(t *testing.T, e Engine, s accel.Stream, p Product) {
	t.Helper()
	enqueue, err := e.Prepare(p)
	require.NoError(t, err)
	require.NoError(t, enqueue(s))
}

// mantissa is the number of bits of a type's mantissa, the first one included.
func mantissa(t numeric.Type) int {
	return map[numeric.Type]int{numeric.Float: 24, numeric.Half: 11, numeric.BFloat16: 8}[t]
}

// value is the definition of Values in Go: element k of a row.
func value(v Values, row, k int64) int32 {
	mix := func(x uint32) uint32 {
		x ^= x >> 16
		x *= 0x7feb352d
		x ^= x >> 15
		x *= 0x846ca68b
		return x ^ x>>16
	}
	hash := func(i int64) uint32 { return mix(mix(v.Seed^uint32(i)) + uint32(uint64(i)>>32)) }
	own, other := int64(0), int32(-1) // the wide element's columns, and what is in the other matrix's
	if v.Right {
		own, other = 1, 1
	}
	switch of, h := (v.Columns-own+15)/16, hash(-1-row); {
	case k%16 == 1-own:
		return other
	case k%16 == own && k/16 == int64(h)%of:
		p := mantissa(v.Type)
		x := int32(1)<<(p-1) + int32(mix(h)%(1<<(p-2)))
		if !v.Right {
			x |= 1
		}
		if v.Type == numeric.Float {
			return x
		}
		return 16 * x
	}
	h := hash(row*v.Columns + k)
	magnitude := int32(1 + h>>30&1)
	if h>>31 == 1 {
		return -magnitude
	}
	return magnitude
}

// matrices are the values of both factors of a product.
func matrices(t numeric.Type, seed uint32, depth int64) (left, right Values) {
	return Values{t, seed, depth, false}, Values{t, seed + 1, depth, true}
}

// row returns a row of a matrix as Fill writes it.
func row(t *testing.T, v Values, n int64) []float32 {
	t.Helper()
	codes, out := make([]uint16, 2*v.Columns), make([]float32, v.Columns)
	require.NoError(t, Inline{}.Fill(nil, ptr(codes), v, n*v.Columns, v.Columns))
	for i := range out {
		switch v.Type {
		case numeric.Half:
			out[i] = numeric.FromFP16(codes[i])
		case numeric.BFloat16:
			out[i] = numeric.FromBF16(codes[i])
		default:
			out[i] = math.Float32frombits(uint32(codes[2*i]) | uint32(codes[2*i+1])<<16)
		}
	}
	return out
}

// planned returns the types and depths of all products that the shipped suites ask for.
func planned() map[numeric.Type]map[int64]bool {
	all := map[numeric.Type]map[int64]bool{}
	for q := range plantest.Resolve(plantest.Shipped(), planner.Filters{}).Requested() {
		if overlap.Of(&q.Case) == nil {
			continue
		}
		t, err := numeric.ParseType(q.Case.Precision)
		for _, r := range overlap.Asked(&q.Case) {
			if err == nil && all[t] == nil {
				all[t] = map[int64]bool{}
			}
			all[t][r.ProductK] = true
		}
	}
	return all
}

// A row needs the whole mantissa of its type, once; and no sum of an element is rounded: in no
// order, in parts or in one, at the depths of the shipped suites, at random ones and at the maximum.
func TestSumsAreExactInAnyOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	depths := planned()
	require.Contains(t, depths, numeric.Float)
	require.Contains(t, depths, numeric.BFloat16)
	for _, dtype := range Types() {
		list := slices.AppendSeq([]int64{1, 2, 15, 16, 17, 33, 48, maxDepth}, maps.Keys(depths[dtype]))
		for range 20 {
			list = append(list, 1+rng.Int64N(5000))
		}
		for _, k := range list {
			left, right := matrices(dtype, rng.Uint32(), k)
			n := rng.Int64N(1 << 40 / k)
			a, b := row(t, left, n), row(t, right, n)
			terms, sum := make([]float32, k), int64(0)
			wide := [2]int{}
			for i := range terms {
				x, y := value(left, n, int64(i)), value(right, n, int64(i))
				if float32(x) != a[i] || float32(y) != b[i] || float64(a[i])*float64(b[i]) != float64(a[i]*b[i]) {
					require.FailNow(t, "wrong element", "%s, element %d of %d: %v and %v, not %d and %d", dtype, i, k, a[i], b[i], x, y)
				}
				for side, v := range []int32{x, y} {
					if needs := bits.Len32(uint32(v)) - bits.TrailingZeros32(uint32(v)); v > 2 && (side == 1 || needs == mantissa(dtype)) {
						wide[side]++
					}
				}
				terms[i] = a[i] * b[i]
				sum += int64(x) * int64(y)
			}
			require.Equal(t, [2]int{1, min(1, int(k-1))}, wide, "%s, %d columns", dtype, k)
			for name, ordered := range orders(rng, terms) {
				for _, parts := range []int{1, 2 + rng.IntN(30)} {
					require.Equal(t, sum, int64(added(ordered, parts)), "%s, %d columns, %s, in %d parts", dtype, k, name, parts)
				}
			}
		}
	}
}

// orders returns terms in the orders whose partial sums are the largest and the smallest, and in a
// random one.
func orders(rng *rand.Rand, terms []float32) map[string][]float32 {
	var positive, negative []float32
	for _, x := range terms {
		if x > 0 {
			positive = append(positive, x)
		} else {
			negative = append(negative, x)
		}
	}
	shuffled := slices.Clone(terms)
	rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	return map[string][]float32{
		"as they are": terms, "positive first": slices.Concat(positive, negative), "negative first": slices.Concat(negative, positive), "shuffled": shuffled,
	}
}

// added adds terms in float32: first in so many parts, then these from the last on.
func added(terms []float32, parts int) (total float32) {
	for part := parts - 1; part >= 0; part-- {
		var sum float32
		for _, x := range terms[len(terms)*part/parts : len(terms)*(part+1)/parts] {
			sum += x
		}
		total += sum
	}
	return total
}

// The loop, the values and the check of products agree with sums that are written out here, in
// shapes that are no multiples of anything.
func TestLoopIsExact(t *testing.T) {
	shape := Shape{M: 5, N: 7, K: 37}
	a, b, c := make([]float32, 5*37), make([]float32, 7*37), make([]float32, 5*7)
	left, right := matrices(numeric.Float, 3, shape.K)
	d := Inline{}
	require.NoError(t, d.Fill(nil, ptr(a), left, 0, int64(len(a))))
	require.NoError(t, d.Fill(nil, ptr(b), right, 0, int64(len(b))))
	multiply(t, Loop{}, nil, Product{Shape: shape, Type: numeric.Float, A: ptr(a), B: ptr(b), C: ptr(c)})
	seen := map[int32]bool{}
	for i := range shape.M {
		for j := range shape.N {
			var sum int32
			for k := range shape.K {
				x := value(left, i, k)
				seen[x] = true
				require.Equal(t, float32(x), a[i*shape.K+k])
				sum += x * value(right, j, k)
			}
			require.Equal(t, float32(sum), c[i*shape.N+j])
		}
	}
	require.Len(t, seen, 4+int(shape.M), "-2, -1, 1, 2 and a wide one in each row")

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
	left, right := matrices(numeric.Float, 7, shape.K)
	other, _ := matrices(numeric.Float, 6, shape.K)
	for _, dtype := range Types() {
		d, left, other := Inline{}, left, other
		left.Type, other.Type = dtype, dtype
		require.NoError(t, d.Fill(nil, ptr(a), left, 0, int64(len(a))))
		v, err := d.Check(nil, ptr(a), left, 0, int64(len(a)))
		require.NoError(t, err)
		require.Equal(t, int64(len(a)), v.Checked)
		require.Zero(t, v.Wrong)
		v, err = d.Check(nil, ptr(a), other, 0, int64(len(a)))
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
	v, err = d.CheckProducts(nil, outputs, shape, other, right)
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
