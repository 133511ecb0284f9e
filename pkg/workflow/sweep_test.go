package workflow_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workflow"
)

// ownLabel is a runner label that only a fleet owner's definitions have.
const ownLabel = "bench-box"

// The smoke suite on this machine.
const (
	epCell         = "local-host-bf16-n1"
	collectiveCell = "local-host-collective-n1"
	transferCell   = "local-host-kv-shm-n1"
	epCase         = "local-host-tiny-normal-decode-ep2-uniform-bf16"
)

var smokeCells = []string{epCell, collectiveCell, transferCell}

// document is what the tests read of a document.
type document struct {
	RecordType string `json:"record_type"`
	Identity   struct {
		CaseID            string                   `json:"case_id"`
		AttemptOrdinal    int                      `json:"attempt_ordinal"`
		AllocationFactors result.AllocationFactors `json:"allocation_factors"`
	} `json:"identity"`
	Provenance  result.Provenance `json:"provenance"`
	Outcome     result.Outcome    `json:"outcome"`
	Measurement struct {
		Rows []json.RawMessage `json:"rows"`
	} `json:"measurement"`
}

// dataset returns the documents of a run's NDJSON by case id.
func (s *stage) dataset(t *testing.T, run int) map[string][]document {
	t.Helper()
	n := strconv.Itoa(run)
	docs := map[string][]document{}
	for line := range strings.Lines(s.artifact(t, run, "cxsweep-aggregate-"+n)["collectivex-"+n+".ndjson"]) {
		var d document
		require.NoError(t, json.Unmarshal([]byte(line), &d))
		docs[d.Identity.CaseID] = append(docs[d.Identity.CaseID], d)
	}
	return docs
}

func (s *stage) matrix(t *testing.T, run int) *plan.Matrix {
	t.Helper()
	var m plan.Matrix
	text := s.artifact(t, run, "cxsweep-matrix-"+strconv.Itoa(run))["matrix_full.json"]
	require.NoError(t, json.Unmarshal([]byte(text), &m))
	return &m
}

// runnable returns the ids of the cases that a run must measure.
func runnable(m *plan.Matrix) []string {
	var ids []string
	for _, c := range m.Include {
		ids = append(ids, c.CaseIDs...)
	}
	slices.Sort(ids)
	return ids
}

// TestSweep runs the workflow of this repository from dispatch to dataset.
func TestSweep(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	commit := s.commit(t, repository, nil)
	o := s.dispatch(t, request{run: 11, attempt: 1})
	require.False(t, o.failed, o.log())

	require.Equal(t, smokeCells, o.legs("sweep_0"))
	for _, leg := range o.legs("sweep_0") {
		require.Equal(t, "success", o.step("sweep_0", leg, "Run the cell"), leg)
		require.Empty(t, o.step("sweep_0", leg, "Download what earlier attempts left"), leg)
		require.Contains(t, o.summary("sweep_0", leg), "passed", leg)
	}
	for _, job := range []string{"sweep_1", "sweep_2", "sweep_3"} {
		require.Empty(t, o.legs(job), job)
	}
	require.Equal(t, "success", o.step("aggregate", "", "Aggregate"))
	require.Contains(t, o.summary("aggregate", ""), allPassed(s.matrix(t, 11)))
	require.Equal(t, []string{
		"cxsamples-local-host-bf16-n1-11-1", "cxsamples-local-host-collective-n1-11-1", "cxsamples-local-host-kv-shm-n1-11-1",
		"cxshard-local-host-bf16-n1-11-1", "cxshard-local-host-collective-n1-11-1", "cxshard-local-host-kv-shm-n1-11-1",
		"cxsweep-aggregate-11", "cxsweep-binaries-11", "cxsweep-matrix-11", "cxsweep-report-11",
	}, s.names(t, 11))

	report := s.artifact(t, 11, "cxsweep-report-11")
	require.Equal(t, []string{"collectives.svg", "ep.svg", "pairs.svg", "report.html", "transfers.svg"}, slices.Sorted(maps.Keys(report)))

	m := s.matrix(t, 11)
	docs := s.dataset(t, 11)
	for id := range docs {
		require.Contains(t, report["report.html"], "<td>"+id+"</td>")
	}
	builtFrom(t, commit, m, docs)
	require.Equal(t, runnable(m), slices.Sorted(maps.Keys(docs)))
	for id, attempts := range docs {
		require.Len(t, attempts, 1, id)
		d := attempts[0]
		require.Equal(t, result.Success, d.Outcome.Status, id)
		require.NotEmpty(t, d.Measurement.Rows, id)
		require.Equal(t, "11", *d.Identity.AllocationFactors.RunID, id)
		require.Equal(t, "1", *d.Identity.AllocationFactors.RunAttempt, id)
	}
	for name := range s.artifact(t, 11, "cxshard-"+epCell+"-11-1") {
		require.NotContains(t, name, "/", "readers parse every document in the root; logs stay on the runner")
		require.Equal(t, ".json", filepath.Ext(name))
	}
	s.refusesOtherVersion(t, 11)
}

// allPassed is what a summary says of a run of m in which every case passed.
func allPassed(m *plan.Matrix) string {
	n := len(runnable(m))
	return fmt.Sprintf("%d of %d cases passed", n, n)
}

// builtFrom shows that cxgen and cxrun were built from one source, and that
// documents name its commit, without the +dirty of files that setup leaves
// beside the source.
func builtFrom(t *testing.T, commit string, m *plan.Matrix, docs map[string][]document) {
	t.Helper()
	require.Equal(t, plan.Generator{Program: "cxgen", Version: m.Generator.Version, Format: plan.Format}, m.Generator)
	require.Regexp(t, "^[0-9a-f]{16}$", m.Generator.Version)
	built := regexp.MustCompile(`^cxrun v0\.0\.0-\d{14}-` + commit[:12] + ` \(source ` + m.Generator.Version + `\)$`)
	for id, attempts := range docs {
		require.Regexp(t, built, attempts[0].Provenance.Generator, id)
	}
}

// refusesOtherVersion shows that the program of one version does not run the
// matrix of another one.
func (s *stage) refusesOtherVersion(t *testing.T, run int) {
	t.Helper()
	n, dir := strconv.Itoa(run), t.TempDir()
	tar := filepath.Join(s.artifacts, n, "cxsweep-binaries-"+n, "cxrun-amd64.tar")
	require.NoError(t, exec.Command("tar", "-C", dir, "-xf", tar).Run())
	m := s.matrix(t, run)
	m.Generator.Version = "another"
	require.NoError(t, m.WriteFile(filepath.Join(dir, "matrix_full.json")))
	out, err := exec.Command(filepath.Join(dir, "cxrun"), "shard", "--matrix", filepath.Join(dir, "matrix_full.json"),
		"--id", epCell, "--results", filepath.Join(dir, "results")).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "made by cxgen another")
	require.NoDirExists(t, filepath.Join(dir, "results"))
}

// TestSweepFailure lets one case die in the first attempt of a run: its cell is
// red, everything else is there, and the second attempt mends it.
func TestSweepFailure(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.commit(t, repository, nil)
	fault := rank.Fault{Case: epCase, Rank: 1, Kind: rank.FaultExit, At: rank.FaultAtStart}
	o := s.dispatch(t, request{run: 12, attempt: 1, env: []string{rank.FaultVariable + "=" + fault.String()}})
	require.True(t, o.failed, o.log())

	require.Equal(t, "failure", o.step("sweep_0", epCell, "Run the cell"))
	require.Equal(t, "success", o.step("sweep_0", collectiveCell, "Run the cell"))
	for _, leg := range smokeCells {
		for _, step := range []string{"Summarize", "Upload the documents", "Upload the samples"} {
			require.Equal(t, "success", o.step("sweep_0", leg, step), "%s: %s", leg, step)
		}
	}
	for _, text := range []string{o.summary("sweep_0", epCell), o.summary("aggregate", "")} {
		require.Contains(t, text, epCase)
		require.Contains(t, text, "rank-died: rank 1")
	}
	require.NotContains(t, o.summary("sweep_0", collectiveCell), "rank-died")
	m := s.matrix(t, 12)
	docs := s.dataset(t, 12)
	require.Equal(t, runnable(m), slices.Sorted(maps.Keys(docs)))
	for id, attempts := range docs {
		want := result.Success
		if id == epCase {
			want = result.Failed
		}
		require.Equal(t, want, attempts[0].Outcome.Status, id)
	}
	first := s.artifact(t, 12, "cxshard-"+epCell+"-12-1")

	o = s.dispatch(t, request{run: 12, attempt: 2})
	require.False(t, o.failed, o.log())
	require.Equal(t, "success", o.step("sweep_0", epCell, "Download what earlier attempts left"))
	require.Contains(t, o.said("sweep_0", epCell, "Run the cell"), "1 passed, 0 failed, 1 kept")
	cell, err := m.Cell(collectiveCell)
	require.NoError(t, err)
	require.Contains(t, o.said("sweep_0", collectiveCell, "Run the cell"), fmt.Sprintf("0 passed, 0 failed, %d kept", len(cell.CaseIDs)))
	second := s.artifact(t, 12, "cxshard-"+epCell+"-12-2")
	require.Len(t, second, len(first)+1, "uploads are cumulative")
	for name, text := range first {
		require.Equal(t, text, second[name], name)
	}
	docs = s.dataset(t, 12)
	require.Equal(t, runnable(m), slices.Sorted(maps.Keys(docs)))
	var statuses []string
	for _, d := range docs[epCase] {
		statuses = append(statuses, *d.Identity.AllocationFactors.RunAttempt+" "+d.Outcome.Status)
	}
	slices.Sort(statuses)
	require.Equal(t, "2 success", statuses[len(statuses)-1])
	require.Equal(t, "1 failed", statuses[0])
	require.Contains(t, o.summary("aggregate", ""), allPassed(m))
}

// TestSweepOfNothing filters everything away: no cell starts, and the run is
// green with an empty dataset.
func TestSweepOfNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.commit(t, repository, nil)
	o := s.dispatch(t, request{run: 13, attempt: 1, inputs: map[string]string{"suite": "smoke", "sku": "mi355x"}})
	require.False(t, o.failed, o.log())
	for wave := range plan.Waves {
		require.Empty(t, o.legs("sweep_"+strconv.Itoa(wave)))
	}
	require.Equal(t, "success", o.step("aggregate", "", "Aggregate"))
	require.Empty(t, s.dataset(t, 13))
	require.Equal(t, []string{"cxsweep-aggregate-13", "cxsweep-binaries-13", "cxsweep-matrix-13", "cxsweep-report-13"}, s.names(t, 13))
}

// TestSweepElsewhere runs the workflow in a fleet owner's repository, which has
// the workflow and definitions of its own, and takes CollectiveX from another one.
func TestSweepElsewhere(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	commit := s.commit(t, "collectivex/collectivex", nil)
	fleet := filepath.Join(s.repositories, repository)
	require.NoError(t, os.CopyFS(filepath.Join(fleet, "matrix"), matrix.FS))
	local := filepath.Join(fleet, "matrix", "platforms", "local.yaml")
	text, err := os.ReadFile(local)
	require.NoError(t, err)
	text = bytes.Replace(text, []byte("runner: ubuntu-latest"), []byte("runner: "+ownLabel), 1)
	require.NoError(t, os.WriteFile(local, text, 0o644))
	write(t, filepath.Join(fleet, workflow.File), emit(t, workflow.Options{
		Source: workflow.Source{Repository: "collectivex/collectivex", SHA: commit}, Definitions: "matrix",
	}))
	s.repo(t, repository)

	o := s.dispatch(t, request{run: 14, attempt: 1, inputs: map[string]string{"op": "all_reduce", "world": "2"}})
	require.False(t, o.failed, o.log())
	require.Equal(t, []string{collectiveCell}, o.legs("sweep_0"))
	m := s.matrix(t, 14)
	docs := s.dataset(t, 14)
	builtFrom(t, commit, m, docs)
	require.Equal(t, ownLabel, m.Include[0].Runner)
	require.Equal(t, runnable(m), slices.Sorted(maps.Keys(docs)))
	require.Len(t, docs, 1)
}

// TestReplacedArtifacts lets somebody replace what setup uploaded, as any job of a
// run can: no cell and no fold runs it.
func TestReplacedArtifacts(t *testing.T) {
	for i, file := range []string{"cxsweep-binaries-%d/cxrun-amd64.tar", "cxsweep-matrix-%d/matrix_full.json"} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			s, run := newStage(t), 50+i
			text := string(emit(t, workflow.Options{}))
			after := "          path: bin/cxrun-*.tar\n          if-no-files-found: error\n          overwrite: true\n"
			require.Contains(t, text, after)
			text = strings.Replace(text, after, after+"      - name: Replace\n        run: printf ' ' >> \"$CX_STANDIN_ARTIFACTS/$GITHUB_RUN_ID/"+fmt.Sprintf(file, run)+"\"\n", 1)
			s.commit(t, repository, map[string][]byte{workflow.File: []byte(text)})
			o := s.dispatch(t, request{run: run, attempt: 1})
			require.True(t, o.failed, o.log())
			require.Equal(t, "success", o.step("setup", "", "Replace"))
			for _, leg := range smokeCells {
				require.Equal(t, "failure", o.step("sweep_0", leg, "Verify the programs"), o.log())
				require.Contains(t, o.said("sweep_0", leg, "Verify the programs"), filepath.Base(file)+": FAILED")
				require.Empty(t, o.step("sweep_0", leg, "Run the cell"))
				require.Empty(t, o.step("sweep_0", leg, "Summarize"))
			}
			require.Equal(t, "failure", o.step("aggregate", "", "Verify the programs"), o.log())
			require.Empty(t, o.step("aggregate", "", "Aggregate"))
			require.Empty(t, o.step("aggregate", "", "Summarize"))
		})
	}
}

// TestHostileCell lets a cell leave documents that would command the runners of
// later jobs: they are refused, and whatever is printed commands nothing.
func TestHostileCell(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	text := string(emit(t, workflow.Options{}))
	for old, tampered := range map[string]string{
		"      - name: Summarize\n":                  "      - name: Tamper\n        run: sed -i -E 's/,\"digest\":\"sha256:[0-9a-f]+\"//; s/\"status\":\"success\"/\"status\":\"##[error]forged\"/' \"$CX_DIR\"/*.json\n      - name: Summarize\n",
		`"$RUNNER_TEMP/collectivex/cxrun" aggregate`: `echo "::error::forged" && "$RUNNER_TEMP/collectivex/cxrun" aggregate`,
	} {
		require.Contains(t, text, old)
		text = strings.Replace(text, old, tampered, 1)
	}
	s.commit(t, repository, map[string][]byte{workflow.File: []byte(text)})
	o := s.dispatch(t, request{run: 60, attempt: 1, inputs: map[string]string{"op": "all_reduce", "world": "2"}})
	require.True(t, o.failed, o.log())
	require.Equal(t, "success", o.step("sweep_0", collectiveCell, "Tamper"))
	require.Equal(t, "failure", o.step("aggregate", "", "Aggregate"))
	said := o.said("aggregate", "", "Aggregate")
	require.Contains(t, said, "forged")
	wording.Has(t, said, "1 case without … 1 file")
	for _, e := range o.events {
		if strings.Contains(e.Arg+e.Content, "forged") {
			require.NotContains(t, []string{"error", "warning", "notice", "add-mask", "summary"}, e.Command, e.Arg)
		}
	}
}

// hostile are texts that an operator, or somebody with the API, may send.
func hostile(canary string) map[string]string {
	return map[string]string{
		"substitution": "$(touch " + canary + ")",
		"backticks":    "`touch " + canary + "`",
		"quotes":       `"; touch ` + canary + `; "`,
		"apostrophes":  `'; touch ` + canary + `; '`,
		"separator":    "smoke; touch " + canary,
		"lines":        "smoke\ntouch " + canary,
		"flag":         "--definitions=" + canary,
		"expression":   "${{ hashFiles('go.mod') }}",
		"output":       "smoke\ncount_0<<EOF\n9\nEOF",
		"command":      "\n::error::" + canary + "\n::add-path::" + canary,
	}
}

// TestHostileInputs sends hostile text in every input: each is refused by name,
// nothing of it runs, and nothing after the plan starts.
func TestHostileInputs(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.commit(t, repository, nil)
	canary := filepath.Join(t.TempDir(), "canary")
	run := 20
	for name, text := range hostile(canary) {
		run++
		t.Run(name, func(t *testing.T) {
			inputs := map[string]string{}
			for _, input := range []string{"suite", "backend", "sku", "exclude_sku", "mode", "phase", "precision", "op", "dtype", "redop"} {
				inputs[input] = text
			}
			o := s.dispatch(t, request{run: run, attempt: 1, inputs: inputs})
			require.True(t, o.failed, o.log())
			require.Equal(t, "success", o.step("setup", "", "Build cxgen"))
			require.Equal(t, "failure", o.step("setup", "", "Plan"))
			said := o.said("setup", "", "Plan")
			require.Contains(t, said, "unknown suite")
			require.Contains(t, said, "unknown redop")
			require.NoFileExists(t, canary)
			require.NoDirExists(t, filepath.Join(s.artifacts, strconv.Itoa(run)))
			for _, e := range o.events {
				require.NotContains(t, []string{"setup.Build cxrun", "sweep_0", "aggregate"}, e.JobID)
				require.NotEqual(t, "error", e.Command, e.Arg)
				require.NotEqual(t, "add-path", e.Command, e.Arg)
			}
		})
	}
	for _, input := range []string{"ep", "world", "max_cases"} {
		t.Run(input, func(t *testing.T) {
			run++
			o := s.dispatch(t, request{run: run, attempt: 1, inputs: map[string]string{input: "2$(touch " + canary + ")"}})
			require.Equal(t, "failure", o.step("setup", "", "Plan"))
			require.Contains(t, o.said("setup", "", "Plan"), "see 'cxgen matrix --help'")
			require.NoFileExists(t, canary)
		})
	}
}

// TestHostileControl shows that the canary sings where an input does reach a
// shell line.
func TestHostileControl(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	canary := filepath.Join(t.TempDir(), "canary")
	text := strings.Replace(string(emit(t, workflow.Options{})), `--suite="$CX_INPUT_SUITE"`, `--suite="${{ inputs.suite }}"`, 1)
	s.commit(t, repository, map[string][]byte{workflow.File: []byte(text)})
	s.dispatch(t, request{run: 40, attempt: 1, inputs: map[string]string{"suite": hostile(canary)["substitution"]}})
	_, err := os.Stat(canary)
	require.NoError(t, err)
}
