package gen_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/gen"
)

// cxgen runs the program and returns its exit code and what it wrote.
func cxgen(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = gen.Main(context.Background(), cli.Streams{In: new(bytes.Buffer), Out: &out, Err: &errs, Getenv: func(string) string { return "" }}, args)
	return code, out.String(), errs.String()
}

func TestWorkflowCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deep", "sweep.yml")
	code, _, stderr := cxgen(t, "workflow", "--check", "-o", file)
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, stderr, "sweep.yml is missing")

	code, stdout, stderr := cxgen(t, "workflow", "-o", file)
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Empty(t, stdout)
	code, _, stderr = cxgen(t, "workflow", "--check", "-o", file)
	require.Equal(t, cli.ExitOK, code, stderr)

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	code, stdout, _ = cxgen(t, "workflow", "-o", "-")
	require.Equal(t, cli.ExitOK, code)
	require.Equal(t, string(text), stdout)

	for name, edited := range map[string]string{
		":3:":                            strings.Replace(string(text), "name: CollectiveX Sweep", "name: Sweep", 1),
		": not what the definitions say": string(text) + "\n",
		"sweep.yml:":                     string(text[:len(text)-1]),
	} {
		require.NoError(t, os.WriteFile(file, []byte(edited), 0o644))
		code, _, stderr = cxgen(t, "workflow", "--check", "-o", file)
		require.Equal(t, cli.ExitFailed, code)
		require.Contains(t, stderr, name)
	}
}

func TestWorkflowDefinitions(t *testing.T) {
	t.Chdir(filepath.Join("..", "..", ".."))
	code, stdout, stderr := cxgen(t, "workflow", "-o", "-", "--definitions", "matrix")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "CX_DEFINITIONS: matrix\n")

	t.Chdir("pkg")
	code, stdout, stderr = cxgen(t, "workflow", "-o", "-", "--definitions", "../matrix")
	require.Equal(t, cli.ExitUsage, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "relative to its root")
}

func TestWorkflowSource(t *testing.T) {
	code, stdout, stderr := cxgen(t, "workflow", "-o", "-", "--source", "acme/cx@0123456789abcdef0123456789abcdef01234567")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "repository: acme/cx\n")

	code, stdout, stderr = cxgen(t, "workflow", "-o", "-", "--source", "acme/cx@main")
	require.Equal(t, cli.ExitUsage, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "want OWNER/NAME@SHA")
}
