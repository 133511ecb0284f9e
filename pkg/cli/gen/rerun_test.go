package gen_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/githubtest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
)

// reran is what rerun --json prints.
type reran struct {
	RunID   int64    `json:"run_id"`
	Cases   []string `json:"cases"`
	Cells   []string `json:"cells"`
	Others  []string `json:"others"`
	Left    []string `json:"left"`
	Started bool     `json:"started"`
	Runs    []struct {
		Covers     []string          `json:"covers"`
		Others     []string          `json:"others"`
		Dispatched bool              `json:"dispatched"`
		RunID      int64             `json:"run_id"`
		Inputs     map[string]string `json:"inputs"`
	} `json:"runs"`
	Error string `json:"error"`
}

// parse reads exactly one JSON object with no null in it.
func parse(t *testing.T, text string) (r reran) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	var raw map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &raw), text)
	require.NotContains(t, text, "null")
	require.NoError(t, json.Unmarshal([]byte(text), &r))
	require.Len(t, raw, 8)
	return r
}

// sweptWith fetches run 1001 of the smoke suite, in which cases failed, into run/ of a
// directory that it makes the working directory.
func sweptWith(t *testing.T, fails func(id string) bool) *console {
	t.Helper()
	c := newConsole(t)
	c.github.Measured(fails)
	t.Chdir(t.TempDir())
	c.ran(cli.ExitOK, "cxgen dispatch --suite smoke --sku local | cxgen watch - | cxgen fetch - -o run")
	require.NoError(t, os.Rename(filepath.Join("run", "aggregate", "collectivex-1001.ndjson"), "run.ndjson"))
	return c
}

// The failed jobs of a run are run again, until nothing is left to do, which is JSON too.
func TestRerunFailedJobs(t *testing.T) {
	c := sweptWith(t, func(id string) bool { return strings.Contains(id, "all-reduce") })
	failed := []string{"local-host-all-reduce-float-sum-w2-warm", "local-host-all-reduce-float-sum-w4-warm"}

	stdout, _ := c.ran(cli.ExitOK, "cxgen rerun run.ndjson --dry-run --json")
	want := reran{RunID: 1001, Cases: failed, Cells: []string{"local-host-collective-n1"}, Others: []string{}, Left: []string{}}
	got := parse(t, stdout)
	require.Empty(t, got.Runs)
	got.Runs = nil
	require.Equal(t, want, got)
	require.Equal(t, 1, c.github.Runs[0].Attempt)

	c.github.Fail("POST /rerun-failed-jobs", githubtest.Status(403, `{"message":"This workflow is already running"}`), githubtest.HTML(502))
	stdout, stderr := c.ran(cli.ExitEnvironment, "cxgen rerun run.ndjson --json")
	require.Contains(t, parse(t, stdout).Error, "already running")
	require.Contains(t, stderr, "use --dispatch")
	stdout, _ = c.ran(cli.ExitEnvironment, "cxgen rerun run.ndjson --json")
	require.Contains(t, parse(t, stdout).Error, "before you re-run it again")
	require.Equal(t, 1, c.github.Runs[0].Attempt, "it is sent once")

	stdout, _ = c.ran(cli.ExitOK, "cxgen rerun run.ndjson")
	require.Equal(t, "1001\n", stdout)
	require.Equal(t, 2, c.github.Runs[0].Attempt)

	_, stderr = c.ran(cli.ExitOK, "cxgen watch 1001 --exit-status | cxgen fetch - -o run")
	require.Contains(t, stderr, "cxshard-local-host-collective-n1-1001-2: fetched")
	require.Contains(t, stderr, "cxshard-local-host-bf16-n1-1001-1: kept")
	again, err := os.ReadFile(filepath.Join("run", "aggregate", "collectivex-1001.ndjson"))
	require.NoError(t, err)
	first, err := os.ReadFile("run.ndjson")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("both.ndjson", append(first, again...), 0o644))
	for _, flag := range []string{"", " --dispatch"} {
		stdout, _ = c.ran(cli.ExitOK, "cxgen rerun both.ndjson --json"+flag)
		got = parse(t, stdout)
		require.Equal(t, reran{RunID: 1001, Cases: []string{}, Cells: []string{}, Others: []string{}, Left: []string{}, Runs: got.Runs}, got)
		require.Empty(t, got.Runs)
	}
}

// New runs cover what failed, and what they run besides is said. If one cannot be started,
// those before it are not lost.
func TestRerunByDispatch(t *testing.T) {
	c := sweptWith(t, func(id string) bool {
		return strings.Contains(id, "all-reduce-float-sum-w4") || strings.Contains(id, "decode-ep2")
	})
	stdout, _ := c.ran(cli.ExitOK, "cxgen rerun run.ndjson --dispatch --dry-run --json")
	planned := parse(t, stdout)
	require.Len(t, planned.Cases, 2)
	require.Len(t, planned.Runs, 2)
	require.Empty(t, planned.Left)
	for _, run := range planned.Runs {
		require.False(t, run.Dispatched)
		ran := map[string]bool{}
		m := githubtest.Plan(run.Inputs)
		for q := range m.Requested() {
			ran[q.Case.CaseID] = true
		}
		for _, id := range append(run.Covers, run.Others...) {
			require.True(t, ran[id], id)
		}
		require.Len(t, ran, len(run.Covers)+len(run.Others), "nothing else runs")
	}

	c.github.Fail("POST /dispatches", nil, githubtest.Status(403, `{"message":"no"}`))
	stdout, _ = c.ran(cli.ExitEnvironment, "cxgen rerun run.ndjson --dispatch --json")
	got := parse(t, stdout)
	require.Contains(t, got.Error, "1 of 2 runs were started")
	require.True(t, got.Runs[0].Dispatched)
	require.Equal(t, c.github.Runs[1].ID, got.Runs[0].RunID)
	require.False(t, got.Runs[1].Dispatched)
	require.Equal(t, 2, c.github.Dispatches())

	stdout, _ = c.ran(cli.ExitOK, "cxgen rerun run.ndjson --dispatch")
	require.Equal(t, c.github.WebURL(c.github.Runs[2].ID)+"\n"+c.github.WebURL(c.github.Runs[3].ID)+"\n", stdout)
}

// What cannot be understood starts nothing.
func TestRerunRefuses(t *testing.T) {
	c := sweptWith(t, func(string) bool { return false })
	require.NoError(t, os.WriteFile("bad.ndjson", []byte("{\"torn\n"), 0o644))
	require.NoError(t, os.WriteFile("empty.ndjson", nil, 0o644))
	for line, want := range map[string]string{
		"cxgen rerun bad.ndjson":                                    "bad.ndjson:1: ",
		"cxgen rerun empty.ndjson":                                  "empty.ndjson … 0 runs",
		"cxgen rerun none.ndjson":                                   "none.ndjson: … cxgen fetch",
		"cxgen rerun":                                               "takes one NDJSON file",
		"cxgen rerun run.ndjson --run x":                            "\"x\" … number … URL",
		"cxgen rerun run.ndjson --ref main":                         "--ref … --dispatch",
		"cxgen rerun run.ndjson --definitions .":                    "--definitions … --dispatch",
		"cxgen dispatch --suite nosuch":                             "nosuch",
		"cxgen dispatch --suite smoke,ep-core":                      "each",
		"cxgen dispatch --suite smoke --sku mi355x":                 "nothing to run",
		"cxgen dispatch --suite smoke --sku local --repo acme/../x": "acme/../x … OWNER/NAME",
		"cxgen watch":                                               "takes one run",
		"cxgen watch -":                                             "run",
		"cxgen watch x":                                             "\"x\" … number … URL",
		"cxgen watch https://elsewhere.example/acme/fleet/actions/runs/1001":           "elsewhere.example … GITHUB_API_URL … 127.0.0.1:",
		"cxgen rerun run.ndjson --run https://github.com/acme/fleet/actions/runs/1001": "GITHUB_API_URL … https://api.github.com",
		"cxgen watch 1001 --deadline=-1s":                                              "--deadline",
		"cxgen watch 1001 --deadline 0":                                                "--deadline",
		"cxgen fetch 1001":                                                             "\"output\" … not set",
	} {
		code, stdout, stderr := c.run(line)
		require.Equal(t, cli.ExitUsage, code, line+": "+stderr)
		wording.Has(t, stderr, want)
		require.Empty(t, stdout)
	}
	require.Equal(t, 1, c.github.Dispatches())
	require.Equal(t, 1, c.github.Runs[0].Attempt)

	// The repository is checked before a token is looked for.
	delete(c.env, "GH_ENTERPRISE_TOKEN")
	_, stderr := c.ran(cli.ExitUsage, "cxgen dispatch --suite smoke --sku local --repo x")
	wording.Has(t, stderr, `"x" … OWNER/NAME`)
	c.env["GH_ENTERPRISE_TOKEN"] = githubtest.Token

	// An empty file has nothing but missing cases, if it is said of which run.
	var stdout string
	stdout, _ = c.ran(cli.ExitOK, "cxgen rerun empty.ndjson --run 1001 --dispatch --dry-run --json")
	require.Len(t, parse(t, stdout).Cases, len(githubtest.Plan(c.github.Runs[0].Inputs).RequestedOther))
	stdout, _ = c.ran(cli.ExitFailed, "cxgen rerun empty.ndjson --run 1001 --json")
	require.Contains(t, parse(t, stdout).Error, "no job of run 1001 failed")
}

// Labels are served by runners that are online, whatever their case, of the repository or
// of its organization.
func TestRunners(t *testing.T) {
	c := newConsole(t)
	c.github.Runners = []githubtest.Runner{
		{Name: "a", Labels: []string{"self-hosted", "MI355X"}, Online: true, Busy: true},
		{Name: "b", Labels: []string{"mi355x"}},
		{Name: "c", Labels: []string{"b300"}},
		{Name: "d", Labels: []string{"gb200"}, Online: true, Org: true},
	}
	c.github.Sweep = func(r *githubtest.Run) {
		for _, label := range []string{"b300", "b300", "mi355x"} {
			r.Jobs = append(r.Jobs, &githubtest.Job{Name: "cell", Labels: []string{label}, Queue: -1})
		}
		r.Jobs = append(r.Jobs, &githubtest.Job{Name: "cell", Labels: []string{"b300"}, Run: time.Hour})
	}
	c.github.Start(nil)
	stdout, stderr := c.ran(cli.ExitFailed, "cxgen runners --exit-status")
	rows := map[string]string{}
	for line := range strings.Lines(stdout) {
		words := strings.Fields(line)
		rows[words[0]] = strings.Join(words[2:], " ")
	}
	require.Equal(t, "1 1 1 1", rows["mi355x"])
	require.Equal(t, "0 0 1 2 no online runner", rows["b300"])
	require.Equal(t, "1 0 0 0", rows["gb200"])
	require.Contains(t, rows["ubuntu-latest"], "GitHub's own")
	require.Contains(t, stderr, "b300")
	require.NotContains(t, stderr, "gb200")

	c.github.NoOrgRunners = true
	stdout, stderr = c.ran(cli.ExitOK, "cxgen runners --json")
	require.Contains(t, stderr, "runners of the organization acme: they are not counted")
	var out struct {
		Labels []struct {
			Label  string
			Online int
		}
		Unserved int
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &out))
	require.Greater(t, out.Unserved, 2)

	c.github.NoRunners = true
	_, stderr = c.ran(cli.ExitEnvironment, "cxgen runners")
	require.Contains(t, stderr, "forbidden")
}
