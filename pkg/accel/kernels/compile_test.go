package kernels_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/compilers"
	"github.com/collectivex/collectivex/pkg/accel/kernels"
)

func TestSource(t *testing.T) {
	_, err := kernels.Source("no_such_kernels")
	require.ErrorContains(t, err, "kernels no_such_kernels: ")
}

func TestRealCompilersTakeTheKernels(t *testing.T) {
	source, err := kernels.Source("smoke")
	require.NoError(t, err)
	t.Run("NVRTC", func(t *testing.T) { compilers.NVRTC(t, "smoke.cu", source) })
	t.Run("HIPRTC", func(t *testing.T) { compilers.HIPRTC(t, "smoke.cu", source) })
}
