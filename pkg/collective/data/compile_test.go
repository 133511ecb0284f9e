package data

import (
	"testing"

	"github.com/collectivex/collectivex/internal/compilers"
)

func TestRealCompilersTakeTheKernels(t *testing.T) {
	t.Run("NVRTC", func(t *testing.T) { compilers.NVRTC(t, "pattern.cu", source()) })
	t.Run("HIPRTC", func(t *testing.T) { compilers.HIPRTC(t, "pattern.cu", source()) })
}
