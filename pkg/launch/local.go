package launch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/rank"
)

// killGrace is the maximum time for killed processes to end.
const killGrace = 20 * time.Second

// Local starts ranks as processes on this host.
type Local struct {
	// Program and Args start a rank. The rank's own flags follow them.
	Program string
	Args    []string
}

var _ Launcher = Local{}

// Self returns a launcher that starts ranks as the hidden command of this program.
func Self() (Local, error) {
	program, err := os.Executable()
	if err != nil {
		return Local{}, fmt.Errorf("find this program: %w", err)
	}
	return Local{Program: program, Args: []string{"rank"}}, nil
}

// Start implements Launcher. Each rank leads a process group of its own and
// dies with this process.
func (l Local) Start(ctx context.Context, spec Spec) (Group, error) {
	if last := spec.Places[len(spec.Places)-1]; last.Node > 0 {
		return nil, fmt.Errorf("start ranks: %d nodes are asked for, and this host is one", last.Node+1)
	}
	if err := os.MkdirAll(spec.LogDir, 0o700); err != nil {
		return nil, fmt.Errorf("start ranks: %w", err)
	}
	g := &localGroup{exits: make(chan Exit, len(spec.Places)), done: make(chan struct{})}
	var started []chan error
	var running sync.WaitGroup
	for _, p := range spec.Places {
		cmd := exec.Command(l.Program, slices.Concat(l.Args, rankFlags(spec.Store, p))...)
		cmd.Env = environ(os.Environ(), spec.Env)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		start := make(chan error, 1)
		started = append(started, start)
		running.Go(func() { g.run(cmd, p.Rank, LogFile(spec.LogDir, p.Rank), start) })
	}
	go func() {
		running.Wait()
		close(g.exits)
		close(g.done)
	}()
	var err error
	for i, start := range started {
		select {
		case e := <-start:
			if e != nil {
				err = errors.Join(err, fmt.Errorf("start rank %d: %w", spec.Places[i].Rank, e))
			}
		case <-ctx.Done():
			if err := g.abandon(); err != nil {
				return nil, err
			}
			return nil, errors.Join(err, fmt.Errorf("start rank %d: %w", spec.Places[i].Rank, ctx.Err()))
		}
	}
	if err != nil {
		return nil, errors.Join(err, g.Kill())
	}
	return g, nil
}

// LogFile returns the file in dir for the output of a rank.
func LogFile(dir string, rank int) string {
	return filepath.Join(dir, fmt.Sprintf("rank-%d.log", rank))
}

func rankFlags(store string, p rank.Place) []string {
	return []string{
		"--store", store,
		"--rank", strconv.Itoa(p.Rank),
		"--world", strconv.Itoa(p.World),
		"--local-rank", strconv.Itoa(p.LocalRank),
		"--node", strconv.Itoa(p.Node),
	}
}

// environ returns the inherited environment, overridden by extra.
func environ(inherited []string, extra map[string]string) []string {
	env := slices.Clone(inherited)
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		env = append(env, name+"="+extra[name]) // the last entry of a name wins
	}
	return env
}

type localGroup struct {
	exits chan Exit
	done  chan struct{}

	mu        sync.Mutex
	pids      []int // process group leaders not yet reaped
	abandoned bool  // ranks that start from now on are killed
}

// run starts a rank and waits for its end. It stays on one OS thread, because the kernel
// sends the parent-death signal when the thread that forked ends.
func (g *localGroup) run(cmd *exec.Cmd, rank int, log string, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		started <- err
		return
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	pid := cmd.Process.Pid
	g.mu.Lock()
	g.pids = append(g.pids, pid)
	if g.abandoned {
		_ = unix.Kill(-pid, unix.SIGKILL)
	}
	g.mu.Unlock()
	started <- nil

	// Do not reap the leader until its process group is dead, so that the id of the group
	// cannot be reused.
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	g.mu.Lock()
	_ = unix.Kill(-pid, unix.SIGKILL) // processes that the rank left behind
	g.pids = slices.DeleteFunc(g.pids, func(p int) bool { return p == pid })
	g.mu.Unlock()
	_ = cmd.Wait() // ProcessState has the same information
	for end := time.Now().Add(killGrace); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if errors.Is(unix.Kill(-pid, 0), unix.ESRCH) {
			break
		}
	}
	exit := Exit{Rank: rank, Code: cmd.ProcessState.ExitCode()}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		exit.Code, exit.Signal = 0, int(status.Signal())
	}
	g.exits <- exit
}

// Exits implements Group.
func (g *localGroup) Exits() <-chan Exit { return g.exits }

// Dump implements Group: the Go runtime of a rank prints its stacks on SIGQUIT.
func (g *localGroup) Dump() { g.signal(func(pid int) { _ = unix.Kill(pid, unix.SIGQUIT) }) }

// Kill implements Group.
func (g *localGroup) Kill() error {
	g.signal(killGroup)
	select {
	case <-g.done:
		return nil
	case <-time.After(killGrace):
		g.mu.Lock()
		defer g.mu.Unlock()
		return errAlive(g.pids)
	}
}

// abandon kills the ranks that have started and those that start later. It waits only for
// the former, since a stuck file system may delay the latter forever.
func (g *localGroup) abandon() error {
	g.mu.Lock()
	g.abandoned = true
	g.mu.Unlock()
	g.signal(killGroup)
	for end := time.Now().Add(killGrace); ; time.Sleep(time.Millisecond) {
		g.mu.Lock()
		pids := slices.Clone(g.pids)
		g.mu.Unlock()
		switch {
		case len(pids) == 0:
			return nil
		case time.Now().After(end):
			return errAlive(pids)
		}
	}
}

// killGroup kills a rank and the processes that it started.
func killGroup(pid int) { _ = unix.Kill(-pid, unix.SIGKILL) }

func errAlive(pids []int) error { return fmt.Errorf("processes %v do not die", pids) }

func (g *localGroup) signal(send func(pid int)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, pid := range g.pids {
		send(pid)
	}
}
