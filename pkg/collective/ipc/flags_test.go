package ipc

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/accel/hip"
	"github.com/collectivex/collectivex/pkg/rank"
)

// A stream waits for a flag until it is written. The host ends waits for flags that nobody
// writes, also those that begin later, and although a stream writes a smaller number then.
func TestReleaseEndsWaits(t *testing.T) {
	for _, vendor := range []string{"cuda", "hip"} {
		t.Run(vendor, func(t *testing.T) {
			withDriver(t, vendor)
			runtime.LockOSThread() // a device is current on a thread
			defer runtime.UnlockOSThread()
			load := cuda.Load
			if vendor == "hip" {
				load = hip.Load
			}
			driver, err := load()
			require.NoError(t, err)
			d, err := driver.Open(0, t.TempDir())
			require.NoError(t, err)
			defer func() { require.NoError(t, d.Close()) }()
			f, err := openFlags(t.Context(), rank.NewSession(rank.Place{World: 1}, eptest.Store(t), "flags", nil), d)
			require.NoError(t, err)
			defer func() { require.NoError(t, f.close()) }()
			waits, err := d.NewStream()
			require.NoError(t, err)
			writes, err := d.NewStream()
			require.NoError(t, err)
			defer func() { require.NoError(t, waits.Close()); require.NoError(t, writes.Close()) }()

			require.NoError(t, f.wait(waits, landed, 0, 2))
			require.NoError(t, f.write(writes, landed, 0, 1))
			require.NoError(t, f.write(writes, ready, 0, 2))
			require.NoError(t, writes.Synchronize())
			done, err := waits.Query()
			require.NoError(t, err)
			require.False(t, done, "neither a smaller number nor another flag ends it")
			require.NoError(t, f.write(writes, landed, 0, 2))
			require.NoError(t, waits.Synchronize())

			require.NoError(t, f.wait(waits, landed, 0, 4))
			f.release()
			require.NoError(t, waits.Synchronize())
			require.NoError(t, f.write(writes, landed, 0, 3))
			require.NoError(t, writes.Synchronize())
			require.NoError(t, f.wait(waits, landed, 0, 4))
			require.NoError(t, waits.Synchronize())
		})
	}
}
