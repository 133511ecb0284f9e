// Package pystandin sets the environment in which programs find, for tests, the stand-ins of
// testdata/python for torch and for the expert-parallel libraries over it.
package pystandin

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
)

// Source is the directory of the stand-ins.
func Source(t testing.TB) string {
	t.Helper()
	return filepath.Join(fakes.Source(t), "..", "python")
}

// Path is PATH with the distribution's interpreter as python3; see need.Python.
func Path(t testing.TB) string {
	t.Helper()
	bin := t.TempDir()
	require.NoError(t, os.Symlink(need.Python(t), filepath.Join(bin, "python3")))
	return bin + ":" + os.Getenv("PATH")
}

// Environ is an environment in which python3 on PATH is the distribution's, and has torch
// and the library of a directory of testdata/python. Its devices are those of package
// fakes, with memory in dir.
func Environ(t testing.TB, library, dir string) []string {
	t.Helper()
	source, path := Source(t), Path(t)
	return append(
		fakes.Build(t).Environ(dir),
		"PATH="+path,
		"PYTHONPATH="+source+":"+filepath.Join(source, library),
		"PYTHONDONTWRITEBYTECODE=1",
		"CX_PYTHON_LIB=",
		"CX_STANDIN_LIB="+build(t, source),
	)
}

// Use makes this process and what it starts have the environment; see Environ.
func Use(t testing.TB, library string) {
	t.Helper()
	for _, kv := range Environ(t, library, fakes.MemoryDir(t)) {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	t.Setenv("PYTHONHOME", "")
	require.NoError(t, os.Unsetenv("PYTHONHOME"))
}

// build compiles standin.c, once for each state of its sources.
func build(t testing.TB, source string) string {
	t.Helper()
	root := filepath.Join(source, "..", "..")
	rows, numeric := filepath.Join(root, "pkg", "ep", "host"), filepath.Join(root, "pkg", "numeric")
	h := sha256.New()
	for _, name := range []string{
		filepath.Join(source, "standin.c"), filepath.Join(rows, "rows.c"), filepath.Join(rows, "rows.h"), filepath.Join(numeric, "numeric.h"),
	} {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		fmt.Fprintf(h, "%d\n%s", len(data), data)
	}
	compiler := fakes.Compiler(t)
	fmt.Fprint(h, compiler)
	library := fakes.SharedPath("standin", fmt.Sprintf("%x.so", h.Sum(nil)[:8]))
	err := fakes.Shared(library, func(create string) error {
		out, err := exec.Command(compiler, "-O2", "-Wall", "-shared", "-fPIC", "-std=gnu11", "-I", rows, "-I", numeric, "-o", create,
			filepath.Join(source, "standin.c"), filepath.Join(rows, "rows.c"), "-lm").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	require.NoError(t, err)
	return library
}
