package need

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// recorder is a test that keeps how it ended.
type recorder struct {
	testing.TB
	end  string
	attr string
}

func (r *recorder) Helper() {}

func (r *recorder) Attr(key, value string) { r.attr = key + "=" + value }

func (r *recorder) Skip(args ...any) { r.stop("skip: " + fmt.Sprint(args...)) }

func (r *recorder) Skipf(format string, args ...any) { r.stop("skip: " + fmt.Sprintf(format, args...)) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.stop("fail: " + fmt.Sprintf(format, args...))
}

func (r *recorder) stop(end string) {
	r.end = end
	runtime.Goexit()
}

// ends returns how a test with this body ends: "" if it goes on to its last line.
func ends(body func(t testing.TB)) string { return recorded(body).end }

// recorded runs the body as a test.
func recorded(body func(t testing.TB)) *recorder {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		body(r)
	}()
	<-done
	return r
}

// runs makes the rest of the test a full or a fast one.
func runs(t *testing.T, full bool) {
	t.Helper()
	t.Setenv(variable, map[bool]string{true: "1"}[full])
	require.Equal(t, full, E2E())
}

// bin returns an empty directory that is the whole PATH.
func bin(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	return dir
}

func script(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
	return path
}

// A missing program skips a test or, if the full tests run, fails it, in a line that names the program
// and its package.
func TestTool(t *testing.T) {
	dir := bin(t)
	for _, full := range []bool{false, true} {
		runs(t, full)
		word := map[bool]string{false: "skip", true: "fail"}[full]
		for name, install := range packages {
			end := ends(func(t testing.TB) { Tool(t, name) })
			if install == "" {
				require.Equal(t, word+": "+name+" is missing: .ci/run puts it into .tools/bin; put that on PATH", end)
				continue
			}
			require.Equal(t, word+": "+name+" is missing: install Debian's "+install, end)
		}
		require.Equal(t, word+": g++ is missing: install Debian's g++", ends(func(t testing.TB) { CXX(t) }))
		require.Equal(t, "fail: no package is known for frobnicate: add it to internal/need", ends(func(t testing.TB) { Tool(t, "frobnicate") }))
	}
	jq := script(t, dir, "jq", "")
	require.Empty(t, ends(func(other testing.TB) { require.Equal(t, jq, Tool(other, "jq")) }))
	t.Setenv("CX_FAKE_CXX", "clang++")
	require.Empty(t, ends(func(other testing.TB) { require.Equal(t, "clang++", CXX(other)) }))
}

func TestFull(t *testing.T) {
	runs(t, false)
	require.Equal(t, "skip: full tests: set CX_E2E=1 for tests that take long", ends(Full))
	require.Equal(t, "skip: full tests: set CX_E2E=1 to see", ends(func(t testing.TB) { EndToEnd(t, "to see") }))
	runs(t, true)
	require.Equal(t, &recorder{attr: "tests=full"}, recorded(func(t testing.TB) { EndToEnd(t, "to see") }))
	if testing.Short() {
		require.Equal(t, "skip: full tests: run without -short", ends(Full))
	} else {
		require.Empty(t, ends(Full))
	}
	require.Equal(t, []string{"CX_E2E=1"}, Environ())
}

// The interpreter does not do without its shared library.
func TestPython(t *testing.T) {
	require.EqualError(t, findPython("/nowhere/python3"), "/nowhere/python3")
	static := script(t, t.TempDir(), "python3", "echo Traceback >&2\necho OSError: no such file >&2\nexit 1\n")
	require.EqualError(t, findPython(static), "the shared library of "+static+" (OSError: no such file)")
	require.NoError(t, findPython(script(t, t.TempDir(), "python3", "")))
}

func TestNamespace(t *testing.T) {
	dir := bin(t)
	for _, name := range []string{"unshare", "sudo"} { // root needs no sudo
		script(t, dir, name, "echo unshare failed: Operation not permitted >&2\nexit 1\n")
	}
	const text = "the right to make a net namespace (unshare failed: Operation not permitted) is missing: " +
		"run the tests as root, or install Debian's sudo and allow it without a password; start a container with --privileged"
	runs(t, false)
	require.Equal(t, "skip: "+text, ends(func(t testing.TB) { Namespace(t, "net") }))
	runs(t, true)
	require.Equal(t, "fail: "+text, ends(func(t testing.TB) { Namespace(t, "net") }))
	for _, name := range []string{"unshare", "sudo"} {
		script(t, dir, name, "")
	}
	require.Empty(t, ends(func(t testing.TB) { Namespace(t, "net") }))
}
