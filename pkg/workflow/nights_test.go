package workflow_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/githubtest"
	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/workflow"
)

// nightly requests one short case.
const nightly = `platforms: [local]
sampling: smoke
collective:
  - backends: [host]
    ops: [all_reduce]
    dtypes: [float]
    redops: [sum]
    sizes: {from: 1KiB, to: 16KiB, factor: 4}
    placements: [out_of_place]
    modes: [per_iteration]
    buffers: [warm]
    registrations: [none]
`

// slowed is what a planted regression adds to each call of the host library.
const slowed = "\tfor end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {\n\t}\n"

// TestNights runs a scheduled workflow in six nights. Five find nothing, since the history is short. In the sixth, an
// upgrade of CollectiveX has made every operation slow: the run fails and names the case, and nothing else does.
func TestNights(t *testing.T) {
	t.Parallel()
	s, github := newStage(t), githubtest.New(t)
	write(t, filepath.Join(s.dir, "bin", "curl"), []byte(downloads))
	fleet := filepath.Join(s.repositories, repository)
	require.NoError(t, os.CopyFS(filepath.Join(fleet, "matrix"), matrix.FS))
	write(t, filepath.Join(fleet, "matrix", "suites", "nightly.yaml"), []byte(nightly))
	options := workflow.Options{Definitions: "matrix", Cron: "0 2 * * *", Baseline: 5, Suite: "nightly"}
	install := func(version string, over map[string][]byte) (dir string) {
		s.commit(t, "collectivex/"+version, over)
		dir, digest := s.release(t, version, filepath.Join(s.repositories, "collectivex", version))
		options.Release = workflow.Release{Version: version, SHA256: digest}
		cat, err := catalog.Load(os.DirFS(filepath.Join(fleet, "matrix")))
		require.NoError(t, err)
		text, err := workflow.Emit(cat, options)
		require.NoError(t, err)
		write(t, filepath.Join(fleet, workflow.File), text)
		return dir
	}
	dir := install("v1.2.3", nil)
	s.repo(t, repository)
	const id = "local-host-all-reduce-float-sum-w2-warm"
	night := func(run int) *outcome {
		of := &githubtest.Run{
			ID: int64(run), Attempt: 1, Started: github.Clock.Now(), Ref: "main", Inputs: map[string]string{"suite": "nightly"},
			Jobs: []*githubtest.Job{{Name: "aggregate", Attempt: 1, Queue: -1}},
		}
		github.Runs = append(github.Runs, of)
		o := s.dispatch(t, request{event: "schedule", run: run, attempt: 1, env: []string{
			"CX_STANDIN_RELEASE=" + dir, "GH_REPO=" + githubtest.Repo, "CX_STANDIN_API=" + github.URL,
		}})
		of.Jobs[0].Queue, of.Jobs[0].Conclusion = 0, "success"
		if o.failed {
			of.Jobs[0].Conclusion = "failure"
		}
		name := "cxsweep-aggregate-" + strconv.Itoa(run)
		of.Artifacts = append(of.Artifacts, githubtest.NewArtifact(name, githubtest.Zip(s.artifact(t, run, name))))
		of.Artifacts[0].ID = github.NewID()
		return o
	}
	for run := 101; run <= 105; run++ {
		o := night(run)
		require.False(t, o.failed, o.log())
		require.Equal(t, map[bool]string{true: "success"}[run > 101], o.step("aggregate", "", "Compare with the baseline"))
	}

	path := filepath.Join("pkg", "collective", "host", "comm.go")
	text, err := os.ReadFile(filepath.Join("..", "..", path))
	require.NoError(t, err)
	slow := strings.Replace(string(text), "\tvar culprit C.int\n\trc := C.cx_enqueue(", slowed+"\tvar culprit C.int\n\trc := C.cx_enqueue(", 1)
	slow = strings.Replace(slow, "\t\"sync\"\n", "\t\"sync\"\n\t\"time\"\n", 1)
	require.NotEqual(t, string(text), slow)
	dir = install("v1.2.4", map[string][]byte{path: []byte(slow)})
	o := night(106)
	require.True(t, o.failed, o.log())
	for job, leg := range map[string]string{"sweep_0": collectiveCell, "aggregate": ""} {
		require.Equal(t, "failure", o.step(job, leg, "Compare with the baseline"), o.log())
		require.Contains(t, o.summary(job, leg), id)
		require.Contains(t, o.summary(job, leg), "slower (confirmed)")
		require.Regexp(t, "[▁▂▃▄▅▆▇]{5}█", o.summary(job, leg))
		require.Regexp(t, id+`: per_iteration p50 is [0-9.]+ % slower, confirmed: ([78] of 8|1[2-6] of 16) runs agree`, o.log())
	}
	for _, step := range []string{"Aggregate", "Summarize", "Report"} {
		require.Equal(t, "success", o.step("aggregate", "", step), step)
	}
	report := s.artifact(t, 106, "cxsweep-report-106")["report.html"]
	require.Contains(t, report, "Trend over runs")
	require.Contains(t, s.names(t, 106), fmt.Sprintf("cxagain-%s-106-1", collectiveCell))
	require.True(t, slices.ContainsFunc(github.Asked(), func(r string) bool { return strings.Contains(r, "status=success") }))
}
