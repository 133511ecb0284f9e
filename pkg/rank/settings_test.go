package rank

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/dl"
)

// UCX reads its files once it is loaded, from the library's to the working directory's: the last one counts, and
// less than a variable. Its own sections for some processors do not.
func TestSettingsOfUCX(t *testing.T) {
	cc := fakes.Compiler(t) // asks go, which would leave a process that writes into this home
	home, here := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("UCX_TLS", "tcp")
	t.Setenv("UCX_CONFIG_DIR", "")
	t.Chdir(here)
	prefix := t.TempDir()
	for dir, text := range map[string]string{
		filepath.Join(prefix, "etc/ucx"): "UCX_TLS=rc\n[AMD]\nCPU vendor=AMD\nUCX_BCOPY_BW=1\n[all]\nUCX_RNDV_THRESH = 1k ; small\nUCX_MAX_RNDV_RAILS=1\n",
		home:                             "# UCX_ZCOPY_THRESH=1\n;UCX_ZCOPY_THRESH=1\nUCX_RNDV_THRESH=2k\nUCX_MAX_RMA_RAILS=2\n",
		here:                             "UCX_MAX_RMA_RAILS=1\n",
	} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "ucx.conf"), []byte(text), 0o600))
	}
	require.NotContains(t, SettingsHere().Variables, "UCX_RNDV_THRESH", "UCX is not loaded")

	source, library := filepath.Join(prefix, "empty.c"), filepath.Join(prefix, "lib", "libucs-3f.so.0")
	require.NoError(t, os.WriteFile(source, nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Dir(library), 0o700))
	out, err := exec.Command(cc, "-shared", "-fPIC", "-o", library, source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	l, err := dl.Open(library)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	found := SettingsHere().Variables
	for name := range found {
		if !strings.HasPrefix(name, "UCX_") {
			delete(found, name) // this machine's
		}
	}
	require.Equal(t, map[string]string{"UCX_RNDV_THRESH": "2k", "UCX_MAX_RNDV_RAILS": "1", "UCX_MAX_RMA_RAILS": "1"}, found)
}
