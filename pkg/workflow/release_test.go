package workflow_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/workflow"
)

// downloads is curl of the release below, whose files are in a directory.
const downloads = `#!/bin/sh
for url; do :; done
exec cp "$CX_STANDIN_RELEASE/${url##*/}" .
`

// release makes the archives of a release of the tree in root, and returns their directory and the
// digest of its SHA256SUMS. Nothing starts the programs of arm64, which are those of this machine.
func (s *stage) release(t *testing.T, version, root string) (dir, digest string) {
	t.Helper()
	dir = filepath.Join(s.dir, "release")
	bin := filepath.Join(t.TempDir(), "bin")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-w", "-o", bin+"/", "./cmd/cxgen", "./cmd/cxrun")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	var sums strings.Builder
	for _, arch := range []string{"amd64", "arm64"} {
		name := fmt.Sprintf("collectivex_%s_linux_%s.tar.gz", strings.TrimPrefix(version, "v"), arch)
		require.NoError(t, exec.Command("tar", "-C", filepath.Dir(bin), "-I", "gzip -1", "-cf", filepath.Join(dir, name), "bin").Run())
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), name)
	}
	write(t, filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()))
	sum := sha256.Sum256([]byte(sums.String()))
	return dir, hex.EncodeToString(sum[:])
}

// TestRelease runs a sweep with the programs of a release, without a compiler. Files that are not those
// of the release fail setup.
func TestRelease(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	dir, digest := s.release(t, "v1.2.3", filepath.Join("..", ".."))
	write(t, filepath.Join(s.dir, "bin", "curl"), []byte(downloads))
	write(t, filepath.Join(s.dir, "bin", "go"), []byte("#!/bin/sh\nexit 1\n"))
	options := workflow.Options{Release: workflow.Release{Version: "v1.2.3", SHA256: digest}}
	write(t, filepath.Join(s.repositories, repository, workflow.File), emit(t, options))
	s.repo(t, repository)
	r := request{run: 81, attempt: 1, inputs: map[string]string{"backend": "host", "op": "all_reduce"}, env: []string{"CX_STANDIN_RELEASE=" + dir}}
	o := s.dispatch(t, r)
	require.False(t, o.failed, o.log())
	require.Contains(t, o.summary("aggregate", ""), allPassed(s.matrix(t, 81)))

	for i, name := range []string{"collectivex_1.2.3_linux_arm64.tar.gz", "SHA256SUMS"} { // in this order: setup checks SHA256SUMS first
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = file.WriteString("\n")
		require.NoError(t, err)
		require.NoError(t, file.Close())
		r.run = 82 + i
		o = s.dispatch(t, r)
		require.True(t, o.failed)
		require.Equal(t, "failure", o.step("setup", "", "Download CollectiveX"), name)
		require.Contains(t, o.said("setup", "", "Download CollectiveX"), name+": FAILED")
	}
}
