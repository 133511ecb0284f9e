package hip_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/acceltest"
	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/hip"
)

// setUp makes the tests run on the stand-in, unless they are to run on this
// machine's GPU.
func setUp(t *testing.T) {
	if os.Getenv("CX_TEST_HIP") != "real" {
		fakes.Build(t).UseWithoutKernels(t)
	}
}

func TestDevice(t *testing.T) {
	setUp(t)
	cache := t.TempDir()
	acceltest.Run(t, func(t *testing.T) accel.Device {
		driver, err := hip.Load()
		require.NoError(t, err)
		d, err := driver.Open(0, cache)
		require.NoError(t, err)
		return d
	})
}
