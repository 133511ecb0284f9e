package run

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/result"
)

// What cannot be written ends every command with the same exit code, whichever flag names it.
func TestWhatCannotBeWritten(t *testing.T) {
	need.Full(t)
	study, err := filepath.Abs("../../../studies/all-reduce.yaml")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	line, err := result.EncodeDocument(resulttest.EP(resulttest.EPCase(), resulttest.Attempt()))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("run.ndjson", line, 0o644))
	require.NoError(t, os.WriteFile("file", nil, 0o644)) // no directory, for root neither
	require.NoError(t, os.Mkdir("results", 0o755))
	require.NoError(t, os.WriteFile("results/old.ndjson", line, 0o644))
	later := resulttest.Attempt()
	later.RunID, later.At = "later", later.At.AddDate(0, 0, 1)
	newer, err := result.EncodeDocument(resulttest.EP(resulttest.EPCase(), later))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("results/new.ndjson", newer, 0o644))
	ran(t, cli.ExitOK, nil, "sweep", "--suite", "schedule-simulated", "--out", "sweep")
	cells, err := os.ReadDir("sweep/cells")
	require.NoError(t, err)
	const tiny = " --backend host -b 16 -e 8K -f 8 -n 2 -w 1 --trials 1"
	flags := map[string]bool{}
	for _, args := range []string{
		"aggregate --in run.ndjson -o file/x.ndjson",
		"report --in run.ndjson -o file/x.html",
		"report --in run.ndjson -o x.html --figures file/x",
		"export --in run.ndjson -o file/x.csv",
		"export --in run.ndjson -o file/x.parquet",
		"export --in run.ndjson -o file/x.prom",
		"study " + study + " -o file/x",
		"bench all_reduce -J file/x.json" + tiny,
		"bench all_reduce -X file/x.json" + tiny,
		"bench all_reduce --out file/x" + tiny,
		"bench all_reduce --out file" + tiny,
		"bench p2p --model file/x.yaml" + tiny,
		"schedule show all_gather ring --ranks 2 --svg file/x.svg",
		"schedule simulate all_gather ring --ranks 2 --svg file/x.svg",
		"schedule convert all_gather ring --ranks 2 -o file/x.json",
		"schedule convert all_gather ring --ranks 2 -o file/x.et",
		"sweep --suite schedule-simulated --out file/x",
		"sweep --suite schedule-simulated --out file",
		"shard --matrix sweep/matrix_full.json --id " + cells[0].Name() + " --results file/x",
		"prune --in results --to file/x --keep 1 --apply",
	} {
		_, stderr := ran(t, cli.ExitEnvironment, nil, strings.Fields(args)...)
		require.Regexp(t, `(?m)^cxrun: .*\bfile\b.*$`, stderr, args)
		require.Equal(t, 1, strings.Count(stderr, "cxrun: "), "%s: %s", args, stderr)
		c, rest, err := newRoot(cli.Streams{}).Find(strings.Fields(args))
		require.NoError(t, err)
		require.NoError(t, c.ParseFlags(rest))
		c.Flags().Visit(func(f *pflag.Flag) { flags[f.Name] = true })
	}
	writes := regexp.MustCompile(`(?i)\b(writes?|draws?|moves?|keep plan)\b.*` + "`(FILE|DIR)`")
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			check(sub)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			require.True(t, c.Hidden || flags[f.Name] || !writes.MatchString(strings.ReplaceAll(f.Usage, "\n", " ")), "%s --%s is not tested above", c.CommandPath(), f.Name)
		})
	}
	check(newRoot(cli.Streams{}))
}
