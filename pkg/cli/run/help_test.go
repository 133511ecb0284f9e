package run

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/preflight"
	"github.com/collectivex/collectivex/pkg/result"
)

// Every command that people see has an example, and each line of an example names a command
// and flags that exist.
func TestEveryCommandHasAnExample(t *testing.T) {
	root := newRoot(cli.Streams{})
	lines := 0
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			check(sub)
		}
		if c.Hidden || c.RunE == nil || c == root {
			return
		}
		require.NotEmpty(t, c.Example, c.CommandPath())
		for line := range strings.Lines(c.Example) {
			words := strings.Fields(line)
			if len(words) < 2 || words[0] != "cxrun" || strings.Contains(line, "'") {
				continue // a shell reads a command in quotes as one word
			}
			named, rest, err := newRoot(cli.Streams{}).Find(words[1:])
			require.NoError(t, err, line)
			require.NoError(t, named.ParseFlags(rest), line)
			lines++
		}
	}
	check(root)
	require.Greater(t, lines, 10)
}

// People who know another program find its measurement from cxrun --help.
func TestHelpNamesOtherPrograms(t *testing.T) {
	stdout, _ := ran(t, cli.ExitOK, nil, "--help")
	require.Regexp(t, `(?m)^  bench .*\(nccl-tests\).*\(NIXL\).*\n.*\(nvbandwidth\)`, stdout)
}

// doctor begins with what is ready, and says once what several backends lack.
func TestDoctorBeginsWithWhatIsReady(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, printFindings(streams(&out, nil), []preflight.Finding{
		{Backend: "nccl", State: preflight.Missing, Text: "no NVIDIA GPU"},
		{Backend: "a2a", State: preflight.Missing, Text: "no NVIDIA GPU"},
		{Backend: "nixl", State: preflight.Missing, Text: "no NIXL"},
		{Backend: "host", State: preflight.Ready, Text: "2 processors"},
		{Backend: "host", State: preflight.Note, Text: "slow"},
		{Tool: "slurm", State: preflight.Missing, Text: "not on PATH"},
		{Tool: "docker", State: preflight.Ready, Text: "27.1"},
	}))
	require.Equal(t, `host        ready    2 processors
host        note     slow
2 backends  missing  nccl, a2a: no NVIDIA GPU
nixl        missing  no NIXL
docker      ready    27.1
slurm       missing  not on PATH
`, out.String())
}

// The examples of export and prune do what they say.
func TestExamplesOfExportAndPrune(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll("results/monday", 0o755))
	d := resulttest.EP(resulttest.EPCase(), resulttest.Attempt())
	_, err := result.Write("results/monday", d, 0, func([]byte) error { return nil })
	require.NoError(t, err)
	line, err := result.EncodeDocument(d)
	require.NoError(t, err)
	for _, name := range []string{"run.ndjson", "results/release-1.ndjson"} {
		require.NoError(t, os.WriteFile(name, line, 0o644))
	}
	ran := 0
	for _, c := range []*cobra.Command{newExport(cli.Streams{}), newPrune(cli.Streams{})} {
		for example := range strings.Lines(c.Example) {
			if strings.Contains(example, "DOCUMENT") { // stands for a name
				continue
			}
			var out, errs strings.Builder
			s := cli.Streams{Out: &out, Err: &errs, Getenv: func(string) string { return "" }}
			require.Equal(t, cli.ExitOK, Main(t.Context(), s, strings.Fields(example)[1:]), "%s%s", example, errs.String())
			ran++
		}
	}
	require.Equal(t, 5, ran)
	files, err := filepath.Glob("*.*")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"run.ndjson", "monday.csv", "run.parquet"}, files)
}

// The help of every command fits a terminal of 80 columns.
func TestHelpFits(t *testing.T) {
	var check func(c *cobra.Command, words ...string)
	check = func(c *cobra.Command, words ...string) {
		if c.Hidden {
			return
		}
		stdout, _ := ran(t, cli.ExitOK, nil, append(words, "--help")...)
		for line := range strings.Lines(stdout) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), 80, "%v: %s", words, line)
		}
		for _, sub := range c.Commands() {
			check(sub, append(words, sub.Name())...)
		}
	}
	check(newRoot(cli.Streams{}))
}
