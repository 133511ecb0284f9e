package run

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/cli"
)

// A study is written, checked, and taken over; a file that was changed, and rows that are
// missing, are named.
func TestStudy(t *testing.T) {
	const manifest = "../../../studies/all-reduce.yaml"
	dir := filepath.Join(t.TempDir(), "out")
	study := func(want int, flags ...string) (stdout, stderr string) {
		code, stdout, stderr := cxrun(t, nil, append([]string{"study", manifest, "-o", dir}, flags...)...)
		require.Equal(t, want, code, stderr)
		return stdout, stderr
	}
	_, stderr := study(cli.ExitFailed, "--fast")
	require.Contains(t, stderr, "lacks 60 rows: mesh tcm at 16 bytes, ")
	stdout, _ := study(cli.ExitOK)
	require.Contains(t, stdout, "all_reduce of six ranks: 72 rows, 60 simulated now; 4 files in ")
	stdout, _ = study(cli.ExitOK, "--fast")
	require.Contains(t, stdout, "72 rows, 0 simulated now")
	stdout, _ = study(cli.ExitOK, "--check")
	require.Contains(t, stdout, "4 files in "+dir+": as the manifest gives them\n")

	svg := filepath.Join(dir, "memory.svg")
	require.NoError(t, os.WriteFile(svg, []byte("<svg/>"), 0o600))
	_, stderr = study(cli.ExitFailed, "--check")
	require.Contains(t, stderr, "memory.svg missing or not what the manifest gives; run without --check")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "rows.ndjson"), []byte("{\n"), 0o600))
	_, stderr = study(cli.ExitUsage)
	require.Contains(t, stderr, "rows.ndjson: line 1: unexpected end of JSON input: remove the file")
	_, stderr = study(cli.ExitUsage, "--fast", "--check")
	require.Contains(t, stderr, "takes one of --fast and --check")
}
