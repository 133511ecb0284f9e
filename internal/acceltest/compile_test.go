package acceltest_test

import (
	"testing"

	"github.com/collectivex/collectivex/internal/acceltest"
	"github.com/collectivex/collectivex/internal/compilers"
)

func TestRealCompilersTakeTheKernels(t *testing.T) {
	t.Run("NVRTC", func(t *testing.T) { compilers.NVRTC(t, "smoke.cu", acceltest.Kernels()) })
	t.Run("HIPRTC", func(t *testing.T) { compilers.HIPRTC(t, "smoke.cu", acceltest.Kernels()) })
}
