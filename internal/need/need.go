// Package need declares what a test requires: a program, a right, or a run of the full tests.
//
// go test ./... without variables runs the fast tests. It skips the full tests, and tests whose
// programs this machine lacks. CX_E2E=1 runs the full tests too, and a missing program fails its test.
// With -short, the full tests leave out long ones. Only this package reads the variable.
package need

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// variable is 1 for the full tests.
const variable = "CX_E2E"

// packages are the programs that tests start beside go, git, the C compiler and what every Debian
// has, and the Debian packages that have them.
var packages = map[string]string{
	"aarch64-linux-gnu-gcc":   "gcc-aarch64-linux-gnu and libc6-dev-arm64-cross",
	"chromium-headless-shell": "chromium-headless-shell",
	"g++":                     "g++",
	"jq":                      "jq",
	"npm":                     "npm",
	"mpirun":                  "openmpi-bin",
	"munged":                  "munge",
	"promtool":                "prometheus",
	"python3":                 "python3",
	"qemu-aarch64":            "qemu-user",
	"shellcheck":              "shellcheck",
	"slurmctld":               "slurmctld",
	"slurmd":                  "slurmd",
	"srun":                    "slurm-client",
	"sudo":                    "sudo",

	"act": "", // in no Debian package
}

// root is the directory of go.mod, above the directory of the package under test, where its process starts.
var root = func() string {
	dir, _ := os.Getwd()
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	return ""
}()

// Source returns the path of a file or directory of the source tree, given relative to go.mod. It
// also works in binaries that are built with -trimpath, in which runtime.Caller does not name it.
func Source(path string) string { return filepath.Join(root, path) }

// E2E reports whether the full tests run.
func E2E() bool { return os.Getenv(variable) == "1" }

// Environ returns the variables that make a process of a test run the same tests, fast or full.
func Environ() []string { return []string{variable + "=" + os.Getenv(variable)} }

// EndToEnd skips t unless the full tests run. The reason completes "set CX_E2E=1".
func EndToEnd(t testing.TB, reason string) {
	t.Helper()
	if !E2E() {
		t.Skipf("full tests: set %s=1 %s", variable, reason)
	}
	t.Attr("tests", "full") // .ci/run only counts the time of fast tests
}

// Full skips t unless the full tests run without -short. With the race detector, .ci/run sets -short
// to leave out tests that take seconds and are about neither goroutines nor pointers in C.
func Full(t testing.TB) {
	t.Helper()
	EndToEnd(t, "for tests that take long")
	if testing.Short() {
		t.Skip("full tests: run without -short")
	}
}

// Tool returns the path of a program. If it is missing, t is skipped, or fails if the full
// tests run. The text names the program and how to install it.
func Tool(t testing.TB, name string) string {
	t.Helper()
	install, known := packages[name]
	if !known {
		t.Fatalf("no package is known for %s: add it to internal/need", name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		how := "install Debian's " + install
		if install == "" {
			how = ".ci/run puts it into .tools/bin; put that on PATH"
		}
		Missing(t, name, how)
	}
	return path
}

// CXX returns the C++ compiler with which the stand-ins for NVRTC and HIPRTC compile kernels for
// the host.
func CXX(t testing.TB) string {
	t.Helper()
	if cxx := os.Getenv("CX_FAKE_CXX"); cxx != "" {
		return cxx
	}
	return Tool(t, "g++")
}

// systemPython is the interpreter of the distribution, for which libpython3-dev has the library.
const systemPython = "/usr/bin/python3"

var findSystemPython = sync.OnceValue(func() error { return findPython(systemPython) })

// findPython returns an error that names the interpreter, or its shared library, if it is missing.
func findPython(path string) error {
	if _, err := exec.LookPath(path); err != nil {
		return errors.New(path)
	}
	const load = "import ctypes, sysconfig; ctypes.CDLL(sysconfig.get_config_var('INSTSONAME'))"
	out, err := exec.CommandContext(context.Background(), path, "-c", load).CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("the shared library of %s (%s)", path, lines[len(lines)-1])
	}
	return nil
}

// Python returns the distribution's interpreter, whose shared library is here too.
func Python(t testing.TB) string {
	t.Helper()
	if err := findSystemPython(); err != nil {
		Missing(t, err.Error(), "install Debian's python3 and libpython3-dev")
	}
	return systemPython
}

// Processors needs at least n processors that this process may use.
func Processors(t testing.TB, n int) {
	t.Helper()
	if has := runtime.NumCPU(); has < n {
		Missing(t, fmt.Sprintf("one of %d processors", n), fmt.Sprintf("this process may use %d: allow more, for example with taskset", has))
	}
}

// Namespace needs the right to start processes in a namespace of this kind: net, mount or uts.
// Root has it, also through sudo without a password, except in most containers.
func Namespace(t testing.TB, kind string) {
	t.Helper()
	args := []string{"unshare", "--" + kind, "true"}
	if os.Geteuid() != 0 {
		args = append([]string{"sudo", "-n"}, args...)
	}
	if out, err := exec.CommandContext(context.Background(), args[0], args[1:]...).CombinedOutput(); err != nil {
		why := strings.TrimSpace(string(out))
		if why == "" {
			why = err.Error()
		}
		Missing(t, fmt.Sprintf("the right to make a %s namespace (%s)", kind, why),
			"run the tests as root, or install Debian's sudo and allow it without a password; start a container with --privileged")
	}
}

// Missing skips t or, if the full tests run, fails it, with what is missing and how to get it.
func Missing(t testing.TB, what, how string) {
	t.Helper()
	if E2E() {
		t.Fatalf("%s is missing: %s", what, how)
	}
	t.Skipf("%s is missing: %s", what, how)
}
