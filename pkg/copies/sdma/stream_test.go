package sdma

import (
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/hip"
	"github.com/collectivex/collectivex/pkg/hsa"
)

// Nothing begins while the gate is closed. Copies of a stream, and of a stream that waits for
// another one, begin when those before have ended, by the times of the runtime. Elapsed is from
// the first to begin after one event to the last to end before the other.
func TestStreamsAreOrdered(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	driver, err := hip.Load()
	require.NoError(t, err)
	h, err := driver.Open(0, t.TempDir())
	require.NoError(t, err)
	r, err := hsa.Open()
	require.NoError(t, err)
	d, err := newDevice(r, h)
	require.NoError(t, err)

	const bytes = 1 << 20
	p, err := d.Alloc(2 * bytes)
	require.NoError(t, err)
	host, err := d.AllocHost(bytes)
	require.NoError(t, err)
	require.NoError(t, d.adopt(uintptr(p)))
	require.NoError(t, d.adopt(uintptr(host)))
	closed, err := r.NewSignal(1)
	require.NoError(t, err)
	g := &gate{r, closed}

	streams := make([]accel.Stream, 2)
	events := make([]accel.Event, 3)
	for i := range streams {
		streams[i], err = d.NewStream()
		require.NoError(t, err)
	}
	for i := range events {
		events[i], err = d.NewEvent()
		require.NoError(t, err)
	}
	for range 3 { // signals are used again
		require.NoError(t, g.Hold(streams[0]))
		require.NoError(t, streams[0].Record(events[0]))
		for range 2 {
			require.NoError(t, d.CopyIn(streams[0], p, host, bytes))
		}
		require.NoError(t, streams[0].Record(events[1]))
		require.NoError(t, streams[1].Wait(events[1]))
		require.NoError(t, d.CopyIn(streams[1], p.Add(bytes), host, bytes))
		require.NoError(t, streams[1].Record(events[2]))
		done, err := streams[0].Query()
		require.NoError(t, err)
		require.False(t, done, "the gate is closed")
		g.Open()
		for _, s := range streams {
			require.NoError(t, s.Synchronize())
		}
		copied := slices.Concat(streams[0].(*stream).ended, streams[1].(*stream).ended)
		require.Len(t, copied, 3)
		var first, last float64
		for i, s := range copied {
			start, end, err := r.Times(s)
			require.NoError(t, err)
			if i == 0 {
				first = start
			} else {
				require.GreaterOrEqual(t, start, last, "copy %d began before the one before had ended", i)
			}
			last = end
		}
		us, err := d.Elapsed(events[0], events[2])
		require.NoError(t, err)
		require.InDelta(t, last-first, us, 1e-9)
	}
	require.Equal(t, 3, d.made, "of signals")

	err = d.CopyIn(streams[0], p.Add(bytes+8), host, bytes)
	require.ErrorContains(t, err, "outside the memory of this case")
	_, err = d.Elapsed(events[0], &event{})
	require.ErrorContains(t, err, "no copy between two events")
	d.made = maxSignals
	for range 4 {
		err = d.CopyIn(streams[0], p, host, bytes)
	}
	require.ErrorIs(t, err, accel.ErrUnsupported)

	for _, s := range streams {
		require.NoError(t, s.Close())
	}
	d.forget(uintptr(p))
	require.ErrorContains(t, d.CopyIn(streams[0], p, host, bytes), "outside the memory")
	require.NoError(t, d.close())
	require.NoError(t, r.Destroy(closed))
	require.NoError(t, r.Close())
	require.NoError(t, h.Free(p))
	require.NoError(t, h.FreeHost(host))
	require.NoError(t, h.Close())
}
