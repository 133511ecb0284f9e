package gen_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/wording"
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

// ran runs the program as cxgen does, and requires an exit code.
func ran(t *testing.T, exit int, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := cxgen(t, args...)
	require.Equal(t, exit, code, "%v: %s", args, stderr)
	return stdout, stderr
}

func TestWorkflowCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deep", "sweep.yml")
	_, stderr := ran(t, cli.ExitFailed, "workflow", "--check", "-o", file)
	require.Contains(t, stderr, "sweep.yml is missing")
	require.Contains(t, stderr, " -o "+file+"\n")

	stdout, _ := ran(t, cli.ExitOK, "workflow", "-o", file)
	require.Empty(t, stdout)
	ran(t, cli.ExitOK, "workflow", "--check", "-o", file)

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	stdout, _ = ran(t, cli.ExitOK, "workflow", "-o", "-")
	require.Equal(t, string(text), stdout)

	for name, edited := range map[string]string{
		":3:":                              strings.Replace(string(text), "name: CollectiveX Sweep", "name: Sweep", 1),
		": does not match the definitions": string(text) + "\n",
		"sweep.yml:":                       string(text[:len(text)-1]),
	} {
		require.NoError(t, os.WriteFile(file, []byte(edited), 0o644))
		_, stderr = ran(t, cli.ExitFailed, "workflow", "--check", "-o", file)
		require.Contains(t, stderr, name)
		require.Contains(t, stderr, " -o "+file+"\n")
	}
	_, stderr = ran(t, cli.ExitUsage, "workflow", "--check", "-o", "-")
	wording.Has(t, stderr, "cxgen: --check -o -: ")
	t.Chdir(filepath.Join("..", "..", ".."))
	_, stderr = ran(t, cli.ExitFailed, "workflow", "--check", "--cron", "0 2 * * *")
	require.NotContains(t, stderr, " -o ")
}

// Elsewhere, a workflow that names no commit would build the repository it is in.
func TestWorkflowOfAnotherRepository(t *testing.T) {
	t.Chdir(t.TempDir())
	_, stderr := ran(t, cli.ExitUsage, "workflow", "-o", "-")
	wording.Has(t, stderr, "cxgen: … --source OWNER/NAME@SHA")
	stdout, _ := ran(t, cli.ExitOK, "workflow", "-o", "-", "--source", "collectivex/collectivex@0123456789abcdef0123456789abcdef01234567")
	require.Contains(t, stdout, "ref: 0123456789abcdef0123456789abcdef01234567\n")
}

// A plan with more cells than the workflow has jobs for does not start.
func TestMatrixOfMoreWavesThanTheWorkflow(t *testing.T) {
	_, stderr := ran(t, cli.ExitUsage, "matrix", "--suite", "collectives-core", "--max-cases", "1", "--waves", "0")
	wording.Has(t, stderr, "cxgen: … cells … filter the plan, or write the workflow again")
}

func TestWorkflowDefinitions(t *testing.T) {
	t.Chdir(filepath.Join("..", "..", ".."))
	stdout, _ := ran(t, cli.ExitOK, "workflow", "-o", "-", "--definitions", "matrix")
	require.Contains(t, stdout, "CX_DEFINITIONS: matrix\n")

	t.Chdir("pkg")
	stdout, stderr := ran(t, cli.ExitUsage, "workflow", "-o", "-", "--definitions", "../matrix")
	require.Empty(t, stdout)
	require.Contains(t, stderr, "relative to its root")
}

func TestWorkflowSource(t *testing.T) {
	stdout, _ := ran(t, cli.ExitOK, "workflow", "-o", "-", "--source", "acme/cx@0123456789abcdef0123456789abcdef01234567")
	require.Contains(t, stdout, "repository: acme/cx\n")

	stdout, stderr := ran(t, cli.ExitUsage, "workflow", "-o", "-", "--source", "acme/cx@main")
	require.Empty(t, stdout)
	require.Contains(t, stderr, "want OWNER/NAME@SHA")
}

// A directory in the way of a file is named in a line that says what to do.
func TestADirectoryInTheWay(t *testing.T) {
	dir := t.TempDir()
	for _, command := range []string{"matrix", "workflow"} {
		_, stderr := ran(t, cli.ExitEnvironment, command, "-o", dir)
		require.Contains(t, stderr, dir)
		require.Contains(t, stderr, "name another file")
		require.NotContains(t, stderr, "rename")
		require.Equal(t, 1, strings.Count(stderr, "\n"))
	}
	for _, args := range []string{"matrix --max-cases 0", "matrix --definitions=", "help nosuch", "completion klingon", "workflow --source o/..@0123456789abcdef0123456789abcdef01234567"} {
		ran(t, cli.ExitUsage, strings.Fields(args)...)
	}
	stdout, _ := ran(t, cli.ExitOK, "matrix", "--suite", "smoke", "-o", "-")
	require.Contains(t, stdout, "requested_cases")
}

// A scheduled workflow says how often it runs and with what it compares; what makes no sense is refused.
func TestWorkflowOfNights(t *testing.T) {
	stdout, _ := ran(t, cli.ExitOK, "workflow", "-o", "-", "--cron", "0 2 * * *", "--baseline", "10", "--suite", "collectives-host")
	for _, want := range []string{
		"go run ./cmd/cxgen workflow --cron '0 2 * * *' --baseline 10 --suite collectives-host\n",
		"  schedule:\n    - cron: 0 2 * * *\n",
		"        default: collectives-host\n",
		"\nrun-name: ${{ inputs.suite || 'collectives-host' }} on ${{ inputs.sku || 'all' }}${{ ",
		"${{ inputs.backend && inputs.backend != 'all' && format(' backend {0}', inputs.backend) || '' }}",
		"${{ inputs.max_cases && inputs.max_cases != 128 && format(' max_cases {0}', inputs.max_cases) || '' }}\n",
		"          CX_CONFIRM: ${{ github.event_name == 'schedule' }}\n",
		` --confirm="$CX_CONFIRM"`,
		"          CX_INPUT_SUITE: ${{ inputs.suite || 'collectives-host' }}\n",
		"          retention-days: 90\n",
	} {
		require.Contains(t, stdout, want)
	}
	for says, args := range map[string][]string{
		"say when with --cron":        {"--baseline", "10"},
		"--baseline 3: want 5 to 100": {"--cron", "0 2 * * *", "--baseline", "3"},
		`cron "tonight": want five`:   {"--cron", "tonight"},
		`suite "nightly": the`:        {"--suite", "nightly"},
		"minute 61: want 0 to 59":     {"--cron", "0,61 2 * * *"},
		"weekday 7: want 0 to 6":      {"--cron", "*/90 2 * JAN 1-7/2"},
	} {
		code, _, stderr := cxgen(t, append([]string{"workflow", "-o", "-"}, args...)...)
		require.Equal(t, cli.ExitUsage, code, says)
		require.Contains(t, stderr, says)
	}
}
