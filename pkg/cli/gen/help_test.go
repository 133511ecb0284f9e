package gen_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/githubtest"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/gen"
)

// TestExamples runs the examples in the help of every command, in a directory that has what
// they name.
func TestExamples(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	require.NoError(t, err)
	cat := plantest.Shipped()
	program := gen.NewRoot(cli.Streams{Out: new(bytes.Buffer), Err: new(bytes.Buffer), Getenv: func(string) string { return "" }}, githubtest.NewClock())
	require.Greater(t, len(program.Commands()), 9)
	for _, command := range program.Commands() {
		t.Run(command.Name(), func(t *testing.T) {
			require.NotEmpty(t, command.Short)
			lines := strings.Split(strings.Trim(command.Example, "\n"), "\n")
			c := sweptWith(t, func(id string) bool { return strings.Contains(id, "all-reduce") && command.Name() == "rerun" })
			for i := range cat.Platforms {
				c.github.Runners = append(c.github.Runners, githubtest.Runner{Name: cat.Platforms[i].SKU, Labels: []string{cat.Platforms[i].Runner}, Online: true})
			}
			data, err := os.ReadFile("run.ndjson")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join("run", "aggregate", "collectivex-1001.ndjson"), data, 0o644))
			module, err := os.ReadFile(filepath.Join(root, "go.mod"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile("go.mod", module, 0o644))
			require.NoError(t, os.CopyFS("matrix", os.DirFS(filepath.Join(root, "matrix"))))
			for _, line := range lines {
				require.True(t, strings.HasPrefix(line, "  cxgen "), "%q", line)
				if strings.Contains(line, "-o run") {
					require.NoError(t, os.RemoveAll("run"))
				}
				here := strings.ReplaceAll(line, "https://github.com/acme/fleet/actions/runs/1001", c.github.WebURL(1001))
				c.ran(cli.ExitOK, strings.TrimSpace(here))
			}
		})
	}
}

// The shell completes commands, flags, and the filters with the words of the definitions.
func TestCompletion(t *testing.T) {
	c := newConsole(t)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		stdout, _ := c.ran(cli.ExitOK, "cxgen completion "+shell)
		require.Contains(t, stdout, "__complete")
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, matrix.FS))
	for _, test := range []struct {
		line string
		want []string
	}{
		{"cxgen __complete dis", []string{"dispatch\t"}},
		{"cxgen __complete dispatch --dry", []string{"--dry-run\t"}},
		{"cxgen __complete dispatch --suite smo", []string{"smoke\n"}},
		{"cxgen __complete dispatch --definitions " + dir + " --sku mi355x,mi3", []string{"mi355x,mi300x-tw\n", "mi355x,mi355x\n"}},
		{"cxgen __complete matrix --world 1", []string{"16\n"}},
	} {
		stdout, _ := c.ran(cli.ExitOK, test.line)
		for _, want := range test.want {
			require.Contains(t, stdout, want, test.line)
		}
	}
}
