package safefile_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/safefile"
)

// A directory in which another process still creates files is removed when that process has ended.
func TestRemoveAllBesideAWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "in"), 0o755))
	begun, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for from, n := time.Now(), 0; time.Since(from) < 300*time.Millisecond; n++ {
			_ = os.Mkdir(filepath.Join(dir, "in"), 0o755) // again, so that there is something to remove
			_ = os.WriteFile(filepath.Join(dir, "in", "file"), nil, 0o644)
			if n == 0 {
				close(begun)
			}
		}
	}()
	<-begun
	require.NoError(t, safefile.RemoveAll(dir))
	<-ended
	require.NoDirExists(t, dir)
}
