package blaslt

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/accel/gemm"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/accel/hip"
	"github.com/collectivex/collectivex/pkg/dl"
	"github.com/collectivex/collectivex/pkg/numeric"
)

func TestMain(m *testing.M) { fakes.Main(m) }

// bench is an open device, and what makes and checks matrices there.
type bench struct {
	accel.Device
	stream accel.Stream
	data   *gemm.Device
}

// on runs a test on the device of a library: a stand-in, or with CX_TEST_CUDA=real the first
// GPU of this machine.
func on(t *testing.T, kind Kind, test func(t *testing.T, b bench)) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	load := map[Kind]func() (*gpu.Driver, error){CUBLASLt: cuda.Load, HIPBLASLt: hip.Load}[kind]
	driver, err := load()
	require.NoError(t, err)
	d, err := driver.Open(0, t.TempDir())
	require.NoError(t, err)
	b := bench{Device: d}
	b.stream, err = d.NewStream()
	require.NoError(t, err)
	b.data, err = gemm.NewDevice(t.Context(), d)
	require.NoError(t, err)
	test(t, b)
	require.NoError(t, b.data.Close())
	require.NoError(t, b.stream.Close())
	require.NoError(t, d.Close())
}

// kinds are the libraries that can be tested, and whether they are real.
func kinds(t *testing.T) ([]Kind, bool) {
	t.Helper()
	if os.Getenv("CX_TEST_CUDA") == "real" {
		return []Kind{CUBLASLt}, true
	}
	fakes.Build(t).Keep(t) // HIP's devices stay open
	return []Kind{CUBLASLt, HIPBLASLt}, false
}

// product is the matrices of a product in memory of a device.
type product struct {
	gemm.Product
	left, right gemm.Values
	memory      accel.Ptr
}

// made fills the matrices of a shape. Each begins so many elements after a multiple of 512 bytes.
func (b bench) made(t *testing.T, shape gemm.Shape, dtype numeric.Type, shift int64) product {
	t.Helper()
	size := int64(dtype.Size())
	room := func(elements int64) int64 { return (elements + shift + 512) * size / 512 * 512 }
	left, right, out := room(shape.M*shape.K), room(shape.N*shape.K), room(shape.M*shape.N)
	memory, err := b.Alloc(left + right + out)
	require.NoError(t, err)
	shift *= size
	p := product{
		Product: gemm.Product{Shape: shape, Type: dtype, A: memory.Add(shift), B: memory.Add(left + shift), C: memory.Add(left + right + shift)},
		left:    gemm.Values{Type: dtype, Seed: 31, Columns: shape.K}, right: gemm.Values{Type: dtype, Seed: 32, Columns: shape.K, Right: true}, memory: memory,
	}
	require.NoError(t, b.Set(b.stream, memory, 0xff, left+right+out))
	require.NoError(t, b.data.Fill(b.stream, p.A, p.left, 0, shape.M*shape.K))
	require.NoError(t, b.data.Fill(b.stream, p.B, p.right, 0, shape.N*shape.K))
	return p
}

// wrong counts the wrong elements of a product, all of which are compared.
func (b bench) wrong(t *testing.T, p product) int64 {
	t.Helper()
	v, err := b.data.CheckProducts(b.stream, gemm.Outputs{At: p.C, Count: 1}, p.Shape, p.left, p.right)
	require.NoError(t, err)
	require.Equal(t, p.M*p.N, v.Checked)
	return v.Wrong
}

// Shapes whose sides all differ, at addresses of any alignment, are multiplied exactly in every
// type, and so are long sums, which libraries split.
func TestProductsAreExact(t *testing.T) {
	libraries, _ := kinds(t)
	for _, kind := range libraries {
		t.Run(string(kind), func(t *testing.T) {
			on(t, kind, func(t *testing.T, b bench) {
				e, err := Open(kind, b.Device)
				require.NoError(t, err)
				require.Regexp(t, `^\d+\.\d+\.\d+$`, e.Version())
				t.Logf("%s %s", e.SOName(), e.Version())
				for _, dtype := range gemm.Types() {
					for _, shape := range []gemm.Shape{{M: 8, N: 8, K: 8}, {M: 24, N: 40, K: 64}, {M: 6, N: 10, K: 14}, {M: 8, N: 8, K: 1 << 12}} {
						for _, shift := range []int64{0, 2} {
							p := b.made(t, shape, dtype, shift)
							multiply, err := e.Prepare(p.Product)
							require.NoError(t, err)
							require.Equal(t, p.M*p.N, b.wrong(t, p), "before")
							require.NoError(t, multiply(b.stream))
							require.Zero(t, b.wrong(t, p), "%s %v at %d", dtype, shape, shift)
							require.NoError(t, b.Free(p.memory))
						}
					}
				}
				require.NoError(t, e.Close())
			})
		})
	}
}

// The parts of a long sum are not rounded before they are added: a library may do that unless it is
// kept from it.
func TestLongSumsAreRoundedOnce(t *testing.T) {
	libraries, _ := kinds(t)
	for _, kind := range libraries {
		on(t, kind, func(t *testing.T, b bench) {
			e, err := Open(kind, b.Device)
			require.NoError(t, err)
			p := b.made(t, gemm.Shape{M: 8, N: 8, K: 1 << 15}, numeric.BFloat16, 0)
			multiply, err := e.Prepare(p.Product)
			require.NoError(t, err)
			require.NoError(t, multiply(b.stream))
			require.Zero(t, b.wrong(t, p), string(kind))
			require.NoError(t, b.Free(p.memory))
			require.NoError(t, e.Close())
		})
	}
}

// A library that is allowed TF32 multiplies floats with 11 bits of mantissa, and is found. On a GPU
// (CX_TEST_CUDA=real) the products are the real library's.
func TestTF32IsFound(t *testing.T) {
	libraries, real := kinds(t)
	shape := gemm.Shape{M: 96, N: 128, K: 64}
	if real {
		shape = gemm.Shape{M: 2048, N: 4096, K: 1024}
	}
	for _, kind := range libraries {
		t.Run(string(kind), func(t *testing.T) {
			allowed := *dialects[kind]
			if allowed.words.compute = 77; kind == HIPBLASLt { // CUBLAS_COMPUTE_32F_FAST_TF32
				allowed.words.compute = 6
			}
			on(t, kind, func(t *testing.T, b bench) {
				for _, of := range []struct {
					*dialect
					wrong bool
				}{{dialects[kind], false}, {&allowed, true}} {
					e, err := Open(kind, b.Device)
					require.NoError(t, err)
					e.dialect = of.dialect
					p := b.made(t, shape, numeric.Float, 0)
					multiply, err := e.Prepare(p.Product)
					require.NoError(t, err)
					require.NoError(t, multiply(b.stream))
					wrong := b.wrong(t, p)
					t.Logf("%s: %d of %d elements are wrong with compute type %d", e.SOName(), wrong, p.M*p.N, of.words.compute)
					require.Equal(t, of.wrong, wrong > p.M*p.N/2)
					require.Equal(t, of.wrong, wrong > 0)
					require.NoError(t, b.Free(p.memory))
					require.NoError(t, e.Close())
				}
			})
		})
	}
}

// A library that rounds factors to fewer bits than their type has, or sums to fewer than float has,
// is found in every type: in the first product, and in one of a plan that it made before.
func TestFewerBitsAreFound(t *testing.T) {
	libraries, real := kinds(t)
	if real {
		return
	}
	const tf32, half, bf16, fp8, two = 11, 11, 8, 4, 2
	for _, kind := range libraries {
		t.Run(string(kind), func(t *testing.T) {
			on(t, kind, func(t *testing.T, b bench) {
				e, err := Open(kind, b.Device)
				require.NoError(t, err)
				for dtype, lies := range map[numeric.Type]struct{ bits, sums []int }{
					numeric.Float:    {[]int{23, tf32, bf16, fp8, two}, []int{23, half, bf16}},
					numeric.Half:     {[]int{10, bf16, fp8, two}, []int{half, bf16}},
					numeric.BFloat16: {[]int{7, fp8, two}, []int{half, bf16}},
				} {
					p := b.made(t, gemm.Shape{M: 24, N: 40, K: 64}, dtype, 0)
					multiply, err := e.Prepare(p.Product)
					require.NoError(t, err)
					found := func(name string, bits int) {
						t.Setenv(name, strconv.Itoa(bits))
						require.NoError(t, multiply(b.stream))
						require.Greater(t, b.wrong(t, p), p.M*p.N/4, "%s: %s=%d", dtype, name, bits)
						t.Setenv(name, "")
						require.NoError(t, multiply(b.stream))
						require.Zero(t, b.wrong(t, p), "%s", dtype)
					}
					for _, bits := range lies.bits {
						found("CX_FAKE_BLASLT_BITS", bits)
					}
					for _, bits := range lies.sums {
						found("CX_FAKE_BLASLT_SUMS", bits)
					}
					require.NoError(t, b.Free(p.memory))
				}
				require.NoError(t, e.Close())
			})
		})
	}
}

// A library that computes one element wrongly is found; one that fails or has no algorithm
// is named with its call, and nothing is left behind.
func TestLibrariesThatFail(t *testing.T) {
	libraries, real := kinds(t)
	if real {
		return
	}
	for _, kind := range libraries {
		t.Run(string(kind), func(t *testing.T) {
			on(t, kind, func(t *testing.T, b bench) {
				p := b.made(t, gemm.Shape{M: 24, N: 40, K: 64}, numeric.BFloat16, 0)
				e, err := Open(kind, b.Device)
				require.NoError(t, err)
				multiply, err := e.Prepare(p.Product)
				require.NoError(t, err)
				t.Setenv("CX_FAKE_BLASLT_WRONG", "0")
				t.Setenv("CX_FAKE_BLASLT_FAIL", "1")
				require.NoError(t, multiply(b.stream))
				require.Equal(t, int64(1), b.wrong(t, p))
				require.EqualError(t, multiply(b.stream), dialects[kind].prefix+"Matmul: EXECUTION_FAILED")
				require.NoError(t, multiply(b.stream))
				require.Zero(t, b.wrong(t, p))

				t.Setenv("CX_FAKE_BLASLT_NONE", "1")
				other := p.Product
				other.M = 12
				_, err = e.Prepare(other)
				require.ErrorContains(t, err, "product of [12, 64] and [64, 40] of bfloat16: "+dialects[kind].prefix+"MatmulAlgoGetHeuristic: ")
				_, err = e.Prepare(p.Product)
				require.NoError(t, err, "what is prepared needs no algorithm")
				other.Type = numeric.Double
				_, err = e.Prepare(other)
				require.ErrorContains(t, err, "unsupported element type double")
				require.NoError(t, e.Close())
				require.NoError(t, b.Free(p.memory))
			})
		})
	}
}

// A stream or memory of another device is refused by the library, not used.
func TestAnotherDeviceIsRefused(t *testing.T) {
	libraries, real := kinds(t)
	if real {
		return
	}
	for _, kind := range libraries {
		on(t, kind, func(t *testing.T, b bench) {
			e, err := Open(kind, b.Device)
			require.NoError(t, err)
			p := b.made(t, gemm.Shape{M: 8, N: 8, K: 8}, numeric.Half, 0)
			p.C = p.A.Add(1 << 40)
			multiply, err := e.Prepare(p.Product)
			require.NoError(t, err)
			require.EqualError(t, multiply(b.stream), dialects[kind].prefix+"Matmul: INVALID_VALUE")
			require.NoError(t, e.Close())
			require.NoError(t, b.Free(p.memory))
		})
	}
}

// A file that is missing, or is another library, is named with the variable.
func TestOpenNamesWhatIsMissing(t *testing.T) {
	set := fakes.Build(t)
	set.UseWithoutKernels(t)
	t.Setenv("CX_CUBLASLT_LIB", "/nowhere/libcublasLt.so.13")
	_, err := Open(CUBLASLt, nil)
	require.ErrorIs(t, err, dl.ErrNoLibrary)
	require.ErrorContains(t, err, "cuBLASLt from CX_CUBLASLT_LIB=/nowhere/libcublasLt.so.13")
	t.Setenv("CX_CUBLASLT_LIB", set.HIPBLASLt)
	_, err = Open(CUBLASLt, nil)
	require.ErrorIs(t, err, dl.ErrNoSymbol)
	require.ErrorContains(t, err, "cublasLtCreate")
	require.Equal(t, "13.1.2", version(130102, 100))
	require.Equal(t, "0.12.1", version(1201, 1000))
}

// On a GPU (CX_TEST_CUDA=real), the library and the kernel both multiply large matrices exactly, and
// the library is the faster one.
func TestLibraryAndKernelOnHardware(t *testing.T) {
	libraries, real := kinds(t)
	shape := gemm.Shape{M: 4096, N: 8192, K: 2048}
	if !real {
		shape = gemm.Shape{M: 64, N: 96, K: 32}
	}
	for _, kind := range libraries {
		on(t, kind, func(t *testing.T, b bench) {
			lib, err := Open(kind, b.Device)
			require.NoError(t, err)
			t.Logf("%s, %s %s", b.Info().Product, lib.SOName(), lib.Version())
			for _, dtype := range gemm.Types() {
				p := b.made(t, shape, dtype, 0)
				for _, engine := range []struct {
					name string
					gemm.Engine
				}{{string(kind), lib}, {"kernel", b.data.Kernel()}} {
					multiply, err := engine.Prepare(p.Product)
					require.NoError(t, err)
					require.NoError(t, multiply(b.stream))
					us := b.timed(t, multiply)
					require.Zero(t, b.wrong(t, p), "%s %s", engine.name, dtype)
					flops := 2 * float64(shape.M) * float64(shape.N) * float64(shape.K)
					t.Logf("%-9s %-9s %v: %9.1f us, %8.2f TFLOP/s, all %d elements right", engine.name, dtype, shape, us, flops/us/1e6, shape.M*shape.N)
				}
				require.NoError(t, b.Free(p.memory))
			}
			require.NoError(t, lib.Close())
		})
	}
}

// timed is the microseconds of one of several products, by events of the device.
func (b bench) timed(t *testing.T, multiply gemm.Multiply) float64 {
	t.Helper()
	const times = 4
	var events [2]accel.Event
	for i := range events {
		var err error
		events[i], err = b.NewEvent()
		require.NoError(t, err)
	}
	require.NoError(t, b.stream.Record(events[0]))
	for range times {
		require.NoError(t, multiply(b.stream))
	}
	require.NoError(t, b.stream.Record(events[1]))
	require.NoError(t, b.stream.Synchronize())
	us, err := b.Elapsed(events[0], events[1])
	require.NoError(t, err)
	for _, e := range events {
		require.NoError(t, e.Close())
	}
	return us / times
}
