package cli_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/planner"
)

// What no command takes has its text here; tests of commands assert the flag.
func TestCommandLinesThatMeanNothing(t *testing.T) {
	program := func(cli.Streams) *cobra.Command {
		root := &cobra.Command{Use: "cx"}
		read := &cobra.Command{Use: "read", Args: cli.NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
		read.Flags().StringArray("in", nil, "")
		read.Flags().StringSlice("case", nil, "")
		run := &cobra.Command{Use: "run", Args: cli.NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
		run.Flags().IntP("iters", "n", 1, "")
		run.Flags().Float64("share", 1, "")
		run.Flags().Duration("limit", 0, "")
		cli.AddFilterFlags(run.Flags(), &planner.Filters{})
		run.Flags().StringP("out", "o", "", "")
		root.AddCommand(read, run)
		return root
	}
	for line, want := range map[string]string{
		"read x":            `unexpected argument "x": name it with --in x`,
		"run x":             `unexpected argument "x"; see 'cx run --help'`,
		"run --iter 3":      "unknown flag: --iter; did you mean --iters?",
		"run --colour red":  "unknown flag: --colour; see 'cx run --help'",
		"run -n many":       `-n, --iters: invalid value "many": want a whole number; see 'cx run --help'`,
		"run --out=":        "--out is empty; leave it out or give it a value; see 'cx run --help'",
		"read --in=":        "--in is empty; leave it out or give it a value; see 'cx read --help'",
		"read --case=":      "--case is empty; leave it out or give it a value; see 'cx read --help'",
		"read --case=a,":    "--case is empty; leave it out or give it a value; see 'cx read --help'",
		"run -o -":          "--out -: cannot write to standard output; name a file or directory; see 'cx run --help'",
		"run --max-cases 0": `invalid argument "0" for "--max-cases" flag: "0" is not a positive number; see 'cx run --help'`,
		"run --limit 90":    `--limit: invalid value "90": want a duration such as 90m; see 'cx run --help'`,
		"run --share half":  `--share: invalid value "half": want a number; see 'cx run --help'`,
	} {
		t.Run(line, func(t *testing.T) {
			var errs bytes.Buffer
			s := cli.Streams{In: strings.NewReader(""), Out: new(bytes.Buffer), Err: &errs, Getenv: func(string) string { return "" }}
			require.Equal(t, cli.ExitUsage, cli.Execute(context.Background(), s, program, strings.Fields(line)))
			require.Equal(t, "cx: "+want+"\n", errs.String())
		})
	}
}
