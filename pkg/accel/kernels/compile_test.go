package kernels_test

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/wheels"
	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/accel/hip"
	"github.com/collectivex/collectivex/pkg/accel/kernels"
)

// Real compilers and what they are asked to compile for. Architectures that no
// compiler at hand knows are named in docs/hardware.md.
var (
	nvidiaArchs = []string{"sm_80", "sm_90", "sm_100", "sm_103"}
	amdArchs    = []string{"gfx90a"}
)

// names lists the kernel sources of this directory.
func names(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.cu")
	require.NoError(t, err)
	var names []string
	for _, f := range files {
		if name := strings.TrimSuffix(f, ".cu"); name != "prelude" {
			names = append(names, name)
		}
	}
	require.Contains(t, names, "smoke")
	return names
}

func TestSource(t *testing.T) {
	_, err := kernels.Source("no_such_kernels")
	require.ErrorContains(t, err, "kernels no_such_kernels: ")
}

func TestNVRTCCompilesEveryKernel(t *testing.T) {
	t.Setenv("CX_NVRTC_LIB", filepath.Join(wheels.NVRTC.Libraries(t), "libnvrtc.so.13"))
	c, err := cuda.OpenCompiler()
	require.NoError(t, err)
	require.Equal(t, "NVRTC 13.0", c.Version())
	compileAll(t, c, nvidiaArchs)
}

func TestHIPRTCCompilesEveryKernel(t *testing.T) {
	if os.Getenv("CX_E2E") != "1" {
		t.Skip("CX_E2E=1 needs a real HIPRTC")
	}
	// Up to HIP 5 the compiler is part of the runtime.
	t.Setenv("CX_HIPRTC_LIB", "libamdhip64.so.5")
	c, err := hip.OpenCompiler()
	require.NoError(t, err, "install Debian's libamdhip64-5, libhiprtc-builtins5 and rocm-device-libs")
	compileAll(t, c, amdArchs)
}

func compileAll(t *testing.T, c *gpu.Compiler, archs []string) {
	t.Helper()
	for _, name := range names(t) {
		source, err := kernels.Source(name)
		require.NoError(t, err)
		for _, arch := range archs {
			t.Run(name+"/"+arch, func(t *testing.T) {
				image, err := c.Compile(name+".cu", source, arch)
				require.NoError(t, err)
				requireKernels(t, image, source)
				t.Logf("%s: %d bytes for %s", c.Version(), len(image), arch)
			})
		}
	}
}

// requireKernels looks for every kernel of source among the image's functions.
func requireKernels(t *testing.T, image []byte, source string) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(image))
	require.NoError(t, err)
	symbols, err := f.Symbols()
	require.NoError(t, err)
	has := map[string]bool{}
	for _, s := range symbols {
		has[s.Name] = true
	}
	const declaration = `extern "C" __global__ void `
	found := 0
	for line := range strings.SplitSeq(source, "\n") {
		if rest, ok := strings.CutPrefix(line, declaration); ok {
			name, _, _ := strings.Cut(rest, "(")
			require.True(t, has[name], "%s is not in the image", name)
			found++
		}
	}
	require.Positive(t, found)
}
