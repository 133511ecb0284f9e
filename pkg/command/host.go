package command

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// groupGrace is the maximum time for the processes that a program left behind to end.
	groupGrace = 30 * time.Second
	// pipeGrace is the maximum time that a process outside the process group may keep the
	// output of the program open after the program has ended.
	pipeGrace = time.Second
)

// Host starts commands on this host. They die with this process.
type Host struct{}

var _ Starter = Host{}

// Start implements Starter.
func (Host) Start(c Command) (Process, error) {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env = os.Environ()
	if c.Without != nil {
		cmd.Env = slices.DeleteFunc(cmd.Env, func(kv string) bool {
			name, _, _ := strings.Cut(kv, "=")
			return c.Without(name)
		})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		cmd.Env = append(cmd.Env, name+"="+c.Env[name]) // the last entry of a name wins
	}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = c.Stdout, c.Stderr, pipeGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &process{ended: make(chan struct{})}
	started := make(chan error)
	go p.run(cmd, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

type process struct {
	ended  chan struct{}
	status Status // once ended is closed

	mu     sync.Mutex
	pid    int
	reaped bool // the pid may have been reused
}

// run starts the program and waits for its end. It stays on one OS thread, because the
// kernel sends the parent-death signal when the thread that forked ends.
func (p *process) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	p.pid = cmd.Process.Pid
	started <- nil

	// Do not reap the program until its process group is dead, so that the id of the group
	// cannot be reused.
	for {
		err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	_ = unix.Kill(-p.pid, unix.SIGKILL) // processes that the program left behind
	p.reaped = true
	p.mu.Unlock()
	_ = cmd.Wait() // ProcessState has the same information
	for end := time.Now().Add(groupGrace); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if errors.Is(unix.Kill(-p.pid, 0), unix.ESRCH) {
			break
		}
	}
	p.status.Code = cmd.ProcessState.ExitCode()
	if s := cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signaled() {
		p.status = Status{Signal: s.Signal()}
	}
	close(p.ended)
}

func (p *process) Signal(s syscall.Signal) { p.kill(p.pid, s) }

func (p *process) Kill() { p.kill(-p.pid, unix.SIGKILL) }

func (p *process) kill(id int, s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = unix.Kill(id, s)
	}
}

func (p *process) Wait() Status {
	<-p.ended
	return p.status
}

// Installed reports whether a program is on the PATH of this host.
func Installed(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
