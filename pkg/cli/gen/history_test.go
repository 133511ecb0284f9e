package gen_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/benchtest"
	"github.com/collectivex/collectivex/internal/githubtest"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/fold"
)

// The history of a run is the successful runs before it with its workflow, branch and inputs, as far as their datasets
// still exist.
func TestHistory(t *testing.T) {
	c := newConsole(t)
	smoke := map[string]string{"suite": "smoke", "sku": "local"}
	var runs []*githubtest.Run
	night := func(inputs map[string]string) *githubtest.Run {
		r := c.github.Start(inputs)
		runs = append(runs, r)
		require.NoError(t, c.github.Clock.Sleep(t.Context(), 24*time.Hour))
		return r
	}
	for range 4 {
		night(smoke)
	}
	night(smoke).Ref = "elsewhere"
	night(map[string]string{"suite": "ep-host", "sku": "local"})
	c.github.Measured(func(id string) bool { return strings.Contains(id, "all-reduce") })
	night(smoke)
	c.github.Measured(func(string) bool { return false })
	expired := night(smoke)
	for _, a := range expired.Artifacts {
		a.Expired = true
	}
	night(smoke)
	last := night(smoke)

	dir := filepath.Join(t.TempDir(), "nights")
	line := "cxgen history " + strconv.FormatInt(last.ID, 10) + " -o " + dir
	stdout, stderr := c.ran(cli.ExitOK, line+" --runs 4")
	name := func(i int) string { return strconv.FormatInt(runs[i].ID, 10) }
	require.Contains(t, stderr, "cxsweep-aggregate-"+strconv.FormatInt(expired.ID, 10)+": expired")
	require.Equal(t, 4, strings.Count(stderr, ": fetched, 1 file, digest verified\n"), stderr)
	require.True(t, strings.HasPrefix(stdout, "4 runs in "+dir+"/history.ndjson\n\n  case, at\n"), stdout)
	require.Regexp(t, `(?m)^  local-host-all-reduce-float-sum-w2-warm, 2048 B out_of_place\n.*\n    pipelined p50 + ▁▁▁▁ +\S+ +\+0\.0 %$`, stdout)
	benchtest.Fits(t, strings.SplitN(stdout, "\n", 2)[1])
	_, v, err := fold.Keep([]string{filepath.Join(dir, "history.ndjson")}, nil, func(fold.Record) bool { return true })
	require.NoError(t, err)
	require.Empty(t, v.Problems)
	got := slices.Sorted(slices.Values(v.Runs))
	require.Equal(t, []string{name(1), name(2), name(3), name(8)}, got)

	stdout, stderr = c.ran(cli.ExitOK, line+" --runs 5 --json")
	require.Equal(t, 4, strings.Count(stderr, ": kept, 1 file"), stderr)
	require.Equal(t, 1, strings.Count(stderr, ": fetched, 1 file"), stderr)
	var out struct {
		Runs   []int64
		Trends []struct{ Us []float64 }
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &out))
	require.Equal(t, []int64{runs[0].ID, runs[1].ID, runs[2].ID, runs[3].ID, runs[8].ID}, out.Runs)
	require.NotEmpty(t, out.Trends)
	require.Len(t, out.Trends[0].Us, 5)

	stdout, _ = c.ran(cli.ExitOK, "cxgen history "+name(0)+" -o "+filepath.Join(t.TempDir(), "none"))
	require.True(t, strings.HasPrefix(stdout, "0 runs in "), stdout)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NotEmpty(t, entries)
}
