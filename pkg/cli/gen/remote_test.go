package gen_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/githubtest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/gen"
	"github.com/collectivex/collectivex/pkg/fold"
	"github.com/collectivex/collectivex/pkg/plan"
)

// console is a shell whose commands talk to a stand-in for GitHub.
type console struct {
	t      *testing.T
	github *githubtest.Server
	env    map[string]string
}

func newConsole(t *testing.T) *console {
	s := githubtest.New(t)
	s.Measured(func(string) bool { return false })
	return &console{t, s, map[string]string{
		"GITHUB_API_URL": s.URL, "GH_ENTERPRISE_TOKEN": githubtest.Token, "GITHUB_REPOSITORY": githubtest.Repo,
	}}
}

// run runs a pipeline of cxgen commands, "cxgen a | cxgen b", and returns the exit code of
// the last, its standard output, and what all wrote to standard error. Nothing may show the
// token.
func (c *console) run(line string) (code int, stdout, stderr string) {
	c.t.Helper()
	var errs bytes.Buffer
	in := io.Reader(new(bytes.Buffer))
	for one := range strings.SplitSeq(line, " | ") {
		var out bytes.Buffer
		var words []string
		for i, part := range strings.Split(one, "'") { // in quotes or between them
			if i%2 == 1 {
				words = append(words, part)
				continue
			}
			words = append(words, strings.Fields(part)...)
		}
		require.Equal(c.t, "cxgen", words[0], line)
		code = gen.MainAt(context.Background(), cli.Streams{In: in, Out: &out, Err: &errs, Getenv: func(n string) string { return c.env[n] }}, words[1:], c.github.Clock)
		stdout, in = out.String(), bytes.NewReader(out.Bytes())
	}
	require.NotContains(c.t, stdout, githubtest.Token)
	require.NotContains(c.t, errs.String(), githubtest.Token)
	return code, stdout, errs.String()
}

// ran runs a line as run does, and requires an exit code.
func (c *console) ran(exit int, line string) (stdout, stderr string) {
	c.t.Helper()
	code, stdout, stderr := c.run(line)
	require.Equal(c.t, exit, code, "%s: %s", line, stderr)
	return stdout, stderr
}

// TestDispatchWatchFetch operates a sweep from the terminal, from its dispatch to its
// documents, as docs/operate.md shows.
func TestDispatchWatchFetch(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operate.md"))
	require.NoError(t, err)
	c := newConsole(t)
	dir := t.TempDir()
	t.Chdir(dir)
	const line = "cxgen dispatch --suite smoke --sku local | cxgen watch - | cxgen fetch - -o run"
	stdout, stderr := c.ran(cli.ExitOK, line)
	require.Equal(t, "run\n", stdout)
	require.Equal(t, 1, c.github.Dispatches())
	transcript := "$ " + line + "\n" + stderr + stdout
	require.Contains(t, string(page), transcript, "docs/operate.md does not show this")

	// What was fetched is the run: it folds without a complaint.
	m, err := plan.ReadFile(filepath.Join("run", "matrix", plan.FileName), "of-another-commit")
	require.NoError(t, err)
	v, err := fold.Fold([]string{filepath.Join("run", "cells")}, m, fold.Expected{RunID: "1001"}, "run.ndjson")
	require.NoError(t, err)
	require.Empty(t, v.Problems)
	require.NoError(t, v.Err())
	require.Positive(t, v.Requested)
	data, err := os.ReadFile("run.ndjson")
	require.NoError(t, err)
	require.Positive(t, bytes.Count(data, []byte("\n")))
}

// A command that Ctrl-C ends does not blame the network.
func TestInterruptedWatch(t *testing.T) {
	c := newConsole(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errs bytes.Buffer
	code := gen.MainAt(ctx, cli.Streams{In: new(bytes.Buffer), Out: io.Discard, Err: &errs, Getenv: func(n string) string { return c.env[n] }}, []string{"watch", "1001"}, c.github.Clock)
	require.Equal(t, cli.ExitFailed, code)
	require.Equal(t, "cxgen: interrupted\n", errs.String())
}

// What an interrupted command has started, or may have, is in its error.
func TestInterruptedStart(t *testing.T) {
	for route, command := range map[string]string{"POST /dispatches": "dispatch --suite smoke --sku local", "POST /rerun-failed-jobs": "rerun run.ndjson"} {
		c := sweptWith(t, func(id string) bool { return strings.Contains(id, "all-reduce") })
		ctx, cancel := context.WithCancel(t.Context())
		c.github.Fail(route, func(http.ResponseWriter, *http.Request, http.Handler) { cancel() })
		var errs bytes.Buffer
		code := gen.MainAt(ctx, cli.Streams{In: new(bytes.Buffer), Out: io.Discard, Err: &errs, Getenv: func(n string) string { return c.env[n] }}, strings.Fields(command), c.github.Clock)
		require.Equal(t, cli.ExitFailed, code, command)
		wording.Has(t, errs.String(), "interrupted while … may have started")
	}
}

// A run's URL has its repository, so that another one in --repo is a mistake. GitHub does
// not distinguish case in names.
func TestRepoOfAnotherRun(t *testing.T) {
	c := newConsole(t)
	c.ran(cli.ExitOK, "cxgen dispatch --suite smoke --sku local | cxgen watch -")
	url := strings.TrimSuffix(c.github.URL, "/api/v3") + "/" + githubtest.Repo + "/actions/runs/1001"
	for _, line := range []string{"cxgen watch " + url, "cxgen fetch " + url + " -o " + filepath.Join(t.TempDir(), "run"), "cxgen cancel " + url} {
		code, _, stderr := c.run(line + " --repo other/fleet")
		require.Equal(t, cli.ExitUsage, code, line)
		require.Equal(t, "cxgen: --repo other/fleet: the URL names a run of "+githubtest.Repo+"; leave out --repo, or give the URL of a run of other/fleet\n", stderr)
	}
	c.ran(cli.ExitOK, "cxgen watch "+url+" --repo "+strings.ToUpper(githubtest.Repo))
}
