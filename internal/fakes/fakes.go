// Package fakes builds, for tests, the stand-ins for the vendors' drivers,
// run-time compilers and communication libraries in testdata/fakes, and sets the
// environment in which programs find them.
package fakes

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
)

// Set is the built libraries.
type Set struct {
	CUDA, NVRTC, HIP, HIPRTC, NCCL, RCCL, NVML string
	// MSCCLPP is built for CUDA, MSCCLPPHIP for HIP.
	MSCCLPP, MSCCLPPHIP string
	// NCCLEP works on NCCL.
	NCCLEP string
	// NIXL moves the memory of CUDA's devices.
	NIXL string
	// CUBLASLt and HIPBLASLt multiply matrices.
	CUBLASLt, HIPBLASLt string
	// HSA copies the memory of HIP's devices.
	HSA   string
	cache string // of kernels, which stand-ins take a second each to compile
}

var driverSources = []string{"driver.c", "device.c", "memory.c", "stream.c", "graph.c", "module.c"}

type library struct {
	file    string // relative path that ends in the soname
	sources []string
	args    []string
}

// libraries of a Set, in its order.
var libraries = []library{
	{"libcuda.so.1", driverSources, nil},
	{"libnvrtc.so.13", []string{"rtc.c"}, nil},
	{"libamdhip64.so.6", driverSources, []string{"-DHIP"}},
	{"libhiprtc.so.6", []string{"rtc.c"}, []string{"-DHIP"}},
	{"libnccl.so.2", []string{"nccl.c"}, []string{"-fvisibility=default"}},
	{"librccl.so.1", []string{"nccl.c"}, []string{"-fvisibility=default", "-DCX_FAKE_RCCL"}},
	{"libnvidia-ml.so.1", []string{"nvml.c"}, nil},
	{"mscclpp/libmscclpp.so.0", []string{"mscclpp_core.c"}, nil},
	{"mscclpp/libmscclpp_nccl.so.0", []string{"mscclpp.c"}, mscclpp("libnccl.so.2", "libcuda.so.1")},
	{"mscclpp-hip/libmscclpp.so.0", []string{"mscclpp_core.c"}, nil},
	{"mscclpp-hip/libmscclpp_nccl.so.0", []string{"mscclpp.c"}, mscclpp("librccl.so.1", "libamdhip64.so.6")},
	{"libnccl_ep.so.0", []string{"nccl_ep.c"}, []string{"-fvisibility=default", "libnccl.so.2"}},
	{"libnixl_capi.so", []string{"nixl.c"}, nil},
	{"libcublasLt.so.13", []string{"blaslt.c"}, nil},
	{"libhipblaslt.so.1", []string{"blaslt.c"}, []string{"-DHIP"}},
	{"libhsa-runtime64.so.1", []string{"hsa.c"}, nil},
}

// mscclpp links MSCCL++ with a driver, and with a library beside it whose place it
// does not say.
func mscclpp(inner, driver string) []string {
	return []string{
		`-DCX_FAKE_INNER="../` + inner + `"`, "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN/..",
		"../" + driver, "libmscclpp.so.0",
	}
}

// beside are files that the libraries read where they lie.
var beside = []string{"shim.h", "kernel.h"}

// Build compiles the libraries with the compiler that cgo uses, once for each
// state of their sources.
func Build(t testing.TB) Set {
	t.Helper()
	source := Source(t)
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("cx-fakes-%d-%s", os.Getuid(), fingerprint(t, source)))
	if _, err := os.Stat(dir); err != nil {
		build(t, source, dir)
	}
	path := func(i int) string { return filepath.Join(dir, libraries[i].file) }
	return Set{
		CUDA: path(0), NVRTC: path(1), HIP: path(2), HIPRTC: path(3), NCCL: path(4), RCCL: path(5), NVML: path(6),
		MSCCLPP: path(8), MSCCLPPHIP: path(10), NCCLEP: path(11), NIXL: path(12),
		CUBLASLt: path(13), HIPBLASLt: path(14), HSA: path(15), cache: filepath.Join(dir, "cache"),
	}
}

// Source is the directory of the libraries' sources.
func Source(t testing.TB) string {
	t.Helper()
	_, here, _, ok := runtime.Caller(0)
	require.True(t, ok)
	return filepath.Join(filepath.Dir(here), "..", "..", "testdata", "fakes")
}

// build fills a directory and moves it into place, so that tests that run at the
// same time never see half of it.
func build(t testing.TB, source, dir string) {
	t.Helper()
	work, err := os.MkdirTemp(filepath.Dir(dir), "cx-fakes-new-")
	require.NoError(t, err)
	defer os.RemoveAll(work)
	for _, lib := range libraries {
		compile(t, source, lib, filepath.Join(work, lib.file))
	}
	for _, name := range beside {
		data, err := os.ReadFile(filepath.Join(source, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(work, name), data, 0o600))
	}
	if err := os.Rename(work, dir); err != nil {
		_, err = os.Stat(dir) // another test was first
		require.NoError(t, err)
	}
}

func compile(t testing.TB, source string, lib library, out string) {
	t.Helper()
	args := []string{
		"-O2", "-g", "-Wall", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread",
		"-Wl,-soname," + filepath.Base(lib.file), "-o", out,
	}
	for _, s := range lib.sources {
		args = append(args, filepath.Join(source, s))
	}
	args = append(args, lib.args...)
	cc := exec.Command(Compiler(t), append(args, "-ldl", "-lm")...)
	cc.Dir = filepath.Dir(out)
	require.NoError(t, os.MkdirAll(cc.Dir, 0o700))
	output, err := cc.CombinedOutput()
	require.NoError(t, err, "%s: %s", lib.file, output)
}

// OldCUDA is a libcuda.so.1 that lacks symbols.
func OldCUDA(t testing.TB, symbols ...string) string {
	t.Helper()
	dir := t.TempDir()
	script := filepath.Join(dir, "hide.map")
	hide := fmt.Sprintf("{ local: %s; };\n", strings.Join(symbols, "; "))
	require.NoError(t, os.WriteFile(script, []byte(hide), 0o600))
	lib := libraries[0]
	lib.args = []string{"-Wl,--version-script=" + script}
	out := filepath.Join(dir, lib.file)
	compile(t, Source(t), lib, out)
	return out
}

func fingerprint(t testing.TB, source string) string {
	t.Helper()
	h := sha256.New()
	names := append(append([]string{"rtc.c", "gpu.h", "nccl.c", "nccl_ep.c", "nixl.c", "blaslt.c", "hsa.c", "nvml.c", "mscclpp.c", "mscclpp_core.c"}, driverSources...), beside...)
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(source, name))
		require.NoError(t, err)
		fmt.Fprintf(h, "%s %d\n%s", name, len(data), data)
	}
	fmt.Fprint(h, Compiler(t), libraries)
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Compiler is the C compiler that cgo uses.
func Compiler(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "CC").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// Environ is the environment in which a program finds the libraries, with device
// memory in dir and kernels that were compiled before.
func (s Set) Environ(dir string) []string {
	return []string{
		"CX_CUDA_LIB=" + s.CUDA,
		"CX_NVRTC_LIB=" + s.NVRTC,
		"CX_HIP_LIB=" + s.HIP,
		"CX_HIPRTC_LIB=" + s.HIPRTC,
		"CX_NCCL_LIB=" + s.NCCL,
		"CX_NCCL_EP_LIB=" + s.NCCLEP,
		"CX_NIXL_LIB=" + s.NIXL,
		"CX_CUBLASLT_LIB=" + s.CUBLASLt,
		"CX_HIPBLASLT_LIB=" + s.HIPBLASLt,
		"CX_HSA_LIB=" + s.HSA,
		"CX_RCCL_LIB=" + s.RCCL,
		"CX_MSCCLPP_LIB=" + s.MSCCLPP,
		"CX_NVML_LIB=" + s.NVML,
		"CX_FAKE_DIR=" + dir,
		"XDG_CACHE_HOME=" + s.cache,
	}
}

// Use makes this process find the libraries, with device memory in a directory
// of this test, which needs what compiles kernels.
func (s Set) Use(t testing.TB) {
	t.Helper()
	need.CXX(t)
	s.UseWithoutKernels(t)
}

// UseWithoutKernels is Use for a test that compiles no kernels, or calls NeedKernels where it does.
func (s Set) UseWithoutKernels(t testing.TB) {
	t.Helper()
	setenv(t, s.Environ(MemoryDir(t)))
}

// NeedKernels needs what compiles kernels, if this process finds the stand-ins.
func NeedKernels(t testing.TB) {
	t.Helper()
	if os.Getenv("CX_FAKE_DIR") != "" {
		need.CXX(t)
	}
}

// kept is the directory of Keep; empty before its first call.
var kept string

// Keep makes this process find the libraries, with device memory that all tests share, for
// devices that stay open as long as the process. It also sets the given variables. A package
// whose tests call it has Main as its TestMain. The tests need what compiles kernels.
func (s Set) Keep(t testing.TB, variables ...string) {
	t.Helper()
	need.CXX(t)
	if kept == "" {
		dir, err := os.MkdirTemp("/dev/shm", "cx-fake-")
		require.NoError(t, err)
		kept = dir
	}
	setenv(t, append(s.Environ(kept), variables...))
}

// Main runs the tests of a package and removes what Keep made.
func Main(m *testing.M) {
	code := m.Run()
	os.RemoveAll(kept)
	os.Exit(code)
}

func setenv(t testing.TB, variables []string) {
	t.Helper()
	for _, kv := range variables {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
}

// MemoryDir is a directory for device memory that goes with the test: in memory
// itself, so that nothing is written to a disk. Its name is none that a shard
// takes for its own and clears away.
func MemoryDir(t testing.TB) string {
	t.Helper()
	base := "/dev/shm"
	if _, err := os.Stat(base); err != nil {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "cx-fake-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
