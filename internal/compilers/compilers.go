// Package compilers compiles kernels with the vendors' real run-time compilers, for tests: kernels
// that run on the stand-ins must also compile for GPUs.
package compilers

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/wheels"
	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/accel/hip"
)

// The architectures to compile for. docs/hardware.md names the architectures that no available
// compiler supports.
var (
	nvidiaArchs = []string{"sm_80", "sm_90", "sm_100", "sm_103"}
	amdArchs    = []string{"gfx90a"}
)

// NVRTC compiles the source of kernels for every architecture of NVIDIA.
func NVRTC(t *testing.T, name, source string) {
	t.Helper()
	t.Setenv("CX_NVRTC_LIB", filepath.Join(wheels.NVRTC.Libraries(t), "libnvrtc.so.13"))
	if !inOwnProcess(t) {
		return
	}
	c, err := cuda.OpenCompiler()
	require.NoError(t, err)
	require.Equal(t, "NVRTC 13.0", c.Version())
	compileAll(t, c, name, source, nvidiaArchs)
}

// HIPRTC compiles the source of kernels for the architectures of AMD that the compiler
// at hand supports.
func HIPRTC(t *testing.T, name, source string) {
	t.Helper()
	need.EndToEnd(t, "to compile with the real HIPRTC")
	if !inOwnProcess(t) {
		return
	}
	// Up to HIP 5 the compiler is part of the runtime.
	t.Setenv("CX_HIPRTC_LIB", "libamdhip64.so.5")
	c, err := hip.OpenCompiler()
	require.NoError(t, err, "install Debian's libamdhip64-5, libhiprtc-builtins5 and rocm-device-libs")
	compileAll(t, c, name, source, amdArchs)
}

const childVariable = "CX_TEST_COMPILERS"

// inOwnProcess runs the test t in a process of its own, and reports whether this is that
// process. Any other may have loaded a stand-in of a compiler, whose symbols could take the
// place of the real one's.
func inOwnProcess(t *testing.T) bool {
	t.Helper()
	if os.Getenv(childVariable) == t.Name() {
		return true
	}
	child := exec.Command(os.Args[0], "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$")
	child.Env = append(os.Environ(), childVariable+"="+t.Name())
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "no tests to run")
	return false
}

func compileAll(t *testing.T, c *gpu.Compiler, name, source string, archs []string) {
	t.Helper()
	for _, arch := range archs {
		t.Run(arch, func(t *testing.T) {
			image, err := c.Compile(name, source, arch)
			require.NoError(t, err)
			requireKernels(t, image, source)
			t.Logf("%s: %d bytes for %s", c.Version(), len(image), arch)
		})
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
	declared := regexp.MustCompile(`(?m)^extern "C" __global__ void (?:__launch_bounds__\(\w+\) )?(\w+)\(`).FindAllStringSubmatch(source, -1)
	for _, d := range declared {
		require.True(t, has[d[1]], "%s is not in the image", d[1])
	}
	require.NotEmpty(t, declared)
}
