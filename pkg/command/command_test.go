package command_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/command"
)

func shell(script string) command.Command {
	return command.Command{Args: []string{"/bin/sh", "-c", script}}
}

func ExampleOutput() {
	out, err := command.Output(context.Background(), command.Host{}, command.Command{Args: []string{"echo", "$HOME; no shell reads this"}})
	fmt.Printf("%s%v\n", out, err)
	_, err = command.Output(context.Background(), command.Host{}, command.Command{Args: []string{"sh", "-c", "echo sh: disk is full >&2; exit 4"}})
	fmt.Println(err)
	// Output:
	// $HOME; no shell reads this
	// <nil>
	// exit status 4 (sh: disk is full)
}

func TestOutput(t *testing.T) {
	c := shell(`cat; echo "$CX_TEST"; echo err >&2`) // cat ends at once: nothing is on standard input
	c.Env = map[string]string{"CX_TEST": "a b;$(c)"}
	out, err := command.Output(t.Context(), command.Host{}, c)
	require.NoError(t, err)
	require.Equal(t, "a b;$(c)\n", string(out))
}

func TestOutputOfAProgramThatFails(t *testing.T) {
	for script, want := range map[string]string{
		"exit 3":                                "exit status 3",
		"echo first >&2; echo more >&2; exit 2": "exit status 2 (first)",
		"kill -9 $$":                            "signal: killed",
	} {
		_, err := command.Output(t.Context(), command.Host{}, shell(script))
		failed := &command.Error{}
		require.ErrorAs(t, err, &failed)
		require.EqualError(t, err, want)
	}
	_, err := command.Output(t.Context(), command.Host{}, command.Command{Args: []string{filepath.Join(t.TempDir(), "missing")}})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestOutputEndsWithItsContext(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := command.Output(ctx, command.Host{}, shell("sleep 1000 & echo > "+ready+"; wait"))
		ended <- err
	}()
	require.Eventually(t, func() bool { _, err := os.Stat(ready); return err == nil }, 10*time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	_, err := command.Output(ctx, command.Host{}, shell("exit 0"))
	require.ErrorIs(t, err, context.Canceled)
}

func TestGrace(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	ctx, cancel := context.WithCancel(t.Context())
	c := shell("trap 'echo over; exit 3' TERM; sleep 1000 & echo > " + ready + "; wait")
	c.Grace = 10 * time.Minute
	var said bytes.Buffer
	c.Stdout = &said
	ended := make(chan error, 1)
	go func() { ended <- command.Run(ctx, command.Host{}, c) }()
	require.Eventually(t, func() bool { _, err := os.Stat(ready); return err == nil }, 10*time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Equal(t, "over\n", said.String())
}

// stuck is a program that nothing ends until it is let go, such as one of root's under sudo.
type stuck struct {
	letGo chan struct{}

	command.Command
}

func (s *stuck) Start(c command.Command) (command.Process, error) { s.Command = c; return s, nil }
func (*stuck) Signal(syscall.Signal)                              {}
func (*stuck) Kill()                                              {}
func (s *stuck) Wait() command.Status                             { <-s.letGo; return command.Status{} }

// What a program that cannot be killed writes later reaches nobody.
func TestRunDoesNotWaitForAProgramThatCannotBeKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := &stuck{letGo: make(chan struct{})}
		defer close(s.letGo)
		var said bytes.Buffer
		require.ErrorIs(t, command.Run(ctx, s, command.Command{Stdout: &said, Stderr: &said}), context.DeadlineExceeded)
		_, err := s.Stdout.Write([]byte("late"))
		require.NoError(t, err)
		require.Empty(t, said.String())
	})
}

// A process that a program leaves behind keeps its output open. It is killed if it is in
// the program's group; if it is not, it lives on, and nobody waits for it.
func TestOutputDoesNotWaitForWhatAProgramLeaves(t *testing.T) {
	for name, script := range map[string]string{
		"in its group":     "sleep 1000 & echo $!",
		"in another group": "setsid sleep 1000 & echo $!",
	} {
		t.Run(name, func(t *testing.T) {
			out, err := command.Output(t.Context(), command.Host{}, shell(script))
			require.NoError(t, err)
			pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
			require.NoError(t, err)
			_ = syscall.Kill(pid, syscall.SIGKILL) // it is gone already if it was in the group
		})
	}
}

func TestSignalReachesTheProgramAlone(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	p, err := command.Host{}.Start(shell("trap 'exit 5' USR1; sleep 1000 & echo > " + ready + "; wait"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { _, err := os.Stat(ready); return err == nil }, 10*time.Minute, time.Millisecond)
	p.Signal(syscall.SIGUSR1)
	status := p.Wait()
	require.Equal(t, command.Status{Code: 5}, status)
	require.False(t, status.OK())
	p.Signal(syscall.SIGUSR1) // after its end it reaches nobody
	p.Kill()
}
