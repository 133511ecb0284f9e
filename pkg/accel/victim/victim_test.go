package victim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/compilers"
	"github.com/collectivex/collectivex/internal/devicetest"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/kernels"
)

func TestRealCompilersTakeTheKernel(t *testing.T) {
	t.Run("NVRTC", func(t *testing.T) { compilers.NVRTC(t, "victim.cu", kernels.Complete(kernel)) })
	t.Run("HIPRTC", func(t *testing.T) { compilers.HIPRTC(t, "victim.cu", kernels.Complete(kernel)) })
}

// withVictim runs body on each vendor's device.
func withVictim(t *testing.T, body func(t *testing.T, d accel.Device, s accel.Stream, v *Victim)) {
	devicetest.Each(t, func(t *testing.T, d accel.Device, s accel.Stream) {
		v, err := New(t.Context(), d)
		require.NoError(t, err)
		body(t, d, s, v)
		require.NoError(t, v.Close())
	})
}

// The victim does all of its work, whatever the number of units. Work that is missing, or left
// from before, is found.
func TestWorkIsCounted(t *testing.T) {
	withVictim(t, func(t *testing.T, _ accel.Device, s accel.Stream, v *Victim) {
		check := func(units uint64) string {
			wrong, err := v.Check(s, units)
			require.NoError(t, err)
			return wrong
		}
		for _, units := range []uint64{0, 1, 5, v.LeastUnits(), cycle + 3} {
			require.NoError(t, v.Clear(s))
			require.NoError(t, v.Enqueue(s, units))
			require.Empty(t, check(units))
			require.Contains(t, check(units+1), "the victim took ")
		}
		require.NoError(t, v.Enqueue(s, 1))
		require.NotEmpty(t, check(1), "without Clear")
	})
}

// Work takes time, and on a GPU (CX_TEST_CUDA=real) twice the work twice the time. Stand-ins
// share the processors of this machine with whatever else runs.
func TestTimeFollowsWork(t *testing.T) {
	withVictim(t, func(t *testing.T, d accel.Device, s accel.Stream, v *Victim) {
		units := v.LeastUnits()
		if devicetest.Real() {
			units *= 1000
		}
		start, err := d.NewEvent()
		require.NoError(t, err)
		end, err := d.NewEvent()
		require.NoError(t, err)
		took := func(units uint64) float64 {
			require.NoError(t, v.Clear(s))
			require.NoError(t, s.Record(start))
			require.NoError(t, v.Enqueue(s, units))
			require.NoError(t, s.Record(end))
			wrong, err := v.Check(s, units)
			require.NoError(t, err)
			require.Empty(t, wrong)
			us, err := d.Elapsed(start, end)
			require.NoError(t, err)
			return us
		}
		took(units)
		once, twice := took(units), took(2*units)
		t.Logf("%d units in %.0f us: %.1f TFLOP/s; twice as many in %.0f us", units, once, float64(2*threads*chains*steps*units)/once/1e6, twice)
		require.Positive(t, min(once, twice))
		if devicetest.Real() {
			require.InDelta(t, 2, twice/once, 0.05)
		}
		require.NoError(t, start.Close())
		require.NoError(t, end.Close())
	})
}
