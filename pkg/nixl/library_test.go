package nixl

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/dl"
)

// build compiles a library with the functions of NIXL into dir, as a wheel has it.
func build(t *testing.T, dir string, args ...string) string {
	t.Helper()
	file := filepath.Join(dir, ".nixl_cu13.mesonpy.libs", "libnixl_capi.so")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	compile(t, append([]string{"-fPIC", "-o", file, "testdata/stub.c"}, args...)...)
	return file
}

// compile makes a shared library.
func compile(t *testing.T, args ...string) {
	t.Helper()
	cc, err := exec.Command("go", "env", "CC").Output()
	require.NoError(t, err)
	out, err := exec.Command(strings.TrimSpace(string(cc)), append([]string{"-shared"}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// Libraries that cannot be used are refused with what is wrong with them.
func TestUnfitLibraries(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.so")
	compile(t, "-o", other, "-x", "c", "/dev/null")
	for name, tc := range map[string]struct {
		path string
		is   error
		text string
	}{
		"absent":           {"/nowhere/libnixl_capi.so", dl.ErrNoLibrary, "cannot open shared object file"},
		"another library":  {other, dl.ErrNoSymbol, "nixl_capi_is_stub in other.so"},
		"the stub of Rust": {build(t, t.TempDir(), "-DSTUB=1"), ErrUnfit, "it is the stub of NIXL's Rust bindings: install nixl-cu13 or nixl-cu12"},
		"an older release": {build(t, t.TempDir(), "-DSORTED"), ErrUnfit, "install nixl-cu13 or nixl-cu12 1.5.1 or newer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(search.Env, tc.path)
			_, err := Open(t.Context())
			require.ErrorIs(t, err, tc.is)
			require.ErrorContains(t, err, "NIXL from CX_NIXL_LIB="+tc.path+": ")
			require.ErrorContains(t, err, tc.text)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

// The version is that of the wheel in which the library lies.
func TestVersion(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(search.Env, build(t, dir))
	l, err := Open(t.Context())
	require.NoError(t, err)
	require.Equal(t, "unknown", l.Version())
	require.NoError(t, os.Mkdir(filepath.Join(dir, "nixl_cu13-1.5.1.dist-info"), 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "nixl_cu12-1.4.0.dist-info"), 0o755))
	require.Equal(t, "1.5.1", l.Version())
}

// The wheel is found among the packages of python3 on PATH, and a broken one is named.
func TestAmongThePackagesOfPython(t *testing.T) {
	need.Tool(t, "python3")
	t.Setenv(search.Env, "")
	if l, err := search.Open(); err == nil {
		t.Fatalf("NIXL is installed in %s, which hides that of this test", l.Path())
	}
	dir := t.TempDir()
	t.Setenv("PYTHONPATH", dir)
	file := build(t, dir)
	l, err := Open(t.Context())
	require.NoError(t, err)
	require.Equal(t, file, l.Path())

	broken := t.TempDir()
	t.Setenv("PYTHONPATH", broken)
	file = filepath.Join(broken, filepath.Base(filepath.Dir(file)), filepath.Base(file))
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = Open(t.Context())
	require.ErrorIs(t, err, dl.ErrNoLibrary)
	require.ErrorContains(t, err, file)

	t.Setenv("PATH", "/nowhere")
	_, err = Open(t.Context())
	require.ErrorIs(t, err, dl.ErrNoLibrary)
	require.ErrorContains(t, err, "libnixl_capi.so")
}

// Who has no library reads one line that says how to get it.
func TestAMissingLibraryNamesItsWheel(t *testing.T) {
	t.Setenv(search.Env, "")
	missing := search
	missing.Names = []string{"libcx-nowhere.so"}
	_, err := missing.Open()
	require.EqualError(t, err, "NIXL: no such library: libnixl_capi.so is neither on the loader's path nor in a wheel of /usr, /opt/venv or python3 on PATH; "+
		"run pip install --no-deps nixl-cu13==1.5.1 or set CX_NIXL_LIB to its path")
}

// Without its plugin, NIXL says no more than that its backend failed.
func TestWithoutPlugin(t *testing.T) {
	lost := &StatusError{"get_plugin_params", -2}
	t.Setenv(pluginVariable, "")
	require.EqualError(t, withoutPlugin(lost), "nixl_capi_get_plugin_params: backend error (-2): no plugin UCX that loads: install the complete NIXL wheel, with its directory plugins")
	t.Setenv(pluginVariable, "/nowhere")
	require.EqualError(t, withoutPlugin(lost), "nixl_capi_get_plugin_params: backend error (-2): no plugin UCX that loads in NIXL_PLUGIN_DIR=/nowhere: unset it")
	other := &StatusError{"create_backend", -2}
	require.Equal(t, other, withoutPlugin(other))
}
