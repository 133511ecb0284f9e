package run

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// listed returns the commands that the help lists, and those below them.
func listed(c *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			out = append(append(out, sub), listed(sub)...)
		}
	}
	return out
}

// The help of every command has examples whose flags and arguments the command takes.
// Those of commands that measure nothing also run; TestExamplesOfCompare and
// TestExamplesOfExportAndPrune run those of these commands.
func TestExamples(t *testing.T) {
	streams := cli.Streams{In: new(bytes.Buffer), Out: new(bytes.Buffer), Err: new(bytes.Buffer), Getenv: func(string) string { return "" }}
	done := 0
	dir := withDocuments(t)
	for _, c := range listed(newRoot(streams)) {
		require.NotEmpty(t, c.Short, c.CommandPath())
		require.NotEmpty(t, c.Example, c.CommandPath())
		for line := range strings.Lines(c.Example) {
			words := strings.Fields(line)
			if words[0] == "cxgen" { // see the tests of cxgen
				continue
			}
			require.Equal(t, "cxrun", words[0], line)
			if strings.Contains(line, "'") {
				require.Equal(t, "compare", c.Name(), "only its test quotes words")
				continue
			}
			root := newRoot(streams) // flags keep what they were given
			named, rest, err := root.Find(words[1:])
			require.NoError(t, err, line)
			require.True(t, strings.HasPrefix(named.CommandPath()+" ", c.CommandPath()+" "), line)
			require.NoError(t, named.ParseFlags(rest), line)
			require.NoError(t, named.ValidateArgs(named.Flags().Args()), line)
			switch named.Name() {
			case "aggregate", "summarize", "report", "env", "list", "convert", "show", "verify", "simulate":
				t.Chdir(dir)
				ran(t, cli.ExitOK, nil, words[1:]...)
				done++
			}
		}
	}
	require.Greater(t, done, 8)
}

// withDocuments returns a directory with the documents of a run that passed, and the model of a
// machine, under the names that examples have.
func withDocuments(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	e, c := resulttest.EPCase(), resulttest.CollectiveCase()
	m := plan.Matrix{
		Version:        plan.MatrixVersion,
		Generator:      plan.Generator{Program: "cxgen", Version: cli.Version, Format: plan.Format},
		RequestedCases: []plan.Requested{{SKU: "local", Disposition: plan.Runnable, Case: e}},
		RequestedOther: []plan.Requested{{SKU: "local", Disposition: plan.Runnable, Case: c}},
		Include:        []plan.Cell{{ID: "a", CaseIDs: []string{e.CaseID, c.CaseID}}},
	}
	require.NoError(t, m.WriteFile(filepath.Join(dir, plan.FileName)))
	attempt := resulttest.Attempt()
	attempt.MatrixSHA256 = m.SHA256
	for _, name := range []string{"shards", "results", filepath.Join("results", "monday")} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
		for i, d := range []result.Document{resulttest.EP(e, attempt), resulttest.Collective(c, attempt)} {
			_, err := result.Write(filepath.Join(dir, name), d, i, func([]byte) error { return nil })
			require.NoError(t, err)
		}
	}
	for _, name := range []string{"monday.ndjson", "tuesday.ndjson", "run.ndjson"} {
		ran(t, cli.ExitOK, nil, "aggregate", "--in", filepath.Join(dir, "shards"), "-o", filepath.Join(dir, name))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "host.yaml"), []byte("{sharing: unloaded, engines: 1, ns_per_byte: 0.1}\n"), 0o600))
	return dir
}

// The shell completes the filters with the words of the definitions, as in cxgen.
func TestCompletion(t *testing.T) {
	stdout, _ := ran(t, cli.ExitOK, nil, "__complete", "sweep", "--suite", "smo")
	require.Contains(t, stdout, "smoke\n")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		stdout, _ = ran(t, cli.ExitOK, nil, "completion", shell)
		require.Contains(t, stdout, "__complete")
	}
}
