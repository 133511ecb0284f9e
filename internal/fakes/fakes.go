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
	HSA string
	dir string // of the libraries, and of the cache of kernels, which take a second each to compile
}

var driverSources = []string{"driver.c", "device.c", "memory.c", "stream.c", "graph.c", "module.c"}

type library struct {
	env     string // variable that names it to programs, if any
	file    string // relative path that ends in the soname
	sources []string
	options []string // of the compiler
	link    []string // of the linker; the libraries among them stand before it
}

var libraries = []library{
	{env: "CX_CUDA_LIB", file: cudaFile, sources: driverSources},
	{env: "CX_NVRTC_LIB", file: "libnvrtc.so.13", sources: []string{"rtc.c"}},
	{env: "CX_HIP_LIB", file: "libamdhip64.so.6", sources: driverSources, options: []string{"-DHIP"}},
	{env: "CX_HIPRTC_LIB", file: "libhiprtc.so.6", sources: []string{"rtc.c"}, options: []string{"-DHIP"}},
	{env: "CX_NCCL_LIB", file: ncclFile, sources: []string{"nccl.c"}, options: []string{"-fvisibility=default"}},
	{env: "CX_RCCL_LIB", file: rcclFile, sources: []string{"nccl.c"}, options: []string{"-fvisibility=default", "-DCX_FAKE_RCCL"}},
	{env: "CX_NVML_LIB", file: "libnvidia-ml.so.1", sources: []string{"nvml.c"}},
	{file: "mscclpp/libmscclpp.so.0", sources: []string{"mscclpp_core.c"}},
	mscclpp("CX_MSCCLPP_LIB", "mscclpp", ncclFile, cudaFile),
	{file: "mscclpp-hip/libmscclpp.so.0", sources: []string{"mscclpp_core.c"}},
	mscclpp("", "mscclpp-hip", rcclFile, "libamdhip64.so.6"),
	{env: "CX_NCCL_EP_LIB", file: "libnccl_ep.so.0", sources: []string{"nccl_ep.c"}, options: []string{"-fvisibility=default"}, link: []string{ncclFile}},
	{env: "CX_NIXL_LIB", file: "libnixl_capi.so", sources: []string{"nixl.c"}},
	{env: "CX_CUBLASLT_LIB", file: "libcublasLt.so.13", sources: []string{"blaslt.c"}},
	{env: "CX_HIPBLASLT_LIB", file: "libhipblaslt.so.1", sources: []string{"blaslt.c"}, options: []string{"-DHIP"}},
	{env: "CX_HSA_LIB", file: "libhsa-runtime64.so.1", sources: []string{"hsa.c"}},
}

// Libraries that tests link in other ways.
const (
	cudaFile = "libcuda.so.1"
	ncclFile = "libnccl.so.2"
	rcclFile = "librccl.so.1"
)

// mscclpp returns MSCCL++ linked with a driver, and with a library beside it that it names without a
// directory.
func mscclpp(env, dir, inner, driver string) library {
	return library{
		env: env, file: dir + "/libmscclpp_nccl.so.0", sources: []string{"mscclpp.c"},
		options: []string{`-DCX_FAKE_INNER="../` + inner + `"`},
		link:    []string{"-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN/..", "../" + driver, "libmscclpp.so.0"},
	}
}

// beside are files that are read in the directory of the libraries, by their sources.
var beside = map[string]string{
	"shim.h": "shim.h", "kernel.h": "kernel.h",
	"include/nccl.h": "nccl.h", "include/nccl_device/impl/core__funcs.h": "nccl_device.h",
}

// Build compiles the libraries with the compiler that cgo uses, once for each state of their
// sources.
func Build(t testing.TB) Set {
	t.Helper()
	dir := directory(t)
	path := func(file string) string { return filepath.Join(dir, file) }
	return Set{
		CUDA: path(cudaFile), NVRTC: path("libnvrtc.so.13"), HIP: path("libamdhip64.so.6"), HIPRTC: path("libhiprtc.so.6"),
		NCCL: path(ncclFile), RCCL: path(rcclFile), NVML: path("libnvidia-ml.so.1"),
		MSCCLPP: path("mscclpp/libmscclpp_nccl.so.0"), MSCCLPPHIP: path("mscclpp-hip/libmscclpp_nccl.so.0"),
		NCCLEP: path("libnccl_ep.so.0"), NIXL: path("libnixl_capi.so"),
		CUBLASLt: path("libcublasLt.so.13"), HIPBLASLt: path("libhipblaslt.so.1"), HSA: path("libhsa-runtime64.so.1"), dir: dir,
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

// Source returns the directory of the libraries' sources.
func Source() string { return need.Source("testdata/fakes") }

// build compiles the libraries into dir, several at a time, each after those that it is linked
// with.
func build(cc, dir string) error {
	for _, lib := range libraries {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, filepath.Dir(lib.file)), 0o700), os.MkdirAll(filepath.Join(dir, "objects"), 0o700)); err != nil {
			return err
		}
	}
	for name, source := range beside {
		data, err := os.ReadFile(filepath.Join(Source(), source))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700)
		}
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
			errs[i] = compile(cc, lib, object(dir, lib.file))
			<-processors
			for _, other := range before {
				<-other
			}
			if errs[i] == nil {
				errs[i] = link(cc, object(dir, lib.file), filepath.Join(dir, lib.file), lib.link...)
			}
		})
	}
	compiling.Wait()
	return errors.Join(errs...)
}

func object(dir, library string) string {
	return filepath.Join(dir, "objects", strings.ReplaceAll(library, "/", "-")+".o")
}

var compileOptions = []string{"-r", "-O2", "-g", "-Wall", "-fPIC", "-fvisibility=hidden", "-pthread"}

func compile(cc string, lib library, out string) error {
	args := append(append([]string{"-o", out}, compileOptions...), lib.options...)
	for _, s := range lib.sources {
		args = append(args, filepath.Join(Source(), s))
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

// lacking links a library for this test, without symbols and with a soname.
func lacking(t testing.TB, library, soname string, symbols []string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), soname)
	var args []string
	if len(symbols) > 0 {
		script := path + ".map"
		require.NoError(t, os.WriteFile(script, fmt.Appendf(nil, "{ local: %s; };\n", strings.Join(symbols, "; ")), 0o600))
		args = []string{"-Wl,--version-script=" + script}
	}
	require.NoError(t, link(Compiler(t), object(directory(t), library), path, args...))
	return path
}

// OldCUDA is a libcuda.so.1 that lacks symbols.
func OldCUDA(t testing.TB, symbols ...string) string {
	t.Helper()
	return lacking(t, cudaFile, cudaFile, symbols)
}

// fingerprint names the state of the sources, and how they are compiled.
var fingerprint = sync.OnceValues(func() (string, error) {
	cc, err := compiler()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	files, err := os.ReadDir(Source())
	if err != nil {
		return "", err
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(Source(), f.Name()))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", f.Name(), len(data), data)
	}
	fmt.Fprint(h, cc, compileOptions, libraries)
	return hex.EncodeToString(h.Sum(nil))[:16], nil
})

var compiler = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "env", "CC").Output()
	return strings.TrimSpace(string(out)), err
})

// Compiler returns the C compiler that cgo uses.
func Compiler(t testing.TB) string {
	t.Helper()
	cc, err := compiler()
	require.NoError(t, err)
	return cc
}

// Environ returns the environment in which a program finds the libraries, with device memory in dir,
// where processes also take turns at devices, and a cache of compiled kernels.
func (s Set) Environ(dir string) []string {
	env := []string{
		"CX_FAKE_DIR=" + dir, "CX_DEVICE_LOCKS=" + dir, "XDG_CACHE_HOME=" + filepath.Join(s.dir, "cache"),
		"CX_NCCL_INCLUDE=" + filepath.Join(s.dir, "include"),
	}
	for _, lib := range libraries {
		if lib.env != "" {
			env = append(env, lib.env+"="+filepath.Join(s.dir, lib.file))
		}
	}
	return env
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

// MemoryDir returns a directory for device memory, which is removed with the test. It is in
// memory, so that nothing is written to a disk. Its name is unlike those that a shard removes.
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
