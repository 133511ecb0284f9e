package run

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// A sweep whose output goes to a reader that leaves ends like one that is
// interrupted: every case has a document, and all are folded.
func TestASweepWhoseReaderLeaves(t *testing.T) {
	need.Full(t)
	out := filepath.Join(t.TempDir(), "out")
	read, write, err := os.Pipe()
	require.NoError(t, err)
	cmd := program("sweep", "--definitions", fewSamples(t), "--out", out)
	cmd.Stdout, cmd.Stderr = write, write
	require.NoError(t, cmd.Start())
	require.NoError(t, write.Close())
	_, err = bufio.NewReaderSize(read, 16).ReadString('\n') // as head -1
	require.NoError(t, err)
	require.NoError(t, read.Close())
	require.Error(t, cmd.Wait())
	require.Equal(t, cli.ExitFailed, cmd.ProcessState.ExitCode(), cmd.ProcessState)
	docs := sweptDocuments(t, out)
	require.Len(t, docs, plannedCases(t, out))
	skipped := 0
	for id, d := range docs {
		if o := d.Head().Outcome; o.Status != result.Success {
			require.Equal(t, resulttest.Reasons("skipped: cancelled"), o.Reasons, id)
			skipped++
		}
	}
	t.Logf("%d cases skipped", skipped)
}

func TestAggregateToAFullDevice(t *testing.T) {
	need.Full(t)
	out := filepath.Join(t.TempDir(), "out")
	ran(t, cli.ExitOK, nil, "sweep", "--definitions", fewSamples(t), "--out", out, "--ep", "2")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	cells := filepath.Join(out, cellsDir)
	for _, args := range [][]string{
		{"aggregate", "--in", cells, "-o", filepath.Join(t.TempDir(), "run.ndjson")},
		{"summarize", "--in", cells},
		{"env"},
	} {
		var errs bytes.Buffer
		s := cli.Streams{In: strings.NewReader(""), Out: full, Err: &errs, Getenv: func(string) string { return "" }}
		require.Equal(t, cli.ExitFailed, Main(t.Context(), s, args), args)
		require.Contains(t, errs.String(), "no space left on device", args)
	}
}

// The sweep's own last step fails on a full disk too. What the cells said comes
// first.
func TestASweepOnAFullDiskShowsTheErrorsOfItsCells(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	cells := []plan.Cell{{ID: "a"}, {ID: "b"}}
	require.NoError(t, os.MkdirAll(filepath.Join(out, cellsDir), 0o755))
	for _, c := range cells { // no directory can be made there, and no fold
		require.NoError(t, os.WriteFile(filepath.Join(out, cellsDir, c.ID), nil, 0o644))
	}
	require.NoError(t, os.Mkdir(filepath.Join(out, foldFile), 0o755))
	var errs bytes.Buffer
	s := cli.Streams{Out: &errs, Err: &errs, Getenv: func(string) string { return "" }}
	run, err := newRun(s, "local-1")
	require.NoError(t, err)
	err = sweep(t.Context(), s, cellRun{matrix: &plan.Matrix{Include: cells}, run: run}, out)
	require.ErrorContains(t, err, "cell a: environment")
	require.ErrorContains(t, err, "cell b: environment")
	require.ErrorContains(t, err, foldFile)
}

func TestRankRefusesWhatCannotBe(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--store", t.TempDir(), "--rank", "2", "--world", "2"}, cli.ExitUsage, "rank 2 of 2"},
		{[]string{"--store", t.TempDir(), "--rank", "-1"}, cli.ExitUsage, "rank -1 of 1"},
		{[]string{"--store", t.TempDir(), "--world", "0"}, cli.ExitUsage, "rank 0 of 0"},
		{[]string{"--store", t.TempDir(), "--local-rank", "7"}, cli.ExitUsage, "local rank 7"},
		{[]string{"--store", missing}, cli.ExitEnvironment, "no such directory"},
		{[]string{"--store", "/dev/null"}, cli.ExitEnvironment, "no such directory"},
	} {
		cmd := program(append([]string{"rank"}, tt.args...)...)
		said, _ := cmd.CombinedOutput()
		require.Equal(t, tt.code, cmd.ProcessState.ExitCode(), string(said))
		require.Contains(t, string(said), tt.want)
	}
	require.NoDirExists(t, missing)
}

// Where memory runs out, the kernel ends ranks first and the shard last.
func TestRanksAreTheFirstThatTheKernelEnds(t *testing.T) {
	runtime.LockOSThread() // the kernel sends the signal when the thread that started the rank ends
	defer runtime.UnlockOSThread()
	cmd := program("rank", "--store", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	score := func(pid string) int {
		raw := readFile(t, "/proc/"+pid+"/oom_score_adj")
		n, err := strconv.Atoi(strings.TrimSpace(string(raw)))
		require.NoError(t, err)
		return n
	}
	require.Less(t, score("self"), 1000)
	require.Eventually(t, func() bool { return score(fmt.Sprint(cmd.Process.Pid)) == 1000 }, 10*time.Minute, time.Millisecond)
	require.NoError(t, unix.Kill(cmd.Process.Pid, unix.SIGKILL))
	_ = cmd.Wait()
}

// A second signal ends a command that does not look at the first: this one is
// stuck in a write that nobody reads.
func TestASecondSignalEndsAnyCommand(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	_, err = unix.FcntlInt(write.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize())
	require.NoError(t, err)
	cmd := program("bench", "--help") // longer than the pipe
	cmd.Stdout = write
	require.NoError(t, cmd.Start())
	require.NoError(t, write.Close())
	_, err = read.Read(make([]byte, 1))
	require.NoError(t, err, "it has begun")
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	for range 3000 { // until the first one is noted and the second one strikes
		select {
		case <-ended:
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			require.True(t, status.Signaled() && status.Signal() == syscall.SIGTERM, cmd.ProcessState)
			return
		case <-time.After(10 * time.Millisecond):
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	require.NoError(t, cmd.Process.Kill())
	require.Fail(t, "no signal ends it")
}
