package device

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/compilers"
	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/accel/hip"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

// uncompiled is a device for which nothing compiles kernels.
type uncompiled struct{ accel.Device }

func (uncompiled) Compile(context.Context, string, string) (accel.Module, error) {
	return nil, fmt.Errorf("no compiler: %w", accel.ErrUnsupported)
}

// withPools runs body with pools of a device of each vendor, with kernels and without.
func withPools(t *testing.T, body func(t *testing.T, p *Pools)) {
	fakes.Build(t).UseWithoutKernels(t)
	for name, load := range map[string]func() (*gpu.Driver, error){"cuda": cuda.Load, "hip": hip.Load} {
		for _, by := range []string{"device", "host"} {
			t.Run(name+" by "+by, func(t *testing.T) {
				if by == "device" {
					need.CXX(t)
				}
				runtime.LockOSThread() // a device is current on a thread
				t.Cleanup(runtime.UnlockOSThread)
				driver, err := load()
				require.NoError(t, err)
				open, err := driver.Open(0, t.TempDir())
				require.NoError(t, err)
				var d accel.Device = open
				if by == "host" {
					d = uncompiled{d}
				}
				p, err := NewPools(t.Context(), d)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, errors.Join(p.Close(), d.Close())) })
				body(t, p)
			})
		}
	}
}

// words is more than the pieces and tiles of a check, and a multiple of neither.
const words = pieceWords + tileWords + 7

// A wrong word is found in its stretch, wherever it lies, and no other stretch is named.
func TestWrongStretches(t *testing.T) {
	withPools(t, func(t *testing.T, p *Pools) {
		own, err := p.AllocPool(words * wordBytes)
		require.NoError(t, err)
		defer func() { require.NoError(t, own.Close()) }()
		require.Equal(t, words, own.Words())
		const base = 0xA1 << 56
		require.NoError(t, own.Paint(base))
		of := func(at, n int) pool.Stretch { return pool.Stretch{At: at, N: n, Want: base + uint64(at)} }
		stretches := []pool.Stretch{of(0, 1), of(1, 999), of(1000, 0), of(1000, 3*tileWords), of(1000+3*tileWords, words-1001-3*tileWords), of(words-1, 1)}
		wrong, err := own.Wrong(stretches)
		require.NoError(t, err)
		require.Empty(t, wrong)
		for at, stretch := range map[int]int{0: 0, 1: 1, 999: 1, 1000: 3, 999 + 3*tileWords: 3, 1000 + 3*tileWords: 4, words - 2: 4, words - 1: 5} {
			got, err := own.Read(at, 1)
			require.NoError(t, err)
			require.Equal(t, base+uint64(at), got[0])
			require.NoError(t, own.Write(at, []uint64{got[0] ^ 1<<63}))
			wrong, err := own.Wrong(stretches)
			require.NoError(t, err)
			require.Equal(t, []int{stretch}, wrong, "word %d", at)
			require.NoError(t, own.Write(at, got))
		}
	})
}

// blind is a kernel that does nothing.
type blind struct{}

func (blind) Launch(accel.Stream, uint32, uint32, uint32, ...unsafe.Pointer) error { return nil }

// A check kernel that finds nothing is itself found out, by the host.
func TestABlindKernel(t *testing.T) {
	withPools(t, func(t *testing.T, p *Pools) {
		if p.paint == nil {
			return
		}
		p.check = blind{}
		own, err := p.AllocPool(1 << 20)
		require.NoError(t, err)
		defer func() { require.NoError(t, own.Close()) }()
		require.NoError(t, own.Paint(0))
		_, err = own.Wrong([]pool.Stretch{{At: 0, N: 100, Want: 1}})
		require.ErrorIs(t, err, pool.ErrDisagree)
	})
}

// lateKernel is a kernel after whose first launch words arrive.
type lateKernel struct {
	accel.Kernel
	arrive func() error
}

func (k *lateKernel) Launch(stream accel.Stream, blocks, threads, shared uint32, args ...unsafe.Pointer) error {
	arrive := k.arrive
	k.arrive = func() error { return nil }
	return errors.Join(k.Kernel.Launch(stream, blocks, threads, shared, args...), stream.Synchronize(), arrive())
}

// Words that arrive between the look of the kernel and that of the host are late, and no disagreement.
func TestWordsThatArriveBetweenLooks(t *testing.T) {
	withPools(t, func(t *testing.T, p *Pools) {
		if p.paint == nil {
			return
		}
		own, err := p.AllocPool(1 << 20)
		require.NoError(t, err)
		defer func() { require.NoError(t, own.Close()) }()
		o := pool.Origin{Pool: pool.Of(0), Nonce: 1}
		require.NoError(t, own.Paint(o.Word(0)))
		require.NoError(t, own.Write(8, []uint64{0}))
		p.check = &lateKernel{p.check, func() error { return own.Write(8, []uint64{o.Word(8)}) }}
		f, err := pool.Unchanged(o, own, "source")
		require.NoError(t, err)
		require.Equal(t, "late", f.Class)
	})
}

func TestRealCompilersTakeTheKernels(t *testing.T) {
	t.Run("NVRTC", func(t *testing.T) { compilers.NVRTC(t, "pool.cu", source()) })
	t.Run("HIPRTC", func(t *testing.T) { compilers.HIPRTC(t, "pool.cu", source()) })
}
