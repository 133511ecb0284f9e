package gate

import (
	"testing"

	"github.com/collectivex/collectivex/internal/compilers"
	"github.com/collectivex/collectivex/pkg/accel/kernels"
)

func TestRealCompilersTakeTheKernel(t *testing.T) {
	t.Run("NVRTC", func(t *testing.T) { compilers.NVRTC(t, "gate.cu", kernels.Complete(kernel)) })
	t.Run("HIPRTC", func(t *testing.T) { compilers.HIPRTC(t, "gate.cu", kernels.Complete(kernel)) })
}
