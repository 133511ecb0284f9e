// Package benchtest tests what `cxrun bench` refuses.
package benchtest

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	_ "github.com/collectivex/collectivex/pkg/families" // definitions need them
)

// Refusal is a command line that is refused, its exit code and its full error text. The tests of
// the command only assert exit codes and names.
type Refusal struct {
	line string
	code int
	want string
}

// Usage is a line that is refused as a usage error.
func Usage(line, want string) Refusal { return Refusal{line, cli.ExitUsage, want} }

// Environment is a line that this machine or the backend cannot do.
func Environment(line, want string) Refusal { return Refusal{line, cli.ExitEnvironment, want} }

// Refuses plans each line of a command on the backend "host", on two ranks unless the command sets
// another number, and requires that it is refused as expected.
func Refuses(t *testing.T, command bench.Command, tests []Refusal) {
	t.Helper()
	cat, err := catalog.Load(matrix.FS)
	require.NoError(t, err)
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
			m, _ := command.Flags(fs)
			require.NoError(t, fs.Parse(strings.Fields(tt.line)))
			err := planned(m, fs.Args(), cat)
			require.EqualError(t, err, tt.want)
			var exit *cli.ExitError
			require.ErrorAs(t, err, &exit)
			require.Equal(t, tt.code, exit.Code)
		})
	}
}

// Fits requires that the lines of a table fit a terminal of 80 columns.
func Fits(t *testing.T, table string) {
	t.Helper()
	for line := range strings.Lines(table) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), 80, "%s", line)
	}
}

func planned(m bench.Measurement, words []string, cat *catalog.Catalog) error {
	world, err := m.Ranks(words)
	if err != nil {
		return err
	}
	if world == 0 {
		world = 2
	}
	_, err = m.Plan(words, cat, cat.Backend(bench.HostBackend), world)
	return err
}
