package run

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/rank"
)

// program is this binary as cxrun in a process of its own.
func program(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "GITHUB_RUN_ID=", "GITHUB_ACTIONS=", "GITHUB_STEP_SUMMARY=")
	return cmd
}

// runsIn returns the run ids of the documents of a sweep.
func runsIn(t *testing.T, out string) []string {
	t.Helper()
	runs := map[string]bool{}
	for _, d := range sweptDocuments(t, out) {
		runs[*d.Head().Identity.AllocationFactors.RunID] = true
	}
	var ids []string
	for id := range runs {
		ids = append(ids, id)
	}
	return ids
}

// plannedCases is how many cases the plan of a sweep has.
func plannedCases(t *testing.T, out string) int {
	t.Helper()
	m, err := readMatrix(filepath.Join(out, matrixFile))
	require.NoError(t, err)
	return len(m.RequestedCases) + len(m.RequestedOther)
}

func documentsBelow(t *testing.T, out string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(out, cellsDir, "*", "*.json"))
	require.NoError(t, err)
	return names
}

func TestAKilledSweepIsCompleted(t *testing.T) {
	need.Full(t)
	out := filepath.Join(t.TempDir(), "out")
	killed := program("sweep", "--definitions", fewSamples(t), "--out", out)
	killed.Env = append(killed.Env, rank.FaultVariable+"=case=*-alltoallv-*,rank=0,kind=hang") // it never ends by itself
	require.NoError(t, killed.Start())
	require.Eventually(t, func() bool { return len(documentsBelow(t, out)) > 0 }, 10*time.Minute, time.Millisecond)
	require.NoError(t, killed.Process.Kill())
	_ = killed.Wait()
	before := map[string]string{}
	for _, name := range documentsBelow(t, out) {
		data := readFile(t, name)
		before[name] = string(data)
	}

	_, stderr := ran(t, cli.ExitOK, nil, "sweep", "--resume", out)
	require.Contains(t, stderr, "kept")
	require.Len(t, sweptDocuments(t, out), plannedCases(t, out))
	require.Len(t, runsIn(t, out), 1, "one run")
	for name, text := range before {
		data := readFile(t, name)
		require.Equal(t, text, string(data), "a finished document changed")
	}
}

// What is no file among a cell's results is named, and holds up neither the cell nor
// the fold.
func TestASweepIsCompletedBesideWhatIsNoFile(t *testing.T) {
	need.Full(t)
	out := filepath.Join(t.TempDir(), "out")
	ran(t, cli.ExitOK, nil, "sweep", "--definitions", fewSamples(t), "--out", out, "--op", "all_reduce", "--world", "2")
	cells, err := filepath.Glob(filepath.Join(out, cellsDir, "*"))
	require.NoError(t, err)
	require.NotEmpty(t, cells)
	require.NoError(t, unix.Mkfifo(filepath.Join(cells[0], "queue.json"), 0o600))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(cells[0], "dangling.json")))
	resumed := program("sweep", "--resume", out)
	said, err := resumed.CombinedOutput()
	require.NoError(t, err, string(said))
	require.Contains(t, string(said), "queue.json: not a regular file")
	require.Contains(t, string(said), "dangling.json: no such file")
	// The plan beside the cells is not one of the documents.
	_, stderr := ran(t, cli.ExitOK, nil, "summarize", "--in", out, "--gate")
	require.NotContains(t, stderr, matrixFile)
}

func TestResumingAShardWithAnotherMatrixIsRefused(t *testing.T) {
	need.Full(t)
	matrix, results := planned(t), t.TempDir()
	args := []string{"shard", "--id", "local-host-bf16-n1", "--results", results, "--matrix"}
	ran(t, cli.ExitOK, nil, append(args, matrix)...)
	data := readFile(t, matrix)
	other := filepath.Join(t.TempDir(), matrixFile)
	require.NoError(t, os.WriteFile(other, append(data, '\n'), 0o644)) // the same cases
	_, stderr := ran(t, cli.ExitUsage, nil, append(args, other, "--resume")...)
	require.Regexp(t, `(?m)^cxrun: .*matrix [0-9a-f]{12}.*[0-9a-f]{12}.*\n$`, stderr)
	ran(t, cli.ExitOK, nil, append(args, matrix, "--resume")...)
}

func TestResumingASweepRefuses(t *testing.T) {
	empty := t.TempDir()
	_, stderr := ran(t, cli.ExitUsage, nil, "sweep", "--resume", empty)
	require.Contains(t, stderr, matrixFile)
	left, err := os.ReadDir(empty)
	require.NoError(t, err)
	require.Empty(t, left, "nothing was written")
	_, stderr = ran(t, cli.ExitUsage, nil, "sweep", "--resume", empty, "--ep", "2", "--out", empty)
	require.Equal(t, "cxrun: --resume continues with the plan in "+empty+": leave out --ep, --out\n", stderr)
}

func TestOneOfTwoSweepsOnOneDirectoryWins(t *testing.T) {
	need.Full(t)
	out := filepath.Join(t.TempDir(), "out")
	definitions := fewSamples(t)
	var sweeps [2]*exec.Cmd
	var said [2]bytes.Buffer
	for i := range sweeps {
		sweeps[i] = program("sweep", "--definitions", definitions, "--out", out)
		sweeps[i].Stderr = &said[i]
		require.NoError(t, sweeps[i].Start())
	}
	won := 0
	for i := range sweeps {
		_ = sweeps[i].Wait()
		switch sweeps[i].ProcessState.ExitCode() {
		case cli.ExitOK:
			won++
		case cli.ExitEnvironment: // while the other runs
			require.Regexp(t, `^cxrun: --out: in use: process \d+ writes to `, said[i].String())
		case cli.ExitUsage: // after its end
			require.Contains(t, said[i].String(), "already holds a run")
		default:
			require.Fail(t, said[i].String())
		}
	}
	require.Equal(t, 1, won)
	require.Len(t, documentsBelow(t, out), plannedCases(t, out))
	require.Len(t, runsIn(t, out), 1)
}

func TestAResumedShardFailsWithTheCasesThatFailedBefore(t *testing.T) {
	need.Full(t)
	matrix, results := planned(t), t.TempDir()
	args := []string{"shard", "--matrix", matrix, "--id", "local-host-bf16-n1", "--results", results}
	ran(t, cli.ExitFailed, map[string]string{rank.FaultVariable: "case=*-ep2-*,rank=1,kind=exit"}, args...)
	stdout, stderr := ran(t, cli.ExitFailed, map[string]string{rank.FaultVariable: ""}, append(args, "--resume")...)
	require.Equal(t, "local-host-bf16-n1: 0 passed, 0 failed, 2 kept (1 of them failed)\n", stdout)
	require.Contains(t, stderr, "1 of 2 cases failed")
}

func TestCellsRunByHandAreOneRun(t *testing.T) {
	need.Full(t)
	matrix, out := planned(t), t.TempDir()
	shard := func(cell string, more ...string) (int, string) {
		code, _, stderr := cxrun(t, nil, append([]string{"shard", "--matrix", matrix, "--id", cell, "--results", filepath.Join(out, cell)}, more...)...)
		return code, stderr
	}
	m, err := readMatrix(matrix)
	require.NoError(t, err)
	for _, cell := range m.Include {
		code, stderr := shard(cell.ID, "--run-id", "by-hand.1")
		require.Equal(t, cli.ExitOK, code, stderr)
	}
	ran(t, cli.ExitOK, nil, "aggregate", "--in", out, "--matrix", matrix, "-o", filepath.Join(out, "run.ndjson"))

	code, stderr := shard("local-host-bf16-n1", "--resume", "--run-id", "another")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "holds documents of run by-hand.1")
	code, stderr = shard("local-host-bf16-n1", "--run-id", "by-hand.2")
	require.Equal(t, cli.ExitOK, code, stderr)
	code, stderr = shard("local-host-bf16-n1", "--resume")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "holds documents of runs by-hand.1, by-hand.2; name one with --run-id")
	code, stderr = shard("local-host-bf16-n1", "--resume", "--run-id", "by-hand.1")
	require.Equal(t, cli.ExitOK, code, stderr)
	for _, bad := range []string{"a b", "../x", "me@host.example.com", strings.Repeat("x", 65)} {
		code, stderr = shard("local-host-bf16-n1", "--run-id", bad)
		require.Equal(t, cli.ExitUsage, code)
		require.Contains(t, stderr, "--run-id")
	}
}
