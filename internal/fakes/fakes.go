// Package fakes builds, for tests, the stand-ins for the vendors' drivers,
// run-time compilers and communication libraries in testdata/fakes, and sets the
// environment in which programs find them.
package fakes

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
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
	options []string // of the compiler
	link    []string // of the linker; the libraries among them stand before it
}

// libraries of a Set, in its order.
var libraries = []library{
	{file: "libcuda.so.1", sources: driverSources},
	{file: "libnvrtc.so.13", sources: []string{"rtc.c"}},
	{file: "libamdhip64.so.6", sources: driverSources, options: []string{"-DHIP"}},
	{file: "libhiprtc.so.6", sources: []string{"rtc.c"}, options: []string{"-DHIP"}},
	{file: "libnccl.so.2", sources: []string{"nccl.c"}, options: []string{"-fvisibility=default"}},
	{file: "librccl.so.1", sources: []string{"nccl.c"}, options: []string{"-fvisibility=default", "-DCX_FAKE_RCCL"}},
	{file: "libnvidia-ml.so.1", sources: []string{"nvml.c"}},
	{file: "mscclpp/libmscclpp.so.0", sources: []string{"mscclpp_core.c"}},
	mscclpp("mscclpp", "libnccl.so.2", "libcuda.so.1"),
	{file: "mscclpp-hip/libmscclpp.so.0", sources: []string{"mscclpp_core.c"}},
	mscclpp("mscclpp-hip", "librccl.so.1", "libamdhip64.so.6"),
	{file: "libnccl_ep.so.0", sources: []string{"nccl_ep.c"}, options: []string{"-fvisibility=default"}, link: []string{"libnccl.so.2"}},
	{file: "libnixl_capi.so", sources: []string{"nixl.c"}},
	{file: "libcublasLt.so.13", sources: []string{"blaslt.c"}},
	{file: "libhipblaslt.so.1", sources: []string{"blaslt.c"}, options: []string{"-DHIP"}},
	{file: "libhsa-runtime64.so.1", sources: []string{"hsa.c"}},
}

// Indices of libraries that tests link in other ways.
const (
	cudaLibrary = 0
	ncclLibrary = 4
	rcclLibrary = 5
)

// mscclpp links MSCCL++ with a driver, and with a library beside it whose place it
// does not say.
func mscclpp(dir, inner, driver string) library {
	return library{
		file: dir + "/libmscclpp_nccl.so.0", sources: []string{"mscclpp.c"},
		options: []string{`-DCX_FAKE_INNER="../` + inner + `"`},
		link:    []string{"-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN/..", "../" + driver, "libmscclpp.so.0"},
	}
}

// beside are files that the libraries read where they lie.
var beside = []string{"shim.h", "kernel.h"}

// Build compiles the libraries with the compiler that cgo uses, once for each state of their
// sources.
func Build(t testing.TB) Set {
	t.Helper()
	dir := directory(t)
	path := func(i int) string { return filepath.Join(dir, libraries[i].file) }
	return Set{
		CUDA: path(0), NVRTC: path(1), HIP: path(2), HIPRTC: path(3), NCCL: path(4), RCCL: path(5), NVML: path(6),
		MSCCLPP: path(8), MSCCLPPHIP: path(10), NCCLEP: path(11), NIXL: path(12),
		CUBLASLt: path(13), HIPBLASLt: path(14), HSA: path(15), cache: filepath.Join(dir, "cache"),
	}
}

// directory has the built libraries, and the objects that they are linked of.
func directory(t testing.TB) string {
	t.Helper()
	state, err := fingerprint()
	require.NoError(t, err)
	dir := SharedPath("fakes", state)
	require.NoError(t, Shared(dir, func(create string) error { return build(Compiler(t), create) }))
	return dir
}

// sources is the directory of the libraries' sources.
func sources() string {
	return need.Source("testdata/fakes")
}

// Source is the directory of the libraries' sources.
func Source(t testing.TB) string {
	t.Helper()
	return sources()
}

// build compiles the libraries into dir, several at a time, each after those that it is linked
// with.
func build(cc, dir string) error {
	for i, lib := range libraries {
		err := os.MkdirAll(filepath.Join(dir, filepath.Dir(lib.file)), 0o700)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(object(dir, i)), 0o700)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range beside {
		data, err := os.ReadFile(filepath.Join(sources(), name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	var compiling sync.WaitGroup
	processors := make(chan struct{}, runtime.NumCPU())
	ended := map[string]chan struct{}{} // by file of a library
	errs := make([]error, len(libraries))
	for i, lib := range libraries {
		var before []chan struct{}
		for _, arg := range lib.link {
			if other, ok := ended[filepath.Join(filepath.Dir(lib.file), arg)]; ok {
				before = append(before, other)
			}
		}
		end := make(chan struct{})
		ended[lib.file] = end
		compiling.Go(func() {
			defer close(end)
			processors <- struct{}{}
			errs[i] = compile(cc, lib, object(dir, i))
			<-processors
			for _, other := range before {
				<-other
			}
			if errs[i] == nil {
				errs[i] = link(cc, object(dir, i), filepath.Join(dir, lib.file), lib.link...)
			}
		})
	}
	compiling.Wait()
	return errors.Join(errs...)
}

// object is the file with all that is compiled of library i.
func object(dir string, i int) string {
	return filepath.Join(dir, "objects", strings.ReplaceAll(libraries[i].file, "/", "-")+".o")
}

var compileOptions = []string{"-r", "-O2", "-g", "-Wall", "-fPIC", "-fvisibility=hidden", "-pthread"}

func compile(cc string, lib library, out string) error {
	args := append(append([]string{"-o", out}, compileOptions...), lib.options...)
	for _, s := range lib.sources {
		args = append(args, filepath.Join(sources(), s))
	}
	return run(exec.Command(cc, args...))
}

// link makes the library at path, whose name is its soname. It runs in its directory.
func link(cc, object, path string, args ...string) error {
	all := append([]string{"-shared", "-pthread", "-Wl,-soname," + filepath.Base(path), "-o", path, object}, args...)
	cmd := exec.Command(cc, append(all, "-ldl", "-lm")...)
	cmd.Dir = filepath.Dir(path)
	return run(cmd)
}

func run(cmd *exec.Cmd) error {
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, output)
	}
	return nil
}

// lacking links library i for this test, without symbols and with a soname.
func lacking(t testing.TB, i int, soname string, symbols []string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), soname)
	var args []string
	if len(symbols) > 0 {
		script := path + ".map"
		require.NoError(t, os.WriteFile(script, fmt.Appendf(nil, "{ local: %s; };\n", strings.Join(symbols, "; ")), 0o600))
		args = []string{"-Wl,--version-script=" + script}
	}
	require.NoError(t, link(Compiler(t), object(directory(t), i), path, args...))
	return path
}

// OldCUDA is a libcuda.so.1 that lacks symbols.
func OldCUDA(t testing.TB, symbols ...string) string {
	t.Helper()
	return lacking(t, cudaLibrary, "libcuda.so.1", symbols)
}

// fingerprint names the state of the sources, and how they are compiled.
var fingerprint = sync.OnceValues(func() (string, error) {
	cc, err := compiler()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	names := append(append([]string{"rtc.c", "gpu.h", "nccl.c", "nccl_ep.c", "nixl.c", "blaslt.c", "hsa.c", "nvml.c", "mscclpp.c", "mscclpp_core.c"}, driverSources...), beside...)
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(sources(), name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(data), data)
	}
	fmt.Fprint(h, cc, compileOptions, libraries)
	return hex.EncodeToString(h.Sum(nil))[:16], nil
})

var compiler = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "env", "CC").Output()
	return strings.TrimSpace(string(out)), err
})

// Compiler is the C compiler that cgo uses.
func Compiler(t testing.TB) string {
	t.Helper()
	cc, err := compiler()
	require.NoError(t, err)
	return cc
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
