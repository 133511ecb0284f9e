// Package pystandin sets the environment so that tests find the stand-ins of testdata/python for torch
// and for the libraries that use it. A directory NAME-VERSION there has the modules of the
// distribution with this name and version.
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

// Source returns the directory of the stand-ins.
func Source(t testing.TB) string {
	t.Helper()
	return filepath.Join(fakes.Source(), "..", "python")
}

// Path returns PATH with the distribution's interpreter as python3; see need.Python.
func Path(t testing.TB) string {
	t.Helper()
	bin := t.TempDir()
	require.NoError(t, os.Symlink(need.Python(t), filepath.Join(bin, "python3")))
	return bin + ":" + os.Getenv("PATH")
}

// Use makes this process and its children find the distribution's python3 on PATH, with torch and
// the given libraries. A library is given as a part of the name of its directory in testdata/python.
// Package fakes provides the devices.
func Use(t testing.TB, libraries ...string) {
	t.Helper()
	source := Source(t)
	path := []string{source, t.TempDir()}
	for _, library := range append([]string{"torch"}, libraries...) {
		found, err := filepath.Glob(filepath.Join(source, "*"+library+"*", "[a-z]*"))
		require.NoError(t, err)
		require.NotEmpty(t, found, library)
		install(t, path[1], found)
		path = append(path, filepath.Dir(found[0]))
	}
	for _, kv := range append(
		fakes.Build(t).Environ(fakes.MemoryDir(t)),
		"PATH="+Path(t),
		"PYTHONPATH="+strings.Join(path, ":"),
		"PYTHONDONTWRITEBYTECODE=1",
		"CX_PYTHON_LIB=",
		"CX_STANDIN_LIB="+build(t, source),
	) {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	t.Setenv("PYTHONHOME", "")
	require.NoError(t, os.Unsetenv("PYTHONHOME"))
}

// install writes a distribution's metadata to site, as an installer does: its name and version, from
// the name of its directory, and the names of its modules.
func install(t testing.TB, site string, modules []string) {
	t.Helper()
	of := filepath.Dir(modules[0])
	info := filepath.Join(site, filepath.Base(of)+".dist-info")
	require.NoError(t, os.Mkdir(info, 0o755))
	name, version, _ := strings.Cut(filepath.Base(of), "-")
	var top []string
	for _, m := range modules {
		require.Equal(t, of, filepath.Dir(m), "two stand-ins match this name")
		top = append(top, strings.TrimSuffix(filepath.Base(m), ".py"))
	}
	require.NoError(t, os.WriteFile(filepath.Join(info, "METADATA"), fmt.Appendf(nil, "Metadata-Version: 2.1\nName: %s\nVersion: %s\n", name, version), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(info, "top_level.txt"), []byte(strings.Join(top, "\n")), 0o644))
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
