package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/slurmtest"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// logsOf are the logs of a step, and its exits.
func logsOf(t *testing.T, world, perNode int, taskPerNode bool) (*stepLogs, chan Exit) {
	t.Helper()
	c := make(chan Exit, world)
	return newStepLogs(Spec{Places: Places(world, perNode), LogDir: t.TempDir()}, taskPerNode, c), c
}

func TestHowTasksEnded(t *testing.T) {
	l, c := logsOf(t, 6, 4, false)
	_, err := l.stream().Write([]byte(`srun: error: node2: task 5: Exited with exit code 3
srun: launch/slurm: _step_signal: Terminating StepId=1.0
srun: error: node1: tasks 0,2-3: Killed
srun: error: node1: task 1: Segmentation fault (core dumped)
srun: error: node2: task 5: Killed
srun: error: node2: task 99: Killed
`))
	require.NoError(t, err)
	require.Len(t, c, 5, "before srun ends")
	require.NoError(t, l.close(command.Status{Code: 143}, false))
	close(c)
	var ended []Exit
	for e := range c {
		ended = append(ended, e)
	}
	require.Equal(t, []Exit{
		{Rank: 5, Code: 3}, {Rank: 0, Signal: 9}, {Rank: 2, Signal: 9}, {Rank: 3, Signal: 9}, {Rank: 1, Signal: 11}, {Rank: 4},
	}, ended)
}

// The ranks of a step that was never created did not end well.
func TestAStepThatIsNotCreated(t *testing.T) {
	l, c := logsOf(t, 2, 2, false)
	_, err := l.stream().Write([]byte("srun: error: Slurm job 2 has expired\n"))
	require.NoError(t, err)
	require.NoError(t, l.close(command.Status{Code: 1}, false))
	require.Equal(t, Exit{Rank: 0, Code: 1}, <-c)
	require.Equal(t, Exit{Rank: 1, Code: 1}, <-c)
}

// srun need not name all ranks of a step that was killed. None of them ended well.
func TestAStepThatIsKilled(t *testing.T) {
	l, c := logsOf(t, 2, 1, false)
	_, err := l.stream().Write([]byte("srun: error: node1: task 0: Terminated\n"))
	require.NoError(t, err)
	require.NoError(t, l.close(command.Status{Code: 143}, true))
	require.Equal(t, Exit{Rank: 0, Signal: 15}, <-c)
	require.Equal(t, Exit{Rank: 1, Signal: 9}, <-c)
}

// Each rank's lines go to its log, however srun cuts them, and srun's own apart.
func TestLogsOfAStep(t *testing.T) {
	l, _ := logsOf(t, 11, 8, false)
	out, errs := l.stream(), l.stream()
	for _, w := range []struct {
		to   io.Writer
		text string
	}{{out, " 0: fir"}, {errs, "srun: err"}, {out, "st\n10: tenth\n"}, {errs, "or: node2\n99: nobody\n 0: a: b\n"}} {
		_, err := w.to.Write([]byte(w.text))
		require.NoError(t, err)
	}
	require.NoError(t, l.close(command.Status{}, false))
	for file, want := range map[string]string{
		LogFile(l.dir, 0): "first\na: b\n", LogFile(l.dir, 10): "tenth\n", filepath.Join(l.dir, "srun.log"): "srun: error: node2\n99: nobody\n",
	} {
		got, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

func TestPlaceOfATask(t *testing.T) {
	env := map[string]string{"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_NODEID": "1"}
	p, err := SlurmPlace(func(name string) string { return env[name] })
	require.NoError(t, err)
	require.Equal(t, rank.Place{Rank: 5, World: 8, LocalRank: 1, Node: 1}, p)
	_, err = SlurmPlace(func(string) string { return "" })
	require.EqualError(t, err, `SLURM_PROCID is "" and SLURM_NODEID "": start this rank with srun`)
}

// Values reach srun as arguments of their own, in an order in which the program is last.
func TestStepInAContainer(t *testing.T) {
	inheritNothing(t)
	scratch, err := newScratch(t.Context(), t.TempDir(), nil)
	require.NoError(t, err)
	a := &slurmAllocation{machines: machines{scratch: scratch}, id: "7", squash: "example/image:v1"}
	a.Cell.Launch.Srun = []string{"--container-writable"}
	require.Equal(t, []string{
		"srun", "--jobid=7", "--nodes=2", "--ntasks=3", "--ntasks-per-node=2", "--mpi=none", "--input=none", "--label", "--export=ALL",
		"--job-name=" + filepath.Base(a.Dir()), "--distribution=block", "--cpu-bind=none", "--kill-on-bad-exit=1", "--container-image=example/image:v1", "--container-mounts=" + a.Dir() + ":" + a.Dir(), "--no-container-mount-home",
		"--container-writable", a.Dir() + "/cxrun", "rank", "--slurm", "--store", "/store",
	}, a.srun(Spec{Places: Places(3, 2), Store: "/store"}))
}

// onSlurm is a launcher whose program is a shell script.
func onSlurm(t *testing.T, script string, change func(*Slurm)) Slurm {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	// A node that reads its order, and writes its nonce back, is ready.
	const prepare = `[ "$1" != prepare ] || exec cp "$3/prepare.json" "$3/prepare-$5-$SLURM_NODEID.json"`
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"+prepare+"\n"+script+"\n"), 0o700))
	s := Slurm{Starter: command.Host{}, Program: program, Scratch: t.TempDir()}
	s.Cell = plan.Cell{ID: "test", Nodes: 2, GPUsPerNode: 2, Minutes: 5, Vendor: vocab.Host}
	s.Operator.Slurm.Partition = "test"
	change(&s)
	return s
}

func allocate(t *testing.T, s Slurm) Allocation {
	t.Helper()
	a, err := s.Allocate(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Release() })
	return a
}

func stepOf(t *testing.T, a Allocation, ranks, perNode int) (Group, Spec) {
	t.Helper()
	spec := Spec{Places: Places(ranks, perNode), Store: filepath.Join(a.Dir(), "store"), LogDir: t.TempDir(), Env: map[string]string{"CX_TEST": "a b;$(c)"}}
	g, err := a.Start(t.Context(), spec)
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Kill() })
	return g, spec
}

func TestSlurm(t *testing.T) {
	if !slurmtest.Start(t, 2) {
		return
	}
	plain := func(*Slurm) {}

	t.Run("each rank has its place and its log", func(t *testing.T) {
		a := allocate(t, onSlurm(t, `echo "$SLURM_PROCID $SLURM_NTASKS $SLURM_LOCALID $SLURM_NODEID $(hostname) $CX_TEST $*" >&2`, plain))
		g, spec := stepOf(t, a, 4, 2)
		var ended []Exit
		for e := range g.Exits() {
			ended = append(ended, e)
		}
		require.Len(t, ended, 4)
		log, err := os.ReadFile(LogFile(spec.LogDir, 3))
		require.NoError(t, err)
		require.Equal(t, "3 4 1 1 node2 a b;$(c) rank --slurm --store "+spec.Store+"\n", string(log))
		require.NoError(t, a.Release())
		require.Eventually(t, func() bool { return !strings.Contains(slurmtest.Jobs(t), "RUNNING") }, 10*time.Minute, 50*time.Millisecond)
		require.NoDirExists(t, a.Dir())
	})

	t.Run("a rank that fails ends the others", func(t *testing.T) {
		a := allocate(t, onSlurm(t, `[ "$SLURM_PROCID" = 2 ] && exit 3; sleep 1000`, plain))
		g, _ := stepOf(t, a, 4, 2)
		all := exits(g)
		require.Equal(t, Exit{Rank: 2, Code: 3}, all[2])
		require.Len(t, all, 4)
		next, _ := stepOf(t, a, 4, 2)
		require.Len(t, exits(next), 4, "the allocation outlives its steps")
	})

	t.Run("kill", func(t *testing.T) {
		a := allocate(t, onSlurm(t, `trap '' TERM; touch "$(dirname "$0")/up-$SLURM_PROCID"; sleep 1000; sleep 1000`, plain))
		g, _ := stepOf(t, a, 2, 1)
		for _, r := range []string{"0", "1"} {
			require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(a.Dir(), "up-"+r)); return err == nil }, 10*time.Minute, 10*time.Millisecond)
		}
		require.NoError(t, g.Kill())
		for _, e := range exits(g) {
			require.False(t, e.OK())
		}
	})

	t.Run("refused", func(t *testing.T) {
		_, err := onSlurm(t, "", func(s *Slurm) { s.Operator.Slurm.Partition = "secret" }).Allocate(t.Context())
		require.ErrorContains(t, err, "allocate nodes: salloc: exit status 1 (")
		require.NotContains(t, err.Error(), "secret")
		require.NotContains(t, slurmtest.Jobs(t), "PENDING")
	})

	t.Run("a grant that does not come in time", func(t *testing.T) {
		s := onSlurm(t, "", func(s *Slurm) { s.Cell.Nodes, s.Queue = 3, time.Second }) // of two: it waits for ever
		_, err := s.Allocate(t.Context())
		require.EqualError(t, err, "allocate nodes: no grant within 1s, so the request was withdrawn; launch.queue_minutes of the platform is the limit")
		require.NotContains(t, slurmtest.Jobs(t), "PENDING")
	})

	t.Run("a wait that is given up leaves no job", func(t *testing.T) {
		s := onSlurm(t, "", func(s *Slurm) { s.Cell.Nodes = 3 }) // of two: it waits for ever
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := s.Allocate(ctx)
			failed <- err
		}()
		var job string
		require.Eventually(t, func() bool {
			recorded, _ := filepath.Glob(filepath.Join(s.Scratch, "*", jobFile))
			if len(recorded) == 0 {
				return false
			}
			id, err := os.ReadFile(recorded[0])
			job = string(id)
			return err == nil && job != ""
		}, 10*time.Minute, 50*time.Millisecond, "the job is recorded while it waits")
		require.Contains(t, slurmtest.Jobs(t), job+" PENDING")
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		require.NotContains(t, slurmtest.Jobs(t), "PENDING")
		left, err := os.ReadDir(s.Scratch)
		require.NoError(t, err)
		require.Empty(t, left)
	})

	t.Run("the job of a shard that was killed is cancelled by the next", func(t *testing.T) {
		s := onSlurm(t, "", func(s *Slurm) { s.Cell.Nodes = 1 })
		dead, err := s.Allocate(t.Context())
		require.NoError(t, err)
		a := dead.(*slurmAllocation)
		require.NoError(t, a.scratch.Release()) // as the kernel does for a dead process
		next := allocate(t, s)
		require.NoDirExists(t, dead.Dir())
		require.DirExists(t, next.Dir())
		require.Eventually(t, func() bool { return !strings.Contains(slurmtest.Jobs(t), a.id+" RUNNING") }, 10*time.Minute, 50*time.Millisecond)
		require.NoError(t, next.Release())
	})

	t.Run("inside an allocation of somebody else", func(t *testing.T) {
		outer := allocate(t, onSlurm(t, "", plain)).(*slurmAllocation)
		inner := allocate(t, onSlurm(t, "exit 0", func(s *Slurm) { s.SlurmJob = outer.id }))
		g, _ := stepOf(t, inner, 2, 1)
		for _, e := range exits(g) {
			require.True(t, e.OK())
		}
		require.NoError(t, inner.Release())
		require.Contains(t, slurmtest.Jobs(t), outer.id+" RUNNING")
	})

	t.Run("interrupted while nodes prepare, inside an allocation of somebody else", func(t *testing.T) {
		outer := allocate(t, onSlurm(t, "", func(s *Slurm) { s.Cell.Nodes = 1 })).(*slurmAllocation)
		s := onSlurm(t, "", func(s *Slurm) { s.Cell.Nodes, s.SlurmJob = 1, outer.id })
		pid := filepath.Join(t.TempDir(), "pid")
		require.NoError(t, os.WriteFile(s.Program, []byte("#!/bin/sh\necho $$ >"+pid+"; exec sleep 1000\n"), 0o700))
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := s.Allocate(ctx)
			failed <- err
		}()
		running := waitFile(t, pid)
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		requireGone(t, running)
		require.Contains(t, slurmtest.Jobs(t), outer.id+" RUNNING")
	})

	for name, env := range map[string]map[string]string{
		"no variables for ranks":   {"SLURM_EXPORT_ENV": "NONE", "SALLOC_EXPORT": "NONE"},
		"two amounts of memory":    {"SLURM_MEM_PER_CPU": "1", "SLURM_MEM_PER_NODE": "2"},
		"fewer GPUs":               {"SLURM_GPUS_PER_NODE": "1"},
		"other nodes":              {"SLURM_NODELIST": "node9"},
		"nodes for one step":       {"SLURM_EXCLUSIVE": "1"},
		"a queue of somebody else": {"SQUEUE_USERS": "nobody"},
	} {
		t.Run("Slurm's variables say "+name, func(t *testing.T) {
			for name, value := range env {
				t.Setenv(name, value)
			}
			a := allocate(t, onSlurm(t, `echo "$SLURM_PROCID of $SLURM_NTASKS on $(hostname): $CX_TEST" >&2`, plain))
			g, spec := stepOf(t, a, 4, 2)
			require.Len(t, exits(g), 4)
			log, err := os.ReadFile(LogFile(spec.LogDir, 3))
			require.NoError(t, err)
			require.Equal(t, "3 of 4 on node2: a b;$(c)\n", string(log))
			require.NoError(t, a.Release())
		})
	}

	t.Run("in a job that does not exist", func(t *testing.T) {
		var told []string
		a := allocate(t, onSlurm(t, "exit 0", func(s *Slurm) {
			s.SlurmJob, s.SlurmStep = "4242", "0"
			s.Tell = func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
		}))
		g, _ := stepOf(t, a, 4, 2)
		require.Len(t, exits(g), 4)
		require.Len(t, told, 1)
		require.Contains(t, told[0], "SLURM_JOB_ID=4242 is ignored and another job requested: job 4242 no longer runs: ")
		require.NoError(t, a.Release())
	})

	t.Run("in a job that Slurm cannot be asked about", func(t *testing.T) {
		s := onSlurm(t, "exit 0", func(s *Slurm) { s.SlurmJob = "1" })
		t.Setenv("SLURM_CONF", filepath.Join(t.TempDir(), "missing"))
		_, err := s.Allocate(t.Context())
		require.ErrorContains(t, err, "ask for the state of job 1: exit status 1 (")
		require.ErrorContains(t, err, "; try again, or unset SLURM_JOB_ID to request another job")
		left, err := os.ReadDir(s.Scratch)
		require.NoError(t, err)
		require.Empty(t, left)
	})

	t.Run("in a step that has all of its job", func(t *testing.T) {
		outer := allocate(t, onSlurm(t, `[ "$SLURM_PROCID" != 0 ] || touch "$(dirname "$0")/up"; exec sleep 1000`, plain)).(*slurmAllocation)
		stepOf(t, outer, 4, 2)
		require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(outer.Dir(), "up")); return err == nil }, 10*time.Minute, 10*time.Millisecond)
		var told []string
		inner := allocate(t, onSlurm(t, "exit 0", func(s *Slurm) {
			s.SlurmJob, s.SlurmStep = outer.id, "0"
			s.Tell = func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
		}))
		g, _ := stepOf(t, inner, 4, 2)
		require.Len(t, exits(g), 4)
		require.Equal(t, []string{"this program is a step of job " + outer.id + ", so its ranks share the resources of that job with it (srun --overlap)"}, told)
	})

	t.Run("a step that is not started", func(t *testing.T) {
		outer := allocate(t, onSlurm(t, "", func(s *Slurm) { s.Cell.Nodes = 1 })).(*slurmAllocation)
		_, err := onSlurm(t, "", func(s *Slurm) { s.SlurmJob = outer.id }).Allocate(t.Context())
		unready := &Unready{}
		require.ErrorAs(t, err, &unready)
		require.Equal(t, "srun started no step", unready.Reason)
		require.ErrorContains(t, err, "srun: exit status 1 (srun: error: Only allocated 1 nodes asked for 2)")
		require.NotContains(t, err.Error(), "storage.stage")
	})

	t.Run("dump, in a step of the job", func(t *testing.T) {
		const script = `trap 'echo stacks >&2; exit 0' QUIT; touch "$(dirname "$0")/up"; while :; do sleep 0.1; done`
		up := func(a Allocation) {
			require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(a.Dir(), "up")); return err == nil }, 10*time.Minute, 10*time.Millisecond)
		}
		outer := allocate(t, onSlurm(t, script, func(s *Slurm) { s.Cell.Nodes = 1 })).(*slurmAllocation)
		around, aroundSpec := stepOf(t, outer, 1, 1)
		up(outer)
		a := allocate(t, onSlurm(t, script, func(s *Slurm) { s.Cell.Nodes, s.SlurmJob, s.SlurmStep = 1, outer.id, "0" }))
		g, spec := stepOf(t, a, 1, 1)
		up(a)
		g.Dump()
		require.Equal(t, map[int]Exit{0: {}}, exits(g))
		require.Contains(t, logOf(t, spec, 0), "stacks")
		require.NoError(t, around.Kill())
		require.False(t, exits(around)[0].OK(), "the step around it ran on")
		log, err := os.ReadFile(LogFile(aroundSpec.LogDir, 0))
		require.True(t, err == nil || errors.Is(err, fs.ErrNotExist), "%v: a rank that writes nothing has no log", err)
		require.NotContains(t, string(log), "stacks")
	})
}
