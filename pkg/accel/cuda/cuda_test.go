package cuda_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/acceltest"
	"github.com/collectivex/collectivex/pkg/accel/cuda"
)

// real says that the tests run on this machine's GPU instead of the stand-in.
func real() bool { return os.Getenv("CX_TEST_CUDA") == "real" }

func setUp(t *testing.T) {
	if !real() {
		fakes.Build(t).Use(t)
	}
}

func TestDevice(t *testing.T) {
	setUp(t)
	cache := t.TempDir()
	acceltest.Run(t, func(t *testing.T) accel.Device {
		driver, err := cuda.Load()
		require.NoError(t, err)
		d, err := driver.Open(0, cache)
		require.NoError(t, err)
		return d
	})
}

