package run

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/netns"
	"github.com/collectivex/collectivex/internal/slurmtest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	collectivebench "github.com/collectivex/collectivex/pkg/collective/bench"
)

// asMPIRun returns the variables that Open MPI gives to a rank of a start with n ranks on this host.
func asMPIRun(rank, n int) map[string]string {
	return map[string]string{
		"OMPI_COMM_WORLD_RANK": strconv.Itoa(rank), "OMPI_COMM_WORLD_SIZE": strconv.Itoa(n), "OMPI_COMM_WORLD_LOCAL_RANK": strconv.Itoa(rank),
		"OMPI_COMM_WORLD_LOCAL_SIZE": strconv.Itoa(n), "PMIX_RANK": strconv.Itoa(rank), "PMIX_NAMESPACE": fmt.Sprint("test-", os.Getpid()),
	}
}

// started is the processes of a bench that were started together.
type started struct {
	processes []*exec.Cmd
	out, err  []*strings.Builder
}

// startTogether starts a bench as mpirun does.
func startTogether(t *testing.T, n int, env []string, args ...string) (all started) {
	t.Helper()
	for r := range n {
		cmd := program(append([]string{"bench"}, args...)...)
		for name, value := range asMPIRun(r, n) {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		cmd.Env = append(cmd.Env, env...)
		all.out, all.err = append(all.out, &strings.Builder{}), append(all.err, &strings.Builder{})
		cmd.Stdout, cmd.Stderr = all.out[r], all.err[r]
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		all.processes = append(all.processes, cmd)
	}
	return all
}

// wait waits for all processes and returns their exit codes, -1 for one that was killed.
func (s started) wait() (codes []int) {
	for _, cmd := range s.processes {
		_ = cmd.Wait()
		codes = append(codes, cmd.ProcessState.ExitCode())
	}
	return codes
}

// hasRank waits until a process has started its rank.
func hasRank(t *testing.T, pid int) {
	t.Helper()
	eventually(t, "a rank starts", func() bool {
		children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		for _, file := range children {
			if raw, _ := os.ReadFile(file); len(strings.TrimSpace(string(raw))) > 0 {
				return true
			}
		}
		return false
	})
}

// The processes that mpirun starts are the ranks of one bench, of which rank 0 prints the table.
func TestBenchOfProcessesStartedTogether(t *testing.T) {
	all := startTogether(t, 2, nil, "all_reduce", "--backend", "host", "-b", "8", "-e", "64", "-f", "8", "-n", "2", "-g", "1", "--json")
	require.Equal(t, []int{0, 0}, all.wait(), "%s%s", all.err[0], all.err[1])
	require.Empty(t, all.out[1].String()+all.err[1].String())
	r := decoded[collectivebench.Report](t, all.out[0].String())
	require.Equal(t, 2, r.World)
	require.True(t, r.Passed)
	require.Len(t, r.Results, 1)
	require.Len(t, r.Results[0].Rows, 4)
}

// What cannot be one measurement is refused in one line, by rank 0 alone if all have the same reason.
func TestBenchThatCannotJoin(t *testing.T) {
	for args, of := range map[string]struct {
		code int
		want string
	}{
		"bench all_reduce -g 2":  {cli.ExitUsage, "mpirun started 3 processes, each of which is one rank: leave -t and -g out"},
		"bench kv":               {cli.ExitUsage, "this measurement has 2 ranks, and mpirun started 3 processes"},
		"bench all_reduce -n no": {cli.ExitUsage, "-n"},
	} {
		for rank := range 2 {
			code, stdout, stderr := cxrun(t, asMPIRun(rank, 3), strings.Fields(args)...)
			require.Equal(t, of.code, code)
			require.Empty(t, stdout)
			if rank == 0 || strings.HasSuffix(args, "no") {
				wording.Has(t, stderr, of.want)
				require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
			} else {
				require.Empty(t, stderr)
			}
		}
	}
	env := asMPIRun(0, 3)
	env["RANK"], env["WORLD_SIZE"], env["LOCAL_RANK"], env["MASTER_ADDR"] = "1", "3", "1", "localhost"
	_, stderr := ran(t, cli.ExitEnvironment, env, "bench", "all_reduce")
	wording.Has(t, stderr, "RANK … rank 1 of 3 … OMPI_COMM_WORLD_RANK … rank 0 of 3")
}

// Processes that do not fit together end with the reason of rank 0, and so does a bench that fails.
func TestBenchOfProcessesThatEndTogether(t *testing.T) {
	need.Full(t)
	t.Run("fewer devices than processes", func(t *testing.T) {
		standIns(t)
		all := startTogether(t, 3, nil, "all_reduce", "-b", "8", "-e", "8")
		require.Equal(t, []int{cli.ExitEnvironment, cli.ExitEnvironment, cli.ExitEnvironment}, all.wait())
		wording.Has(t, all.err[0].String(), "rank 2 sees 2 devices … start one process for each device")
		require.Empty(t, all.err[1].String()+all.err[2].String())
	})
	t.Run("each has a device", func(t *testing.T) {
		standIns(t)
		all := startTogether(t, 2, nil, "all_reduce", "-b", "8", "-e", "8")
		require.Equal(t, []int{0, 0}, all.wait(), "%s%s", all.err[0], all.err[1])
		require.Contains(t, all.out[0].String(), "#  Rank  1 device  1 CX Fake NVIDIA GPU\n")
	})
	t.Run("a threshold", func(t *testing.T) {
		all := startTogether(t, 2, nil, "all_reduce", "--backend", "host", "-b", "8", "-e", "8", "--max-time", "8=0.000001")
		require.Equal(t, []int{cli.ExitFailed, cli.ExitFailed}, all.wait())
		require.Empty(t, all.err[1].String())
	})
	const hang = "CX_FAULT=rank=1,kind=hang"
	t.Run("a process that is killed", func(t *testing.T) {
		all := startTogether(t, 3, []string{hang}, "all_reduce", "--backend", "host", "-b", "8", "-e", "8", "-T", "600")
		hasRank(t, all.processes[2].Process.Pid)
		require.NoError(t, all.processes[2].Process.Kill())
		codes := all.wait()
		require.NotEqual(t, cli.ExitOK, codes[0])
		require.Equal(t, []int{codes[0], codes[0], -1}, codes)
		require.Regexp(t, "rank-died: rank 2 signal 9|the process of rank 2 has ended", all.err[0], "while its rank runs, or starts")
	})
	t.Run("rank 0 is killed", func(t *testing.T) {
		all := startTogether(t, 2, []string{hang}, "all_reduce", "--backend", "host", "-b", "8", "-e", "8", "-T", "600")
		hasRank(t, all.processes[1].Process.Pid)
		require.NoError(t, all.processes[0].Process.Kill())
		require.Equal(t, []int{-1, cli.ExitEnvironment}, all.wait())
		wording.Has(t, all.err[1].String(), "rank 0 has ended, or cannot be reached")
	})
}

// Open MPI itself starts a bench.
func TestBenchOfOpenMPI(t *testing.T) {
	need.Full(t)
	need.Tool(t, "mpirun")
	if !netns.Own(t) { // mpirun listens at every address
		return
	}
	cmd := exec.Command("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "3", os.Args[0], "bench", "all_reduce", "-b", "8", "-e", "1M", "-f", "512", "--backend", "host")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
	oneTable(t, string(out))
}

// oneTable checks that the output has the table of one bench and nothing wrong in it.
func oneTable(t *testing.T, out string) {
	t.Helper()
	require.Equal(t, 1, strings.Count(out, "# cxrun "), out)
	require.Equal(t, 1, strings.Count(out, "Avg bus bandwidth"), out)
	require.Contains(t, out, "# Out of bounds values : 0 OK")
}

// srun itself starts a bench on two nodes, in any order of its ranks. A task that is killed ends it.
func TestBenchOfSrun(t *testing.T) {
	need.Full(t)
	if !slurmtest.Start(t, 2) {
		return
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	bench := []string{os.Args[0], "bench", "all_reduce", "--backend", "host", "-b", "8", "-e", "1M", "-f", "512"}
	for _, order := range []string{"block", "cyclic"} {
		out, err := exec.Command("srun", append([]string{"-N2", "--ntasks-per-node=2", "--distribution=" + order}, bench...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		t.Logf("%s", out)
		oneTable(t, string(out))
	}
	out, err := exec.Command("srun", append([]string{"-N2", "-n3"}, bench...)...).CombinedOutput()
	require.Error(t, err)
	wording.Has(t, string(out), "2 processes were started on the host of rank 0 and 1 on another")

	pid := filepath.Join(t.TempDir(), "pid")
	const script = `[ "$SLURM_PROCID" != 3 ] || echo $$ >"$0"; exec "$@"`
	cmd := exec.Command("srun", append([]string{"-N2", "--ntasks-per-node=2", "sh", "-c", script, pid}, append(bench, "-T", "600")...)...)
	cmd.Env = append(os.Environ(), "CX_FAULT=rank=1,kind=hang")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	var task int
	eventually(t, "the task starts", func() bool {
		raw, _ := os.ReadFile(pid)
		task, err = strconv.Atoi(strings.TrimSpace(string(raw)))
		return err == nil
	})
	hasRank(t, task)
	require.NoError(t, exec.Command("kill", "-KILL", strconv.Itoa(task)).Run())
	require.Error(t, cmd.Wait())
	require.Regexp(t, "rank-died: rank 3 signal 9|the process of rank 3 has ended", said.String(), "while its rank runs, or starts")
}
