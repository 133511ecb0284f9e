package sm

import (
	"os"
	"strings"
	"testing"

	"github.com/collectivex/collectivex/pkg/copies"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/compilers"
	"github.com/collectivex/collectivex/internal/copytest"
	"github.com/collectivex/collectivex/internal/devicetest"
	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

// Drivers open memory of other processes alone, so that the ranks here are processes.
func TestMain(m *testing.M) {
	eptest.Main(func(plan.Case) (rank.Opener, error) { return Open, nil })
	os.Exit(m.Run())
}

func TestRealCompilersTakeTheKernel(t *testing.T) {
	t.Run("NVRTC", func(t *testing.T) { compilers.NVRTC(t, "copy.cu", source()) })
	t.Run("HIPRTC", func(t *testing.T) { compilers.HIPRTC(t, "copy.cu", source()) })
}

// The kernel copies what it is given and nothing beside it, in pairs of words and in words.
func TestKernelCopies(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, d accel.Device, s accel.Stream) {
		k, err := newDevice(t.Context(), d)
		require.NoError(t, err)
		const bytes = 1 << 16
		p, err := d.Alloc(2 * bytes)
		require.NoError(t, err)
		src := make([]byte, bytes)
		for i := range src {
			src[i] = byte(i*7 + i>>8)
		}
		require.NoError(t, accel.Write(d, s, p, src))
		for _, at := range []struct{ dst, src, n int64 }{{0, 0, bytes}, {16, 32, 4096}, {8, 0, 4096}, {0, 8, 4096}, {16, 16, 8}, {32, 0, 24}} {
			require.NoError(t, d.Set(s, p.Add(bytes), 0xee, bytes))
			require.NoError(t, k.Copy(s, p.Add(bytes+at.dst), p.Add(at.src), at.n))
			got, err := accel.Read[byte](d, s, p.Add(bytes), bytes)
			require.NoError(t, err)
			for i := range got {
				want := byte(0xee)
				if n := int64(i) - at.dst; n >= 0 && n < at.n {
					want = src[at.src+n]
				}
				if got[i] != want {
					require.Equal(t, want, got[i], "%+v: byte %d", at, i)
				}
			}
		}
		require.NoError(t, k.scope.Close())
		require.NoError(t, d.Free(p))
	})
}

// Every test moves every word on either vendor's devices, whole and in pages, beside a victim.
func TestCopiesArriveWhole(t *testing.T) {
	for _, vendor := range []string{"cuda", "hip"} {
		t.Run(vendor, func(t *testing.T) {
			fakes.Build(t).Use(t)
			if vendor == "hip" {
				t.Setenv("CX_CUDA_LIB", "/nowhere/libcuda.so.1")
			}
			for _, test := range []string{
				"host_to_device_memcpy_sm", "device_to_host_memcpy_sm", "device_to_device_memcpy_read_sm", "device_to_device_memcpy_write_sm",
			} {
				d := copytest.Processes(t, "", plantest.Copy("sm", test, func(c *plan.Case) {
					copies.Of(c).Streams, copies.Of(c).Sizes, copies.Of(c).PageBytes, copies.Of(c).Victim = []int{1, 3}, []int64{12 << 10}, 2048, true
				}))
				copytest.Arrived(t, d)
				for _, r := range d.Measurement.Rows {
					require.NotNil(t, r.Device, r.Name())
					require.NotNil(t, r.Victim, r.Name())
				}
			}
		})
	}
}

// Kernels copy in both directions at the same time, and on three devices.
func TestKernelsOfAllDevices(t *testing.T) {
	fakes.Build(t).Use(t)
	t.Setenv("CX_FAKE_DEVICES", "3")
	for _, test := range copies.Tests() {
		of := copies.TestOf(test)
		if !strings.HasSuffix(test, "_sm") || of.Ranks != copies.All && !of.Both && !of.Chase {
			continue
		}
		change := func(c *plan.Case) { copies.Of(c).Sizes = []int64{16 << 10} }
		c := plantest.CopyOn("sm", test, 3, change)
		if of.Ranks != copies.All {
			c = plantest.Copy("sm", test, change)
		}
		d := copytest.Processes(t, "", c)
		copytest.Arrived(t, d)
		for _, r := range d.Measurement.Rows {
			require.NotNil(t, r.Device, r.Name())
			if of.Chase {
				require.Equal(t, 128, r.Accesses)
				require.InDelta(t, 1e3*r.Device.Micros.P50/128, r.Device.Nanos, 1e-6*r.Device.Nanos)
			}
		}
	}
}

// A wrong word on the way of a chase is found, and so are words that are not read.
func TestWrongReads(t *testing.T) {
	fakes.Build(t).Use(t)
	for test, at := range map[string]string{"host_device_latency_sm": "0", "device_to_device_latency_sm": "1"} {
		for kind, class := range map[string]string{pool.FaultFlip: "corrupted, ", pool.FaultNotWritten: "not written, ", pool.FaultStale: "stale, "} {
			d := copytest.Processes(t, "rank="+at+",kind="+kind, plantest.Copy("sm", test, func(c *plan.Case) { copies.Of(c).Sizes = []int64{16 << 10} }))
			require.Equal(t, result.Invalid, d.Outcome.Status)
			require.Contains(t, d.Outcome.Reasons[0].Detail, class)
		}
	}
}

func TestFaultsAreNamed(t *testing.T) {
	fakes.Build(t).Use(t)
	copytest.FaultsAreNamed(t, copytest.Processes, plantest.Copy("sm", "device_to_host_memcpy_sm"), "0", "0")
}

// Without a compiler there is no kernel that copies.
func TestNothingCompiles(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	t.Setenv("CX_NVRTC_LIB", "/nowhere/libnvrtc.so.13")
	d := copytest.Processes(t, "", plantest.Copy("sm", "device_to_host_memcpy_sm"))
	require.Equal(t, result.Failed, d.Outcome.Status)
	require.Equal(t, result.ReasonRefused, d.Outcome.Code())
}
