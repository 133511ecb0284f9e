package run

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
)

// pairOfRanks writes a matrix with a cell of two ranks.
func pairOfRanks(t *testing.T) string {
	t.Helper()
	cat, err := catalog.Load(os.DirFS(fewSamples(t)))
	require.NoError(t, err)
	m, err := planHere(cat, planner.Filters{Only: planner.Only{planner.FilterSuite: {"smoke"}, planner.FilterWorld: {"2"}}}, planner.Machine{CPU: runtime.GOARCH})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), matrixFile)
	require.NoError(t, m.WriteFile(path))
	return path
}

// joinedRanks starts the two ranks of a cell as mpirun and others do, with the variables of
// each, and returns what their processes ended with and said.
func joinedRanks(t *testing.T, matrix, results string, common []string, each func(rank int) []string) (codes [2]int, said [2]string) {
	t.Helper()
	var ranks [2]*exec.Cmd
	var out [2]strings.Builder
	for r := range ranks {
		cmd := exec.Command(os.Args[0], "shard", "--join", "--matrix", matrix, "--id", "local-host-collective-n1", "--results", results)
		cmd.Env = append(append(os.Environ(), common...), each(r)...)
		cmd.Stdout, cmd.Stderr = &out[r], &out[r]
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		ranks[r] = cmd
	}
	for r, cmd := range ranks {
		_ = cmd.Wait()
		codes[r], said[r] = cmd.ProcessState.ExitCode(), out[r].String()
		if strings.Contains(said[r], "cannot listen") {
			_ = ranks[1].Process.Kill() // nobody answers it
		}
	}
	return codes, said
}

// statuses counts the documents in results by status and reasons.
func statuses(t *testing.T, results string) map[string]int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(results, "*.json"))
	require.NoError(t, err)
	counts := map[string]int{}
	for _, file := range files {
		raw := readFile(t, file)
		d, err := result.Decode(raw)
		require.NoError(t, err)
		counts[strings.TrimSpace(d.Head().Outcome.Status+" "+d.Head().Outcome.Reasons.String())]++
	}
	return counts
}

// Ranks that mpirun started meet in a directory. One that dies costs its case, and the next
// case has new ranks in the same processes.
func TestRanksOfMPIRun(t *testing.T) {
	need.Full(t)
	matrix, dir := pairOfRanks(t), t.TempDir()
	results, store := filepath.Join(dir, "results"), filepath.Join(dir, "store")
	codes, said := joinedRanks(t, matrix, results, []string{"CX_STORE=" + store, "CX_FAULT=case=*all-reduce*,rank=1,kind=exit,at=record-2"}, func(r int) []string {
		n := strconv.Itoa(r)
		return []string{"OMPI_COMM_WORLD_RANK=" + n, "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=" + n, "PMIX_RANK=" + n}
	})
	require.Equal(t, [2]int{cli.ExitFailed, cli.ExitOK}, codes, "%s", said)
	counts := statuses(t, results)
	require.Equal(t, 1, counts["failed "+result.ReasonRankDied.With("rank 1 exit 7").String()], "%v", counts)
	require.Equal(t, 1, counts["success"])
	require.Len(t, counts, 2)
	logs, err := filepath.Glob(filepath.Join(results, "logs", "*", "group-*", "rank-1.log"))
	require.NoError(t, err)
	require.Len(t, logs, 2, "each case has a group of its own")
	require.NoDirExists(t, filepath.Join(store, "collectivex-ranks"))
}

// Ranks of a Kubernetes job meet at the port of rank 0.
func TestRanksOfKubernetes(t *testing.T) {
	need.Full(t)
	matrix, results := pairOfRanks(t), filepath.Join(t.TempDir(), "results")
	var codes [2]int
	var said [2]string
	for try := 0; try == 0 || try < 10 && strings.Contains(said[0], "cannot listen"); try++ { // somebody else may take the port
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		port := l.Addr().(*net.TCPAddr).Port
		require.NoError(t, l.Close())
		codes, said = joinedRanks(t, matrix, results, []string{"MASTER_ADDR=127.0.0.1", fmt.Sprintf("MASTER_PORT=%d", port), "CX_STORE_TOKEN=a token of this job"}, func(r int) []string {
			return []string{fmt.Sprintf("RANK=%d", r), "WORLD_SIZE=2"}
		})
	}
	require.Equal(t, [2]int{}, codes, "%s", said)
	require.Equal(t, []string{"success"}, keys(statuses(t, results)))
}

func keys(m map[string]int) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	return names
}

// What contradicts itself is refused in one line.
func TestRanksThatDoNotJoin(t *testing.T) {
	matrix, results := pairOfRanks(t), filepath.Join(t.TempDir(), "results")
	const cell = "local-host-collective-n1"
	for want, env := range map[string]map[string]string{
		"RANK, WORLD_SIZE and LOCAL_RANK":                         {},
		"4 ranks … SLURM_PROCID … 2":                              {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"},
		"RANK … rank 0 of 2 … OMPI_COMM_WORLD_RANK … rank 1 of 2": {"RANK": "0", "WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
		"CX_STORE": {"RANK": "0", "WORLD_SIZE": "2"},
	} {
		_, stderr := ran(t, cli.ExitEnvironment, env, "shard", "--join", "--matrix", matrix, "--id", cell, "--results", results)
		wording.Has(t, stderr, "--join: … "+want)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	}
	require.NoDirExists(t, results)
}

// Ranks of different environments do not measure together.
func TestRanksThatDiffer(t *testing.T) {
	matrix, results := pairOfRanks(t), filepath.Join(t.TempDir(), "results")
	codes, said := joinedRanks(t, matrix, results, []string{"CX_STORE=" + t.TempDir(), "WORLD_SIZE=2"}, func(r int) []string {
		return []string{fmt.Sprintf("RANK=%d", r), "NCCL_ALGO=" + []string{"Ring", "Tree"}[r]}
	})
	require.Equal(t, [2]int{cli.ExitEnvironment, cli.ExitEnvironment}, codes, "%s", said)
	for _, text := range said {
		wording.Has(t, text, "--join: … rank 1 … NCCL_ALGO … rank 0")
	}
	require.NoDirExists(t, results)
}
