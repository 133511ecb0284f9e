package cli_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/cli"
)

// The manual page has the help of every command that the program lists, as roff.
func TestMan(t *testing.T) {
	program := func(cli.Streams) *cobra.Command {
		root := &cobra.Command{Use: "cx", Short: "Measure - and check", Version: `v1 "x"`}
		run := func(*cobra.Command, []string) error { return nil }
		bench := &cobra.Command{Use: "bench", Short: "Measure one thing", RunE: run}
		bench.AddCommand(&cobra.Command{Use: "copy FILE", Short: "Copy", Long: "Copy a file.\n'as is', with a \\.\n.\n", Example: "  cx bench copy a", RunE: run})
		root.AddCommand(bench, &cobra.Command{Use: "rank", Hidden: true, RunE: run})
		bench.Commands()[0].Flags().IntP("iters", "n", 3, "how often")
		return root
	}
	var out bytes.Buffer
	s := cli.Streams{Out: &out, Err: new(bytes.Buffer), Getenv: func(string) string { return "" }}
	require.Equal(t, cli.ExitOK, cli.Execute(context.Background(), s, program, []string{"man"}))
	page := out.String()
	require.Contains(t, page, `.TH CX 1 "" "v1 \(dqx\(dq" CollectiveX
.SH NAME
cx \- Measure \- and check
`)
	require.Contains(t, page, `.SS cx bench copy FILE [flags]
.PP
.nf
Copy a file.
\&'as is', with a \e.
\&.
.fi
.PP
.nf
  \-n, \-\-iters int   how often (default 3)
.fi
.PP
.nf
  cx bench copy a
.fi
`)
	require.Contains(t, page, "\n2  usage error")
	require.NotContains(t, page, "cx rank")
	require.NotContains(t, page, "cx man")
	require.NotContains(t, page, "cx help")
}
