// Package devicetest runs tests of kernels on each vendor's device.
package devicetest

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/accel/hip"
)

// Real reports whether tests run on this machine's NVIDIA GPU: CX_TEST_CUDA=real.
func Real() bool { return os.Getenv("CX_TEST_CUDA") == "real" }

// Each runs body on a stand-in of each vendor's device or, if Real, on the GPU, with a stream.
func Each(t *testing.T, body func(t *testing.T, d accel.Device, s accel.Stream)) {
	t.Helper()
	vendors := map[string]func() (*gpu.Driver, error){"cuda": cuda.Load}
	if !Real() {
		fakes.Build(t).Use(t)
		vendors["hip"] = hip.Load
	}
	for name, load := range vendors {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			driver, err := load()
			require.NoError(t, err)
			d, err := driver.Open(0, t.TempDir())
			require.NoError(t, err)
			s, err := d.NewStream()
			require.NoError(t, err)
			body(t, d, s)
			require.NoError(t, s.Close())
			require.NoError(t, d.Close())
		})
	}
}
