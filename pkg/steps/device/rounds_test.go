package device

import (
	"testing"

	"github.com/collectivex/collectivex/internal/compilers"
)

func TestRealCompilersTakeTheKernels(t *testing.T) {
	t.Run("NVRTC", func(t *testing.T) { compilers.NVRTC(t, "add.cu", addSource()) })
	t.Run("HIPRTC", func(t *testing.T) { compilers.HIPRTC(t, "add.cu", addSource()) })
}
