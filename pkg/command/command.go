// Package command starts programs, each with its arguments as an array and in a
// process group of its own. Launchers and probes start what they need through a
// Starter, so that a test can stand in for a scheduler or a container runtime.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Command is a program to start. Its standard input is empty.
type Command struct {
	Args []string // the program and its arguments
	// Without, if not nil, selects the variables of this process that the program does not get.
	Without func(name string) bool
	// Env is added to the environment of this process and overrides it.
	Env            map[string]string
	Stdout, Stderr io.Writer // nil discards
	// Grace is how long Run lets the program end after SIGTERM, before it kills it; 0 kills it
	// at once.
	Grace time.Duration
}

// Starter starts commands. Host is the real one. All methods of a Starter and of its
// processes are safe for concurrent use.
type Starter interface {
	// Start starts c. It does not return while the file system of the program hangs.
	Start(c Command) (Process, error)
}

// Process is a started command.
type Process interface {
	// Signal sends a signal to the program itself.
	Signal(syscall.Signal)
	// Kill ends the program and everything in its process group.
	Kill()
	// Wait waits until the program has ended. By then the rest of its process group was
	// killed, and its output is complete.
	Wait() Status
}

// Status is how a program ended. It is the error of Run unless it is OK.
type Status struct {
	Code   int // exit status, if Signal is 0
	Signal syscall.Signal
}

// OK reports whether the program exited with status 0.
func (s Status) OK() bool { return s == Status{} }

func (s Status) Error() string {
	if s.Signal != 0 {
		return "signal: " + s.Signal.String()
	}
	return fmt.Sprintf("exit status %d", s.Code)
}

// Error is the failure of a command that Output ran.
type Error struct {
	Status Status
	Stderr []byte // all of it
}

// Error returns one line: the status, and the first line that the program wrote to
// standard error. Later lines are stack traces.
func (e *Error) Error() string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(e.Stderr)), "\n")
	if line == "" {
		return e.Status.Error()
	}
	return fmt.Sprintf("%s (%s)", e.Status, line)
}

// killGrace is the maximum time for a killed program to end. One that lives longer cannot be
// killed: it hangs in a device driver, or runs as another user, as under sudo.
const killGrace = 10 * time.Second

// Run runs c to its end. The error is a Status if the program failed. If ctx ends first,
// Run ends the program and returns the error of ctx, also if the program does not die.
func Run(ctx context.Context, s Starter, c Command) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	stdout := &outlet{to: c.Stdout}
	stderr := stdout // if both are one, the program writes to it in order
	if c.Stderr != c.Stdout {
		stderr = &outlet{to: c.Stderr}
	}
	defer stdout.close()
	defer stderr.close()
	c.Stdout, c.Stderr = stdout, stderr
	p, err := s.Start(c)
	if err != nil {
		return err
	}
	var status Status
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		status = p.Wait()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		if !end(p, c.Grace, ended) {
			return ctx.Err()
		}
	}
	switch {
	case status.OK():
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return status
	}
}

// end ends a program within grace, or kills it. It reports whether the program has ended.
func end(p Process, grace time.Duration, ended <-chan struct{}) bool {
	if grace > 0 {
		p.Signal(syscall.SIGTERM)
		select {
		case <-ended:
			return true
		case <-time.After(grace):
		}
	}
	p.Kill()
	select {
	case <-ended:
		return true
	case <-time.After(killGrace):
		return false
	}
}

// outlet passes on what a program writes until it is closed, since a program that does not die
// may write after its caller has read the output.
type outlet struct {
	mu sync.Mutex
	to io.Writer // nil discards
}

func (o *outlet) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.to == nil {
		return len(p), nil
	}
	return o.to.Write(p)
}

func (o *outlet) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.to = nil
}

// Output is Run for a command whose Stdout and Stderr are not set. It returns what the
// program writes to standard output. The error is an *Error if the program failed.
func Output(ctx context.Context, s Starter, c Command) ([]byte, error) {
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := Run(ctx, s, c)
	if status, failed := errors.AsType[Status](err); failed {
		err = &Error{status, errs.Bytes()}
	}
	return out.Bytes(), err
}
