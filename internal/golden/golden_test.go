package golden_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/golden"
)

// TestEqual runs this binary again, on a file in a directory that is missing at
// first: only a run with -update writes it, and only the same text passes then.
func TestEqual(t *testing.T) {
	if got := os.Getenv("GOLDEN_GOT"); got != "" {
		golden.Equal(t, os.Getenv("GOLDEN_PATH"), got)
		return
	}
	path := filepath.Join(t.TempDir(), "new", "file.txt")
	run := func(got string, args ...string) (string, error) {
		c := exec.CommandContext(t.Context(), os.Args[0], append(args, "-test.run=^TestEqual$")...)
		c.Env = append(os.Environ(), "GOLDEN_GOT="+got, "GOLDEN_PATH="+path)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	out, err := run("one\n")
	require.Error(t, err)
	require.Contains(t, out, "go test -update")

	out, err = run("one\n", "-update")
	require.NoError(t, err, out)
	out, err = run("one\n")
	require.NoError(t, err, out)
	out, err = run("one")
	require.Error(t, err, "the newline counts")
	require.Contains(t, out, "go test -update rewrites "+path)
}
