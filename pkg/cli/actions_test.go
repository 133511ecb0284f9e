package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/cli"
)

func TestSetOutput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "output")
	streams := func(path string) cli.Streams {
		return cli.Streams{Out: new(bytes.Buffer), Getenv: func(string) string { return path }}
	}

	require.NoError(t, streams(file).SetOutput("a", `{"include":[]}`))
	require.NoError(t, streams(file).SetOutput("b", "two\nlines"))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "a<<_GitHubActionsFileCommandDelimeter_\n{\"include\":[]}\n_GitHubActionsFileCommandDelimeter_\n"+
		"b<<_GitHubActionsFileCommandDelimeter_\ntwo\nlines\n_GitHubActionsFileCommandDelimeter_\n", string(got))

	require.ErrorContains(t, streams(file).SetOutput("c", "x\n_GitHubActionsFileCommandDelimeter_\nevil=1"), "delimiter")
	require.ErrorContains(t, streams(t.TempDir()).SetOutput("d", ""), "output d")
	var exit *cli.ExitError
	require.ErrorAs(t, streams("").SetOutput("e", ""), &exit)
	require.Equal(t, cli.ExitEnvironment, exit.Code)
}
