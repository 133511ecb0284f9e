package shard

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/plan"
)

const (
	stopBudget = 5 // seconds, of a case whose rank stops
	stopReason = "timeout: case budget of 5 s"
)

// stopShard returns a shard of four cases, the second with a short budget. If stop
// says where its rank stops, the second has a group of its own between two others.
func stopShard(t *testing.T, stop string) *Shard {
	t.Helper()
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 4), fakeCase(1, 2, 4), fakeCase(2, 2, 4), fakeCase(3, 2, 4))
	s.Cases[1].BudgetSeconds = stopBudget
	if stop != "" {
		s.Cases[1].Case.Env = map[string]string{stopVariable: stop}
		for i := 2; i < 4; i++ {
			s.Cases[i].Case.Env = map[string]string{"FAKE_CASE": "after"}
		}
	}
	return s
}

// ends returns the status of each case of s and its first reason, in the order of its cell.
func ends(t *testing.T, s *Shard) []string {
	t.Helper()
	docs := byCase(t, s.Results)
	require.Len(t, docs, len(s.Cases))
	var out []string
	for _, q := range s.Cases {
		o := docs[q.Case.CaseID].Outcome
		out = append(out, strings.TrimSpace(o.Status+" "+o.Reasons[:min(1, len(o.Reasons))].String()))
	}
	return out
}

// A rank that is stopped by SIGSTOP costs the case that waits for it and no other.
// While the shard ends its group it costs none: the shard gives it time to close what
// it opened, then kills it. The shards mostly wait, so all of them run at once.
func TestAStoppedRankCostsOneCase(t *testing.T) {
	need.Full(t)
	t.Parallel()
	lost := []string{"success", "failed " + stopReason, "success", "success"}
	type run struct {
		state string
		shard *Shard
		want  []string
		err   chan error
	}
	var runs []run
	for _, state := range []string{"starting", "opening", "measuring", "writing"} {
		runs = append(runs, run{state: state, shard: stopShard(t, state), want: lost})
	}
	closing := stopShard(t, "closing")
	closing.Cases[1].BudgetSeconds = 60 // enough for its start on a busy machine
	runs = append(runs, run{state: "while its group ends", shard: closing, want: []string{"success", "success", "success", "success"}})
	between := stopShard(t, "")
	first, third := between.Cases[0].Case.CaseID, between.Cases[2].Case.CaseID
	pid := 0
	between.Observer = &endObserver{Observer: between.Observer, ended: func(c plan.Case) {
		if c.CaseID == first {
			pid = rankPID(t, between, first)
			stop(t, pid)
		}
	}}
	for i := range runs {
		runs[i].err = make(chan error, 1)
		go func() {
			_, err := runs[i].shard.Do(t.Context())
			runs[i].err <- err
		}()
	}
	t.Run("between cases", func(t *testing.T) {
		_, err := between.Do(t.Context()) // here, since its observer may fail the test
		require.NoError(t, err)
		require.Equal(t, lost, ends(t, between))
		require.NotEqual(t, pid, rankPID(t, between, third), "a fresh group")
		requireNoLitter(t, between)
	})
	for _, r := range runs {
		t.Run(r.state, func(t *testing.T) {
			require.NoError(t, <-r.err)
			require.Equal(t, r.want, ends(t, r.shard))
			requireNoLitter(t, r.shard)
		})
	}
}

// stop stops a process and returns when it stands still.
func stop(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && strings.Contains(string(stat), ") T ")
	}, 10*time.Minute, time.Millisecond)
}

// rankPID returns the process of rank 1 that ran a case.
func rankPID(t *testing.T, s *Shard, caseID string) int {
	t.Helper()
	for _, l := range readSamples(t, s.Results, caseID) {
		if l.Rank == 1 {
			return l.Data.PID
		}
	}
	require.Fail(t, "rank 1 left no record", caseID)
	return 0
}

// endObserver calls ended after each case, before the next one begins.
type endObserver struct {
	Observer
	ended func(plan.Case)
}

func (o *endObserver) Ended(n, total int, e End) {
	o.Observer.Ended(n, total, e)
	o.ended(e.Document.Head().Identity.Case)
}

// hanging is a launcher whose n-th start hangs: the log of a rank is a FIFO.
type hanging struct {
	launch.Local
	n    int
	hung func() // is called when the start is about to hang
}

func (h hanging) Allocate(ctx context.Context) (launch.Allocation, error) {
	a, err := h.Local.Allocate(ctx)
	return &hangingAllocation{a, h}, err
}

type hangingAllocation struct {
	launch.Allocation
	hanging
}

func (h *hangingAllocation) Start(ctx context.Context, spec launch.Spec) (launch.Group, error) {
	if h.n--; h.n == 0 {
		if err := os.MkdirAll(spec.LogDir, 0o700); err != nil {
			return nil, err
		}
		if err := unix.Mkfifo(launch.LogFile(spec.LogDir, 1), 0o600); err != nil {
			return nil, err
		}
		h.hung()
	}
	return h.Allocation.Start(ctx, spec)
}

func TestAStartThatHangsCostsItsCase(t *testing.T) {
	t.Parallel()
	s := stopShard(t, "nowhere")
	s.Launcher = hanging{s.Launcher.(launch.Local), 2, func() {}}
	counts, err := s.Do(t.Context())
	require.NoError(t, err)
	require.Equal(t, Counts{Passed: 3, Failed: 1}, counts)
	require.Equal(t, []string{"success", "failed " + stopReason, "success", "success"}, ends(t, s))
	requireNoLitter(t, s)
}

func TestACancelledStartIsNoErrorOfTheMachine(t *testing.T) {
	t.Parallel()
	s := stopShard(t, "nowhere")
	ctx, cancel := context.WithCancel(t.Context())
	s.Launcher = hanging{s.Launcher.(launch.Local), 2, cancel}
	counts, err := s.Do(ctx)
	require.NoError(t, err)
	require.Equal(t, Counts{Passed: 1, Failed: 3}, counts)
	const cancelled = "failed skipped: cancelled"
	require.Equal(t, []string{"success", cancelled, cancelled, cancelled}, ends(t, s))
	requireNoLitter(t, s)
}
