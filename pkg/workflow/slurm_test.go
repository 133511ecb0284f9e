package workflow_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/slurmtest"
	"github.com/collectivex/collectivex/pkg/result"
)

// A platform of two nodes that Slurm allocates, with a cell of two cases.
const (
	slurmPlatform = `
vendor: host
product: host
arch: host
cpu: %s
gpus_per_node: 2
scale_up: {domain: 2, transport: shm, pace: {us: 1000, gbps: 0.5}}
scale_out: {pace: {us: 1000, gbps: 0.5}}
runner: bench-box
launch: {launcher: slurm, container: none, requires: [slurm.partition, storage.stage]}
backends:
  host: {collective: [4]}
`
	slurmSuite = `
platforms: [pair]
sampling: smoke
collective:
  - {backends: [host], ops: [all_reduce, all_gather], dtypes: [float], redops: [sum], sizes: {from: 8, to: 64KiB, factor: 8192},
     placements: [out_of_place], modes: [pipelined], buffers: [warm], registrations: [none]}
`
	slurmCell = "pair-host-collective-n2"
)

// TestSweepOnSlurm runs the workflow with a cell on two nodes of a real Slurm: a run whose
// first case fails and which is then cancelled, and four attempts of another one. In the
// first a case fails, in the second cxrun is killed, in the third the runner is, and the
// fourth passes. Only the killed runner leaves a job, and the next cell there cancels it.
func TestSweepOnSlurm(t *testing.T) {
	need.Full(t)
	if !slurmtest.Start(t, 2) {
		return
	}
	s := newStage(t)
	s.commit(t, repository, map[string][]byte{
		"matrix/platforms/pair.yaml": fmt.Appendf(nil, slurmPlatform, runtime.GOARCH),
		"matrix/suites/pair.yaml":    []byte(slurmSuite),
	})
	operator := filepath.Join(t.TempDir(), "operator.yaml")
	require.NoError(t, os.WriteFile(operator, fmt.Appendf(nil, "platforms:\n  pair:\n    slurm: {partition: test}\n    storage: {stage: %q}\n", t.TempDir()), 0o600))
	sweep := func(run, attempt int, fault string) request {
		r := request{run: run, attempt: attempt, inputs: map[string]string{"suite": "pair", "sku": "pair"}, env: []string{
			"CX_OPERATOR_CONFIG=" + operator, "SLURM_CONF=" + os.Getenv("SLURM_CONF"),
		}}
		if fault != "" {
			r.env = append(r.env, "CX_FAULT="+fault)
		}
		return r
	}
	const (
		cell    = "Run the cell"
		cleanup = "Cancel what a killed shard left"
		removed = `^removed what \d+ killed shards left\n$` // other tests leave some, too
	)

	r := s.begin(t, sweep(80, 1, "case=*all-reduce*,rank=3,kind=kill,at=record-2;case=*all-gather*,rank=3,kind=hang"))
	runningJob(t, r, 2)
	require.NoError(t, r.cmd.Process.Signal(os.Interrupt))
	o := s.outcome(t, r.output, r.cmd.Wait())
	require.True(t, o.failed)
	require.Equal(t, "success", o.step("sweep_0", slurmCell, cleanup), o.log())
	require.Contains(t, o.summary("sweep_0", slurmCell), "rank-died: rank 3 signal 9", o.log())
	noJob(t)

	o = s.dispatch(t, sweep(81, 1, "case=*all-reduce*,rank=3,kind=kill,at=record-2"))
	require.True(t, o.failed, o.log())
	require.Equal(t, "failure", o.step("sweep_0", slurmCell, cell))
	require.Contains(t, o.said("sweep_0", slurmCell, cell), "1 passed, 1 failed", o.log())
	require.Regexp(t, removed, o.said("sweep_0", slurmCell, cleanup))
	for _, summary := range []string{o.summary("sweep_0", slurmCell), o.summary("aggregate", "")} {
		require.Contains(t, summary, "rank-died: rank 3 signal 9")
	}
	noJob(t)

	r = s.begin(t, sweep(81, 2, "rank=3,kind=hang"))
	runningJob(t, r, 1)
	killShard(t, r)
	o = s.outcome(t, r.output, r.cmd.Wait())
	require.True(t, o.failed)
	require.Equal(t, "failure", o.step("sweep_0", slurmCell, cell), o.log())
	require.Equal(t, "success", o.step("sweep_0", slurmCell, cleanup), o.log())
	require.Regexp(t, removed, o.said("sweep_0", slurmCell, cleanup))
	require.NotContains(t, o.said("sweep_0", slurmCell, cleanup), "what 0 ")
	require.Equal(t, "success", o.step("sweep_0", slurmCell, "Upload the documents"), "those of the first attempt")
	noJob(t)

	r = s.begin(t, sweep(81, 3, "rank=3,kind=hang"))
	job := runningJob(t, r, 1)
	all := family(t, r.cmd.Process.Pid)
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} { // none may act on the end of another
		for _, pid := range slices.Backward(all) { // children first: the end of a parent wakes a stopped group
			_ = syscall.Kill(pid, signal)
		}
	}
	require.Error(t, r.cmd.Wait())
	require.Contains(t, slurmtest.Jobs(t), job+" RUNNING", "nobody has cancelled it yet")
	o = s.dispatch(t, sweep(81, 4, ""))
	require.False(t, o.failed, o.log())
	require.Contains(t, o.said("sweep_0", slurmCell, cell), "1 passed, 0 failed, 1 kept")
	require.Contains(t, o.summary("aggregate", ""), "2 of 2 cases passed")
	for id, attempts := range s.dataset(t, 81) {
		require.Equal(t, result.Success, attempts[len(attempts)-1].Outcome.Status, id)
	}
	noJob(t)
}

// running is a run of the workflow that goes on.
type running struct {
	cmd    *exec.Cmd
	output string // file
}

// begin starts a run of the workflow.
func (s *stage) begin(t *testing.T, r request) running {
	t.Helper()
	cmd, output := s.command(t, r)
	require.NoError(t, cmd.Start())
	return running{cmd, output}
}

// runningJob waits until a group, counted from 1, of ranks of the run has begun, and returns the id of
// its job.
func runningJob(t *testing.T, r running, group int) (id string) {
	t.Helper()
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.cmd.Process.Pid))
		require.NoError(t, err)
		if _, rest, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(rest, "Z") {
			text, _ := os.ReadFile(r.output)
			require.FailNow(t, "the run has ended", "%v: %s", r.cmd.Wait(), text)
		}
		out, err := exec.Command("squeue", "--noheader", "--steps", "--format=%i").Output()
		if err != nil {
			return false // a busy slurmctld answers late, or not at all
		}
		for line := range strings.Lines(string(out)) { // step 0 prepares the nodes
			if job, step, _ := strings.Cut(strings.TrimSpace(line), "."); step == strconv.Itoa(group) {
				id = job
			}
		}
		return id != ""
	}, 10*time.Minute, 100*time.Millisecond, "ranks of a job begin")
	return id
}

// killShard ends the shard of a run, which is one process, with SIGKILL.
func killShard(t *testing.T, r running) {
	t.Helper()
	for _, pid := range family(t, r.cmd.Process.Pid) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
		if args := strings.Split(string(line), "\x00"); len(args) > 1 && filepath.Base(args[0]) == "cxrun" && args[1] == "shard" {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			return
		}
	}
	require.FailNow(t, "the run has no shard")
}

// noJob waits until Slurm has no job that is not over.
func noJob(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		jobs := slurmtest.Jobs(t)
		return !strings.Contains(jobs, "RUNNING") && !strings.Contains(jobs, "PENDING") && !strings.Contains(jobs, "COMPLETING")
	}, 10*time.Minute, 100*time.Millisecond, "no job is left")
}

// family returns a process and all of its descendants.
func family(t *testing.T, pid int) []int {
	t.Helper()
	children := map[int][]int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		of, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		require.NoError(t, err)
		if fields := strings.Fields(rest); len(fields) > 1 {
			parent, err := strconv.Atoi(fields[1])
			require.NoError(t, err)
			children[parent] = append(children[parent], of)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}
