package kernels_test

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/accel/hip"
	"github.com/collectivex/collectivex/pkg/accel/kernels"
)

// Real compilers and what they are asked to compile for. Architectures that no
// compiler at hand knows are named in docs/hardware.md.
const nvrtcWheel = "nvidia-cuda-nvrtc==13.0.88"

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
	needRealCompilers(t)
	t.Setenv("CX_NVRTC_LIB", filepath.Join(nvrtc(t), "libnvrtc.so.13"))
	c, err := cuda.OpenCompiler()
	require.NoError(t, err)
	require.Equal(t, "NVRTC 13.0", c.Version())
	compileAll(t, c, nvidiaArchs)
}

func TestHIPRTCCompilesEveryKernel(t *testing.T) {
	needRealCompilers(t)
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

func needRealCompilers(t *testing.T) {
	t.Helper()
	if os.Getenv("CX_E2E") != "1" {
		t.Skip("CX_E2E=1 fetches the real compilers")
	}
}

// nvrtc returns a directory with NVRTC as its Python wheel brings it, which it
// fetches once.
func nvrtc(t *testing.T) string {
	t.Helper()
	tools, err := filepath.Abs("../../../.tools")
	require.NoError(t, err)
	dir := filepath.Join(tools, strings.ReplaceAll(nvrtcWheel, "==", "-"))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	download := t.TempDir()
	out, err := exec.Command("python3", "-m", "pip", "download", "--quiet", "--no-deps", "--dest", download, nvrtcWheel).CombinedOutput()
	require.NoError(t, err, "%s", out)
	wheels, err := filepath.Glob(filepath.Join(download, "*.whl"))
	require.NoError(t, err)
	require.Len(t, wheels, 1)
	require.NoError(t, os.MkdirAll(tools, 0o755))
	unpacked, err := os.MkdirTemp(tools, "nvrtc-")
	require.NoError(t, err)
	defer os.RemoveAll(unpacked)
	unpack(t, wheels[0], unpacked)
	require.NoError(t, os.Rename(unpacked, dir))
	return dir
}

// unpack takes the shared libraries out of a wheel.
func unpack(t *testing.T, wheel, dir string) {
	t.Helper()
	z, err := zip.OpenReader(wheel)
	require.NoError(t, err)
	defer z.Close()
	for _, entry := range z.File {
		if !strings.Contains(entry.Name, ".so.") {
			continue
		}
		in, err := entry.Open()
		require.NoError(t, err)
		out, err := os.Create(filepath.Join(dir, filepath.Base(entry.Name)))
		require.NoError(t, err)
		_, err = io.Copy(out, in)
		require.NoError(t, err)
		require.NoError(t, out.Close())
		require.NoError(t, in.Close())
	}
}
