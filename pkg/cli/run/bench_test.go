package run

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
)

// masked has what differs from machine to machine and run to run taken out.
func masked(text string) string {
	text = regexp.MustCompile(`(?m)^# library .*$`).ReplaceAllString(text, "# library LIBRARY")
	text = regexp.MustCompile(`(?m)^(#  Rank +\d+ device +\d+) .*$`).ReplaceAllString(text, "$1 DEVICE")
	text = regexp.MustCompile(`chosen: [^)]*`).ReplaceAllString(text, "chosen: WHY")
	text = regexp.MustCompile(`(Avg bus bandwidth +:) \S+`).ReplaceAllString(text, "$1 X")
	text = regexp.MustCompile(`(start to first timed op +:) \S+`).ReplaceAllString(text, "$1 X")
	// a time or bandwidth in its column, with the spaces before it
	return regexp.MustCompile(` +\d+\.\d+| +\d\.\de[+-]\d+`).ReplaceAllStringFunc(text, func(s string) string {
		return strings.Repeat(" ", len(s)-1) + "X"
	})
}

// onHost runs bench on the host backend in a directory for temporary files of
// its own, which has to be empty afterwards.
func onHost(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	code, stdout, stderr := cxrun(t, nil, append([]string{"bench", "--backend", "host"}, args...)...)
	require.Equal(t, cli.ExitOK, code, stderr)
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left, "a success leaves nothing behind")
	return stdout, stderr
}

func TestBenchPrintsNCCLTestsColumns(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
	}{
		{"all_reduce", []string{"all_reduce", "-b", "8", "-e", "1M", "-f", "16"}},
		{"alltoall", []string{"alltoall", "-b", "4", "-e", "1.5K", "-i", "512", "-d", "bfloat16", "-n", "3", "-w", "0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr := onHost(t, tt.args...)
			require.Empty(t, stderr)
			golden(t, "bench-"+tt.name+".txt", masked(stdout))
			for line := range strings.Lines(stdout) {
				if !strings.HasPrefix(line, "#") {
					require.Len(t, strings.Fields(line), 13, line)
				}
			}
		})
	}
}

func TestBenchJSONIsTheTable(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	file := filepath.Join(t.TempDir(), "bench.json")
	stdout, stderr := onHost(t, "all_reduce", "-b", "8", "-e", "64K", "-f", "8", "--trials", "3", "--out", out, "-J", file)
	require.Contains(t, stderr, out)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var report bench.Report
	require.NoError(t, json.Unmarshal(raw, &report))
	require.True(t, report.Passed)
	require.Equal(t, 2, report.World)
	require.Len(t, report.Results, 1)
	rows := report.Results[0].Rows
	n := 0
	for line := range strings.Lines(stdout) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		for i, at := range []int{5, 9} {
			row := rows[2*n+i]
			require.Equal(t, f[0], strconv.FormatInt(row.Bytes, 10))
			for k, v := range []float64{row.Shown.TimeUS, row.Shown.AlgBW, row.Shown.BusBW} {
				printed, err := strconv.ParseFloat(f[at+k], 64)
				require.NoError(t, err)
				require.InDelta(t, v, printed, 0.0051)
			}
			require.Equal(t, "0", f[at+3])
			require.Equal(t, 3, row.Pipelined.SampleCount)
		}
		n++
	}
	require.Len(t, rows, 2*n)
	require.FileExists(t, filepath.Join(out, matrixFile))
}
