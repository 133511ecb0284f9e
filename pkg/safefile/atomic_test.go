package safefile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/safefile"
)

func TestAtomicFilesReplaceFilesAlone(t *testing.T) {
	dir := t.TempDir()
	kept, link := filepath.Join(dir, "kept"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(kept, nil, 0o600))
	require.NoError(t, os.Symlink(kept, link))
	for _, path := range []string{dir, link, os.DevNull} {
		_, err := safefile.CreateAtomic(path)
		require.ErrorContains(t, err, path+" exists and is not a regular file")
	}
	f, err := safefile.CreateAtomic(kept)
	require.NoError(t, err)
	require.NoError(t, f.Commit())
}

func TestEndPartial(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	plant := func(name string) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		return filepath.Join(dir, name)
	}
	plant(".dead.json-123.cx-partial")
	plant(".whole.json-123.cx-partial")
	foreign := plant("foreign.cx-partial")
	thesis := filepath.Join(outside, "thesis")
	require.NoError(t, os.WriteFile(thesis, nil, 0o600))
	link := filepath.Join(dir, ".link-1.cx-partial")
	require.NoError(t, os.Symlink(thesis, link))
	living, err := safefile.CreateAtomic(filepath.Join(dir, "living.json"))
	require.NoError(t, err)

	require.NoError(t, safefile.EndPartial(dir, func(name string) bool { return name == "whole.json" }))
	require.NoError(t, living.Commit())
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.ElementsMatch(t, []string{foreign, link, filepath.Join(dir, "whole.json"), filepath.Join(dir, "living.json")}, left)
	require.FileExists(t, thesis)
}

// Nothing makes the directory of a file.
func TestAtomicFilesNeedTheirDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	_, err := safefile.CreateAtomic(filepath.Join(dir, "x"))
	require.EqualError(t, err, "create "+dir+"/x: no such file or directory; make the directory "+dir+" first")
}
