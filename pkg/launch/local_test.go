package launch

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/command"
)

// host starts ranks as processes of a command on this host.
func host(program ...string) *thisHost {
	return &thisHost{Local: Local{Starter: command.Host{}, Program: program}}
}

// shell starts ranks that are a shell script; its arguments are the rank's flags.
func shell(script string) *thisHost { return host("/bin/sh", "-c", script, "rank") }

func start(t *testing.T, h *thisHost, world int, env map[string]string) (Group, Spec) {
	t.Helper()
	spec := Spec{Places: Places(world, world), Store: t.TempDir(), LogDir: filepath.Join(t.TempDir(), "logs"), Env: env}
	g, err := h.Start(t.Context(), spec)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Kill()) })
	return g, spec
}

func exits(g Group) map[int]Exit {
	all := map[int]Exit{}
	for e := range g.Exits() {
		all[e.Rank] = e
	}
	return all
}

func TestEachRankGetsItsPlaceAndItsLog(t *testing.T) {
	g, spec := start(t, shell(`echo "out $*"; echo err >&2`), 2, nil)
	for r, e := range exits(g) {
		require.True(t, e.OK(), e)
		log, err := os.ReadFile(LogFile(spec.LogDir, r))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("out --store %s --rank %d --world 2 --local-rank %d --node 0\nerr\n", spec.Store, r, r), string(log))
	}
}

func TestOneHostIsOneNode(t *testing.T) {
	_, err := shell("exit 0").Start(t.Context(), Spec{Places: Places(4, 2), Store: t.TempDir(), LogDir: t.TempDir()})
	require.ErrorContains(t, err, "the cell needs 2 nodes")
}

func TestExitsTellCodeAndSignal(t *testing.T) {
	g, _ := start(t, shell(`case "$*" in *"--rank 0"*) exit 7;; *) kill -9 $$;; esac`), 2, nil)
	all := exits(g)
	require.Equal(t, "rank 0 exit 7", all[0].String())
	require.Equal(t, "rank 1 signal 9", all[1].String())
	require.False(t, all[0].OK() || all[1].OK())
}

func TestEnvironmentIsTheInheritedOneAndTheCases(t *testing.T) {
	t.Setenv("CX_TEST_INHERITED", "a")
	t.Setenv("CX_TEST_BOTH", "b")
	g, spec := start(t, shell(`echo $CX_TEST_INHERITED $CX_TEST_BOTH $CX_TEST_CASE`), 1,
		map[string]string{"CX_TEST_BOTH": "case", "CX_TEST_CASE": "c"})
	exits(g)
	log, err := os.ReadFile(LogFile(spec.LogDir, 0))
	require.NoError(t, err)
	require.Equal(t, "a case c\n", string(log))

	// The next group does not see it.
	g, spec = start(t, shell(`echo $CX_TEST_INHERITED $CX_TEST_BOTH $CX_TEST_CASE`), 1, nil)
	exits(g)
	log, err = os.ReadFile(LogFile(spec.LogDir, 0))
	require.NoError(t, err)
	require.Equal(t, "a b\n", string(log))
}

func TestNothingStartsWhereOneRankCannot(t *testing.T) {
	spec := Spec{Places: Places(2, 2), Store: t.TempDir(), LogDir: t.TempDir()}
	require.NoError(t, os.Mkdir(LogFile(spec.LogDir, 1), 0o700)) // its log cannot be opened
	_, err := shell("sleep 1000").Start(t.Context(), spec)
	require.ErrorContains(t, err, "start rank 1")
	// Rank 0 has started, and has the store on its command line as long as it lives.
	require.Eventually(t, func() bool {
		processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
		require.NoError(t, err)
		return !slices.ContainsFunc(processes, func(name string) bool {
			line, _ := os.ReadFile(name) // it may have ended
			return strings.Contains(string(line), spec.Store)
		})
	}, 10*time.Minute, time.Millisecond)
}

// A log that is a FIFO stands for any file system that keeps a rank from starting.
func TestAStartThatHangsEndsWithItsContext(t *testing.T) {
	spec := Spec{Places: Places(2, 2), Store: t.TempDir(), LogDir: t.TempDir()}
	fifo := LogFile(spec.LogDir, 1)
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	pids := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := make(chan error, 1)
	go func() {
		_, err := shell("echo $$ > "+pids+"/$4; sleep 1000").Start(ctx, spec) // $4 is the rank
		started <- err
	}()
	pid := waitFile(t, pids+"/0")
	cancel()
	err := <-started
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "start rank ") // 0 too may have run before its start was reported
	requireGone(t, pid)

	// The rank that starts after all is killed: its log closes.
	log, err := os.Open(fifo)
	require.NoError(t, err)
	defer log.Close()
	require.NoError(t, log.SetReadDeadline(time.Now().Add(10*time.Minute)))
	_, err = io.Copy(io.Discard, log)
	require.NoError(t, err)
}

// stuck starts processes that stay, whatever is sent to them, until they are let go.
type stuck struct{ letGo chan struct{} }

func (s stuck) Start(command.Command) (command.Process, error) { return s, nil }
func (stuck) Signal(syscall.Signal)                            {}
func (stuck) Kill()                                            {}
func (s stuck) Wait() command.Status                           { <-s.letGo; return command.Status{Code: 1} }

func TestKillNamesTheRanksThatStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stuck{make(chan struct{})}
		h := &thisHost{Local: Local{Starter: s}}
		g, err := h.Start(t.Context(), Spec{Places: Places(2, 2), LogDir: t.TempDir()})
		require.NoError(t, err)
		require.EqualError(t, g.Kill(), "ranks [0 1] or their child processes are still alive 20s after they were killed")
		close(s.letGo)
		require.NoError(t, g.Kill())
		require.Len(t, exits(g), 2)
	})
}

func TestKillEndsWhatARankStarted(t *testing.T) {
	pids := t.TempDir()
	// A deaf rank with a deaf child, both in the rank's group.
	g, _ := start(t, shell(`trap "" TERM QUIT INT; sleep 1000 & echo $! > `+pids+`/child; echo $$ > `+pids+`/leader; wait`), 1, nil)
	child, leader := waitFile(t, pids+"/child"), waitFile(t, pids+"/leader")
	g.Dump() // deaf
	require.NoError(t, g.Kill())
	require.Equal(t, "rank 0 signal 9", exits(g)[0].String())
	requireGone(t, child)
	requireGone(t, leader)
}

func TestARankThatEndsLeavesNothingBehind(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "child")
	g, _ := start(t, shell(`sleep 1000 & echo $! > `+pid), 1, nil)
	require.True(t, exits(g)[0].OK())
	requireGone(t, waitFile(t, pid))
}

func TestDumpPrintsStacks(t *testing.T) {
	g, spec := start(t, host(os.Args[0], "-test.run=^TestHelperSleep$", "sleep"), 1, nil)
	for { // until the runtime of the rank handles signals
		if log, _ := os.ReadFile(LogFile(spec.LogDir, 0)); strings.Contains(string(log), "sleeping") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	g.Dump()
	require.False(t, exits(g)[0].OK())
	log, err := os.ReadFile(LogFile(spec.LogDir, 0))
	require.NoError(t, err)
	require.Contains(t, string(log), "TestHelperSleep(")
}

func TestRanksDieWithTheirLauncher(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperLaunch$", dir)
	require.NoError(t, cmd.Start())
	pid := waitFile(t, dir+"/pid")
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	requireGone(t, pid)
}

// TestHelperSleep is a rank of TestDumpPrintsStacks, no test.
func TestHelperSleep(t *testing.T) {
	if len(os.Args) < 3 || os.Args[2] != "sleep" {
		return
	}
	fmt.Println("sleeping")
	time.Sleep(time.Hour)
}

// TestHelperLaunch is the launcher of TestRanksDieWithTheirLauncher, no test.
func TestHelperLaunch(t *testing.T) {
	if len(os.Args) != 3 || !filepath.IsAbs(os.Args[2]) {
		return
	}
	dir := os.Args[2]
	_, err := shell(`echo $$ > `+dir+`/pid; exec sleep 1000`).Start(context.Background(),
		Spec{Places: Places(1, 1), Store: dir, LogDir: dir})
	require.NoError(t, err)
	time.Sleep(time.Hour)
}

func waitFile(t *testing.T, path string) string {
	t.Helper()
	var text string
	require.Eventually(t, func() bool {
		raw, err := os.ReadFile(path)
		text = strings.TrimSpace(string(raw))
		return err == nil && text != ""
	}, 10*time.Minute, time.Millisecond)
	return text
}

// requireGone waits until the process is gone or a zombie that someone else has to reap.
func requireGone(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(pid))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		if unix.Kill(n, 0) != nil {
			return true
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n))
		return err != nil || strings.Contains(string(stat), ") Z ")
	}, 10*time.Minute, time.Millisecond, "process %d lives", n)
}
