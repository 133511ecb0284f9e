package pyhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/command"
)

// scenarioVariable makes the test binary a process of its own with an interpreter: there
// is one in a process.
const scenarioVariable = "CX_TEST_PYHOST"

func TestMain(m *testing.M) {
	if name, ok := os.LookupEnv(scenarioVariable); ok {
		runtime.LockOSThread()
		if err := scenarios[name](); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// environment is a virtual environment of its own, without pip, in which modules by these
// names are installed. PATH begins with it.
func environment(t *testing.T, modules map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o700))
	require.NoError(t, os.Symlink(need.Python(t), filepath.Join(dir, "bin", "python3")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pyvenv.cfg"), []byte("home = /usr/bin\ninclude-system-site-packages = false\n"), 0o600))
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	t.Setenv("PYTHONPATH", "")
	t.Setenv("PYTHONHOME", "")
	require.NoError(t, os.Unsetenv("PYTHONHOME"))
	t.Setenv(LibraryVariable, "")
	e := found(t, nil)
	site := filepath.Join(dir, "lib", fmt.Sprintf("python%d.%d", e.Version[0], e.Version[1]), "site-packages")
	require.NoError(t, os.MkdirAll(site, 0o700))
	for name, source := range modules {
		require.NoError(t, os.WriteFile(filepath.Join(site, name+".py"), []byte(source), 0o600))
	}
	return dir
}

func found(t *testing.T, modules map[string][]string) *Environment {
	t.Helper()
	e, err := Find(t.Context(), command.Host{}, modules)
	require.NoError(t, err)
	return e
}

// inProcess runs a scenario in a process of its own, and returns its output and status.
func inProcess(t *testing.T, name string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), scenarioVariable+"="+name)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func start() (*Interpreter, error) {
	e, err := Find(context.Background(), command.Host{}, nil)
	if err != nil {
		return nil, err
	}
	return Start(e)
}

// function loads a module and returns its function f.
func function(i *Interpreter, source string) (*Function, error) {
	m, err := i.Load("test", source)
	if err != nil {
		return nil, err
	}
	return m.Function("f")
}

var scenarios = map[string]func() error{
	"calls":     calls,
	"exception": exception,
	"callback":  callback,
	"signals":   signals,
	"threads":   threads,
	"teardown":  teardown,
	"start":     func() error { _, err := start(); return err },
	"crash":     crash,
	"import":    func() error { return run("import nothing_of_this_name\n") },
	"twice": func() error {
		if _, err := start(); err != nil {
			return err
		}
		_, err := start()
		return err
	},
}

func run(source string) error {
	i, err := start()
	if err != nil {
		return err
	}
	_, err = i.Load("test", source)
	return err
}

func expect(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func calls() error {
	i, err := start()
	if err != nil {
		return err
	}
	sum, err := function(i, "import installed\ndef f(*a):\n    return sum(a) if a else None\n")
	if err != nil {
		return err
	}
	n, err := sum.Call(1, -2, 1<<62)
	none, err2 := sum.Call()
	text, err3 := function(i, "def f(s):\n    return s + '\\0é'\n")
	if err := errors.Join(err, err2, err3, expect(n == 1<<62-1 && none == 0, "%d %d", n, none)); err != nil {
		return err
	}
	got, err := text.Text("ö\x00x")
	return errors.Join(err, expect(got == "ö\x00x\x00é", "%q", got))
}

func exception() error {
	i, err := start()
	if err != nil {
		return err
	}
	f, err := function(i, "def g():\n    raise ValueError('two\\nlines')\ndef f():\n    g()\n")
	if err != nil {
		return err
	}
	_, err = f.Call()
	e, ok := errors.AsType[*Exception](err)
	if !ok || *e != (Exception{Type: "ValueError", Message: "two lines", Place: "collectivex_test:2"}) {
		return fmt.Errorf("not the exception: %w", err)
	}
	f, err = function(i, "def f():\n    return 'no number'\n")
	if err != nil {
		return err
	}
	_, err = f.Call()
	return expect(err != nil && strings.HasPrefix(err.Error(), "TypeError: "), "%v", err)
}

var errPeer = errors.New("peer is gone")

func callback() error {
	i, err := start()
	if err != nil {
		return err
	}
	if err := errors.Join(
		i.Define("test", "reverse", func(arg []byte) ([]byte, error) { return append([]byte("<"), arg...), nil }),
		i.Define("test", "fail", func([]byte) ([]byte, error) { return nil, errPeer }),
		i.Define("test", "panics", func([]byte) ([]byte, error) { panic("in a callback") }),
	); err != nil {
		return err
	}
	f, err := function(i, `
def f(how):
    if how == "fail":
        fail(b"")
    if how == "panic":
        panics(b"")
    if how == "wrong":
        reverse(1)
    return reverse(how.encode()).decode()
`)
	if err != nil {
		return err
	}
	text, err := f.Text("abc")
	if err := errors.Join(err, expect(text == "<abc", "%q", text)); err != nil {
		return err
	}
	_, err = f.Text("fail")
	_, err2 := f.Text("panic")
	_, err3 := f.Text("wrong")
	_, err4 := f.Text("abc")
	return errors.Join(
		expect(errors.Is(err, errPeer) && strings.HasPrefix(err.Error(), "RuntimeError: peer is gone"), "fail: %v", err),
		expect(err2 != nil && strings.Contains(err2.Error(), "panic: in a callback"), "panic: %v", err2),
		expect(err3 != nil && strings.HasPrefix(err3.Error(), "TypeError: "), "wrong: %v", err3),
		err4,
	)
}

// A module that handles a signal when it is imported does not get it.
func signals() error {
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGTERM, syscall.SIGINT)
	i, err := start()
	if err != nil {
		return err
	}
	if _, err := i.Load("test", "import signal\nfor s in (signal.SIGTERM, signal.SIGINT):\n    signal.signal(s, signal.SIG_IGN)\n"); err != nil {
		return err
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		if err := syscall.Kill(syscall.Getpid(), s); err != nil {
			return err
		}
		select {
		case <-got:
		case <-time.After(5 * time.Minute):
			return fmt.Errorf("%v did not arrive", s)
		}
	}
	return nil
}

// Threads of Python run while Go runs, and every thread of Go may call.
func threads() error {
	i, err := start()
	if err != nil {
		return err
	}
	f, err := function(i, "import threading\nn = 0\nevent = threading.Event()\nthreading.Thread(target=event.set).start()\ndef f():\n    global n\n    event.wait()\n    n += 1\n    return n\n")
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	errs := make([]error, 8)
	for t := range errs {
		group.Go(func() {
			for range 50 {
				if _, err := f.Call(); err != nil {
					errs[t] = err
				}
			}
		})
	}
	group.Wait()
	n, err := f.Call()
	return errors.Join(append(errs, err, expect(n == 401, "%d", n))...)
}

// What aborts when it is torn down is not torn down, and what was printed is not lost.
func teardown() error {
	i, err := start()
	if err != nil {
		return err
	}
	_, err = i.Load("test", `
import atexit, ctypes, os, threading
class Handle:
    def __del__(self):
        os.abort()
handle = Handle()
atexit.register(os.abort)
threading.Thread(target=threading.Event().wait).start()
print("printed by Python", end="")
ctypes.CDLL(None).printf(b"printed by C")
`)
	return errors.Join(err, i.Flush())
}

// crash is a native crash in a call.
func crash() error {
	i, err := start()
	if err != nil {
		return err
	}
	f, err := function(i, "import ctypes\ndef f():\n    ctypes.string_at(8)\n")
	if err != nil {
		return err
	}
	_, err = f.Call()
	return err
}

func TestInterpreter(t *testing.T) {
	environment(t, map[string]string{"installed": ""})
	for _, name := range []string{"calls", "callback", "signals", "threads"} {
		t.Run(name, func(t *testing.T) {
			out, err := inProcess(t, name)
			require.NoError(t, err, out)
		})
	}
	t.Run("exception", func(t *testing.T) {
		out, err := inProcess(t, "exception")
		require.NoError(t, err, out)
		require.Contains(t, out, "Traceback (most recent call last):\n  File \"collectivex_test\", line 4, in f\n", "the log has the traceback")
	})
	t.Run("teardown", func(t *testing.T) {
		out, err := inProcess(t, "teardown")
		require.NoError(t, err, out)
		require.Contains(t, out, "printed by Python")
		require.Contains(t, out, "printed by C")
	})
	t.Run("twice", func(t *testing.T) {
		out, err := inProcess(t, "twice")
		require.Error(t, err)
		require.Equal(t, "error: this process already has a Python interpreter\n", out)
	})
	t.Run("crash", func(t *testing.T) {
		out, err := inProcess(t, "crash")
		require.Error(t, err)
		require.Contains(t, out, "SIGSEGV")
	})
	t.Run("import", func(t *testing.T) {
		out, err := inProcess(t, "import")
		require.Error(t, err)
		require.Contains(t, out, "error: ModuleNotFoundError: No module named 'nothing_of_this_name' (collectivex_test:1)\n")
	})
}

// The environment is the one whose python3 is first on PATH, also where that is a script
// that starts another.
func TestFind(t *testing.T) {
	dir := environment(t, map[string]string{
		"installed": "",
		"raises":    "class Buffer:\n  def __init__(self, group, *, is_intranode=False): pass\n  def other(self, x): pass\nraise Exception('imported')\n",
		"broken":    "class :\n",
	})
	e := found(t, map[string][]string{"installed": {"installed"}, "missing": {"missing"}})
	require.Equal(t, dir, e.Prefix)
	require.Equal(t, map[string]string{"installed": ""}, e.Packages)
	require.Empty(t, e.Classes)

	site := fmt.Sprintf("lib/python%d.%d/site-packages", e.Version[0], e.Version[1])
	inner := filepath.Join(dir, site, "package", "buffers")
	require.NoError(t, os.MkdirAll(inner, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, site, "package", "__init__.py"), []byte("raise Exception('imported')\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(inner, "elastic.py"), []byte("class Elastic: pass\n"), 0o600))
	e, err := Find(t.Context(), command.Host{}, nil, "raises", "missing", "broken", "package")
	require.NoError(t, err)
	require.Equal(t, map[string]map[string][]string{
		"raises": {"Buffer": {"self", "group", "is_intranode"}}, "broken": {}, "package": {"Elastic": {}},
	}, e.Classes)
	e = found(t, map[string][]string{"package.buffers.elastic": {}, "package.elastic": {}, "package.buffers.missing.elastic": {}, "raises.elastic": {}, "missing.elastic": {}})
	require.Equal(t, map[string]string{"package.buffers.elastic": ""}, e.Packages)

	shims := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\necho welcome\nexec %s/bin/python3 \"$@\"\n", dir)
	require.NoError(t, os.WriteFile(filepath.Join(shims, "python3"), []byte(script), 0o700))
	t.Setenv("PATH", shims+":/usr/bin:/bin")
	require.Equal(t, dir, found(t, nil).Prefix)
	out, err := inProcess(t, "calls")
	require.NoError(t, err, out)
}

func TestBrokenEnvironments(t *testing.T) {
	t.Setenv(LibraryVariable, "")
	for _, broken := range []struct {
		name, python, want string
		variable           [2]string
	}{
		{name: "no python3", want: "error: run python3 on PATH: "},
		{name: "python3 fails", python: "echo no such interpreter >&2; exit 3", want: "error: run python3 on PATH: exit status 3 (no such interpreter): "},
		{name: "python3 is something else", python: "echo hello", want: "error: python3 on PATH did not describe itself: "},
		{
			name: "no library", python: `echo '{"executable":"/opt/py/bin/python3","version":[3,8,1],"prefix":"/opt/py","libraries":["/opt/py/lib/libpython3.8.so.1.0"]}'`,
			want: "error: python3 on PATH is Python 3.8.1 of /opt/py/bin/python3, whose shared library is missing: install libpython3.8, or build that Python with --enable-shared: libpython: no such library: ",
		},
		{
			name: "library of another version", python: `ENVIRONMENT/bin/python3 "$@" | sed 's/"version": \[3, [0-9]*, [0-9]*\]/"version": [3, 8, 1]/'`,
			want: "error: libpython: libpython has version 3.",
		},
		{
			name: "library named wrongly", python: `exec ENVIRONMENT/bin/python3 "$@"`, variable: [2]string{LibraryVariable, "/nowhere/libpython.so"},
			want: "error: libpython from CX_PYTHON_LIB=/nowhere/libpython.so: ",
		},
		{
			name: "something else is named", python: `exec ENVIRONMENT/bin/python3 "$@"`, variable: [2]string{LibraryVariable, "libc.so.6"},
			want: "error: libpython from CX_PYTHON_LIB=libc.so.6: no such symbol: Py_GetVersion in libc.so.6; ",
		},
		{
			name: "another environment", python: `ENVIRONMENT/bin/python3 "$@" | sed 's/"prefix": "[^"]*"/"prefix": "\/elsewhere"/'`,
			want: ", not Python 3.",
		},
	} {
		t.Run(broken.name, func(t *testing.T) {
			if strings.Contains(broken.python, "ENVIRONMENT") {
				broken.python = strings.ReplaceAll(broken.python, "ENVIRONMENT", environment(t, nil))
			}
			bin := t.TempDir()
			path := bin
			if broken.python != "" {
				require.NoError(t, os.WriteFile(filepath.Join(bin, "python3"), []byte("#!/bin/sh\n"+broken.python+"\n"), 0o700))
				path += ":/usr/bin:/bin"
			}
			t.Setenv("PATH", path)
			if broken.variable[0] != "" {
				t.Setenv(broken.variable[0], broken.variable[1])
			}
			out, err := inProcess(t, "start")
			require.Error(t, err, out)
			require.Contains(t, out, broken.want)
			require.Equal(t, 1, strings.Count(out, "\n"), "an error is one line: %s", out)
		})
	}
}
