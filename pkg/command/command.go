// Package command starts programs, each with its arguments as an array and in a
// process group of its own. Launchers and probes start what they need through a
// Starter, so that a test can stand in for a scheduler or a container runtime.
package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"syscall"
)

// Command is a program to start. Its standard input is empty.
type Command struct {
	Args []string // the program and its arguments
	// Env is added to the environment of this process and overrides it.
	Env            map[string]string
	Stdout, Stderr io.Writer // nil discards
}

// Starter starts commands. Host is the real one. All methods of a Starter and of its
// processes are safe for concurrent use.
type Starter interface {
	// Start starts c. It hangs as long as the file system of the program does.
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

// Status describes how a program ended.
type Status struct {
	Code   int // exit status, if Signal is 0
	Signal syscall.Signal
}

// OK reports whether the program exited with status 0.
func (s Status) OK() bool { return s == Status{} }

func (s Status) String() string {
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
		return e.Status.String()
	}
	return fmt.Sprintf("%s (%s)", e.Status, line)
}

// Output runs c, whose Stdout and Stderr are not set, and returns what it writes to
// standard output. The error is an *Error if the program failed. It wraps that of ctx
// if ctx ended first; the program is then killed.
func Output(ctx context.Context, s Starter, c Command) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	p, err := s.Start(c)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	switch status := p.Wait(); {
	case status.OK():
		return out.Bytes(), nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	default:
		return nil, &Error{status, errs.Bytes()}
	}
}
