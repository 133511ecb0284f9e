package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/slurmtest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
)

// A platform of two nodes with two ranks each, by its processors and a key of its launch, and a suite for it.
const (
	pairPlatform = `
vendor: host
product: host
arch: host
cpu: %s
gpus_per_node: 2
scale_up: {domain: 2, transport: shm, pace: {us: 1000, gbps: 0.5}}
scale_out: {pace: {us: 1000, gbps: 0.5}}
runner: slurm
launch: {launcher: slurm, container: none, %s, requires: [slurm.partition, storage.stage]}
backends:
  host: {ep: {normal: [4]}, collective: [4]}
`
	pairSuite = `
platforms: [pair]
sampling: smoke
ep:
  - {workload: tiny, backends: [host], degrees: [4], modes: [normal], phases: [decode], precisions: [bf16], routings: [uniform]}
collective:
  - {backends: [host], ops: [all_reduce, all_gather], dtypes: [float], redops: [sum], sizes: {from: 8, to: 64KiB, factor: 8192},
     placements: [out_of_place], modes: [pipelined], buffers: [warm], registrations: [none]}
`
	pairEP         = "pair-host-bf16-n2"
	pairCollective = "pair-host-collective-n2"
)

// slurmCell runs cells of the pair.
type slurmCell struct {
	matrix, operator, results string
}

// newSlurmCell plans the pair. Its all_reduce has this budget in seconds; 0 leaves it as planned.
func newSlurmCell(t *testing.T, taskPer string, budget int) slurmCell {
	t.Helper()
	m := planPair(t, fmt.Sprintf(pairPlatform, runtime.GOARCH, "task_per: "+taskPer), pairSuite)
	if budget > 0 {
		for i, q := range m.RequestedOther {
			if strings.Contains(q.Case.CaseID, "all-reduce") {
				m.RequestedOther[i].BudgetSeconds = budget
			}
		}
	}
	return slurmCellOf(t, m)
}

// planPair plans a suite on a platform, both of the name pair.
func planPair(t *testing.T, platform, suite string) *plan.Matrix {
	t.Helper()
	defs := fewSamples(t)
	for file, text := range map[string]string{"platforms/pair.yaml": platform, "suites/pair.yaml": suite} {
		require.NoError(t, os.WriteFile(filepath.Join(defs, file), []byte(text), 0o600))
	}
	cat, err := catalog.Load(os.DirFS(defs))
	require.NoError(t, err)
	m, err := planHere(cat, planner.Filters{Only: planner.Only{planner.FilterSuite: {"pair"}, planner.FilterSKU: {"pair"}}}, planner.Machine{CPU: runtime.GOARCH})
	require.NoError(t, err)
	return m
}

// slurmCellOf runs cells of a matrix.
func slurmCellOf(t *testing.T, m *plan.Matrix) slurmCell {
	t.Helper()
	dir := t.TempDir()
	c := slurmCell{filepath.Join(dir, matrixFile), "", filepath.Join(dir, "results")}
	require.NoError(t, m.WriteFile(c.matrix))
	c.operator = operatorFile(t, "slurm: {partition: test}")
	return c
}

// operatorFile writes operator values of the pair.
func operatorFile(t *testing.T, slurm string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "operator.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "platforms:\n  pair:\n    %s\n    storage: {stage: %q}\n", slurm, t.TempDir()), 0o600))
	return path
}

func (c slurmCell) args(cell string) []string {
	return []string{"shard", "--matrix", c.matrix, "--id", cell, "--results", c.results}
}

// run runs a cell in this process.
func (c slurmCell) run(t *testing.T, cell, fault string) (code int, stderr string) {
	t.Helper()
	env := map[string]string{operatorVariable: c.operator}
	if fault != "" {
		env["CX_FAULT"] = fault
	}
	code, _, stderr = cxrun(t, env, c.args(cell)...)
	return code, stderr
}

// start runs a cell in a process of its own. Its end is sent to ended.
func (c slurmCell) start(t *testing.T, cell, fault string) (process *os.Process, ended chan string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], c.args(cell)...)
	cmd.Env = append(os.Environ(), operatorVariable+"="+c.operator, "CX_FAULT="+fault)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	ended = make(chan string, 1)
	go func() {
		err := cmd.Wait()
		ended <- fmt.Sprintf("%v: %s", err, out.String())
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd.Process, ended
}

// began waits until all four ranks have begun the first case.
func (c slurmCell) began(t *testing.T, ended <-chan string) {
	t.Helper()
	eventually(t, "the ranks begin", func() bool {
		if len(ended) > 0 {
			require.FailNow(t, "the cell has ended", <-ended)
		}
		logs, err := filepath.Glob(filepath.Join(c.results, "logs", "*", "group-001", "rank-?.log"))
		require.NoError(t, err)
		begun := 0
		for _, log := range logs {
			if text, err := os.ReadFile(log); err == nil && strings.Contains(string(text), "=== rank ") {
				begun++
			}
		}
		return begun == 4
	})
}

// documents returns the heads of the cell's documents by operation.
func (c slurmCell) documents(t *testing.T) map[string]result.Envelope {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(c.results, "*.json"))
	require.NoError(t, err)
	docs := map[string]result.Envelope{}
	for _, file := range files {
		raw := readFile(t, file)
		var head result.Envelope
		require.NoError(t, json.Unmarshal(raw, &head))
		name := string(head.Identity.Case.Family)
		if head.Identity.Case.Family == collective.Name {
			name = collective.Of(&head.Identity.Case).Op
		}
		docs[name] = head
	}
	return docs
}

// eventually waits for what must come about, however slow the machine is.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, 10*time.Minute, 50*time.Millisecond, what)
}

// gone waits until Slurm has no job.
func gone(t *testing.T) {
	t.Helper()
	eventually(t, "no job is left", func() bool {
		jobs := slurmtest.Jobs(t)
		return !strings.Contains(jobs, "RUNNING") && !strings.Contains(jobs, "PENDING") && !strings.Contains(jobs, "COMPLETING")
	})
}

// control runs a command of Slurm.
func control(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	require.NoError(t, err, "%s: %s", args, out)
}

// runningJob waits until one job runs and returns its id.
func runningJob(t *testing.T) (id string) {
	t.Helper()
	eventually(t, "a job runs", func() bool {
		for line := range strings.Lines(slurmtest.Jobs(t)) {
			if job, is := strings.CutSuffix(strings.TrimSpace(line), " RUNNING"); is {
				id = job
				return true
			}
		}
		return false
	})
	return id
}

// Cells of two nodes with two ranks each run through a real Slurm. Each of the faults costs
// what docs/reliability.md says, and no job is left.
func TestSlurm(t *testing.T) {
	need.Full(t)
	if !slurmtest.Start(t, 2) {
		return
	}
	for _, taskPer := range []string{"rank", "node"} {
		t.Run("a task per "+taskPer, func(t *testing.T) {
			c := newSlurmCell(t, taskPer, 0)
			for _, cell := range []string{pairEP, pairCollective} {
				code, stderr := c.run(t, cell, "")
				require.Equal(t, cli.ExitOK, code, stderr)
				c.results += "-" // of the next cell
			}
			gone(t)
			c.results = strings.TrimSuffix(c.results, "-")
			docs := c.documents(t)
			require.Len(t, docs, 2)
			for _, d := range docs {
				require.Equal(t, 2, d.Topology.Nodes)
				require.NotNil(t, d.Elapsed)
				require.Positive(t, d.Elapsed.QueueSeconds)
				require.NotNil(t, d.EntrySkew)
				require.True(t, d.EntrySkew.Bound, "nodes have no clock in common")
			}
		})

		t.Run("a rank that is killed, a task per "+taskPer, func(t *testing.T) {
			c := newSlurmCell(t, taskPer, 0)
			code, stderr := c.run(t, pairCollective, "case=*all-reduce*,rank=3,kind=kill,at=record-2")
			require.Equal(t, cli.ExitFailed, code, stderr)
			docs := c.documents(t)
			require.Equal(t, "rank-died: rank 3 signal 9", docs["all_reduce"].Outcome.Reasons[0].String())
			require.Equal(t, result.Success, docs["all_gather"].Outcome.Status, "the next case runs in a new step")
			gone(t)
		})
	}

	t.Run("what is refused", func(t *testing.T) {
		for name, of := range map[string]struct {
			slurm, want string
		}{
			"partition": {"slurm: {partition: secret-name}", "salloc: exit status 1"},
			"account":   {"slurm: {partition: test, account: secret-name}", "salloc: exit status 1"},
		} {
			t.Run(name, func(t *testing.T) {
				c := newSlurmCell(t, "rank", 0)
				c.operator = operatorFile(t, of.slurm)
				code, stderr := c.run(t, pairCollective, "")
				require.Equal(t, cli.ExitEnvironment, code, stderr)
				require.Contains(t, stderr, of.want)
				require.NotContains(t, stderr, "secret-name")
				for _, d := range c.documents(t) {
					require.Equal(t, result.ReasonEnvironment, d.Outcome.Code())
				}
			})
		}
		c := newSlurmCell(t, "rank", 0)
		c.operator = ""
		code, stderr := c.run(t, pairCollective, "")
		require.Equal(t, cli.ExitEnvironment, code)
		wording.Has(t, stderr, "platform pair … slurm.partition, storage.stage … CX_OPERATOR_CONFIG")
		c.operator = "/nowhere/operator.yaml"
		code, stderr = c.run(t, pairCollective, "")
		require.Equal(t, cli.ExitUsage, code)
		require.Contains(t, stderr, operatorVariable+": open /nowhere/operator.yaml")
		gone(t)
	})

	t.Run("scancel from outside", func(t *testing.T) {
		c := newSlurmCell(t, "rank", 0)
		_, ended := c.start(t, pairCollective, "kind=hang,rank=1")
		c.began(t, ended)
		control(t, "scancel", runningJob(t))
		require.Contains(t, <-ended, "exit status 3")
		docs := c.documents(t)
		require.Equal(t, result.ReasonRankDied, docs["all_reduce"].Outcome.Code(), "%s", docs["all_reduce"].Outcome.Reasons)
		require.Equal(t, "environment: ranks do not start", docs["all_gather"].Outcome.Reasons.String())
		gone(t)
	})

	t.Run("a node that drains", func(t *testing.T) {
		c := newSlurmCell(t, "rank", 0)
		_, ended := c.start(t, pairCollective, "kind=slow,rank=1")
		runningJob(t)
		control(t, "scontrol", "update", "nodename=node2", "state=drain", "reason=test")
		defer control(t, "scontrol", "update", "nodename=node2", "state=resume")
		require.Contains(t, <-ended, "<nil>", "the cell keeps its nodes")
		gone(t)
	})

	t.Run("two cells at once", func(t *testing.T) {
		var both sync.WaitGroup
		for range 2 {
			c := newSlurmCell(t, "node", 0)
			_, ended := c.start(t, pairCollective, "")
			both.Go(func() {
				if how := <-ended; !strings.HasPrefix(how, "<nil>") {
					t.Error(how)
				}
			})
		}
		both.Wait()
		gone(t)
	})

	t.Run("SIGTERM", func(t *testing.T) {
		c := newSlurmCell(t, "node", 0)
		p, ended := c.start(t, pairCollective, "kind=hang,rank=1")
		c.began(t, ended)
		require.NoError(t, p.Signal(syscall.SIGTERM))
		require.Contains(t, <-ended, "exit status 1")
		for _, d := range c.documents(t) {
			require.Equal(t, "skipped: cancelled", d.Outcome.Reasons.String())
		}
		gone(t)
	})

	t.Run("SIGKILL, then cleanup", func(t *testing.T) {
		c := newSlurmCell(t, "rank", 0)
		p, ended := c.start(t, pairCollective, "kind=hang,rank=1")
		c.began(t, ended)
		stdout, _ := ran(t, cli.ExitOK, map[string]string{operatorVariable: c.operator}, "cleanup")
		require.NotEmpty(t, runningJob(t), "a shard that lives keeps its job: %s", stdout)
		require.NoError(t, p.Kill())
		<-ended
		require.NotEmpty(t, runningJob(t), "nobody has cancelled it yet")
		ran(t, cli.ExitOK, map[string]string{operatorVariable: c.operator}, "cleanup")
		gone(t)
	})
}

// A rank that hangs costs the budget of its case, which this test waits for, and the next
// case runs.
func TestSlurmRankThatHangs(t *testing.T) {
	need.Full(t)
	if !slurmtest.Start(t, 2) {
		return
	}
	c := newSlurmCell(t, "node", 90)
	code, stderr := c.run(t, pairCollective, "case=*all-reduce*,rank=2,kind=hang,at=open")
	require.Equal(t, cli.ExitFailed, code, stderr)
	docs := c.documents(t)
	require.Equal(t, "timeout: case budget of 90 s; timeout: rank 0-1,3 in host-group, rank 2 after record 0", docs["all_reduce"].Outcome.Reasons.String())
	require.Equal(t, result.Success, docs["all_gather"].Outcome.Status, "%s", docs["all_gather"].Outcome.Reasons)
	stacks, err := filepath.Glob(filepath.Join(c.results, "logs", "*", "group-001", "rank-2.log"))
	require.NoError(t, err)
	require.Len(t, stacks, 1)
	text := readFile(t, stacks[0])
	require.Contains(t, string(text), "goroutine ")
	gone(t)
}
