// Package golden compares what tests produce with files that are kept for it.
// go test -update rewrites the files; read the diff before you commit it.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite golden files")

// Equal fails the test unless the file at path, relative to the directory of the
// package under test, holds exactly got. With -update it writes got there first.
func Equal(t testing.TB, path, got string) {
	t.Helper()
	require.Equal(t, string(Kept(t, path, []byte(got))), got, "go test -update rewrites %s", path)
}

// Kept returns the contents of the file at path, relative to the directory of the package
// under test. With -update it writes got there first.
func Kept(t testing.TB, path string, got []byte) []byte {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	kept, err := os.ReadFile(path)
	require.NoError(t, err, "go test -update writes it")
	return kept
}
