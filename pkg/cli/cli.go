// Package cli is the commands of cxgen and cxrun: flags, exit codes, progress
// and what a step says to its Actions runner. It holds no logic of its own.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Exit codes of both programs.
const (
	ExitOK          = 0 // all done
	ExitFailed      = 1 // something measured failed, or a check found a difference
	ExitUsage       = 2 // usage or definition error
	ExitEnvironment = 3 // this environment cannot run it
)

// Version is the program version, stamped by the linker. The matrix carries
// it, and a cell refuses a matrix of another version.
var Version = "dev"

// ExitError is an error with the exit code it ends the program with. An error
// without one ends it with ExitFailed.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

func usageError(format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

func environmentError(format string, args ...any) error {
	return &ExitError{Code: ExitEnvironment, Err: fmt.Errorf(format, args...)}
}

// Streams are what a program is run with, so that tests run it in-process.
type Streams struct {
	In     io.Reader
	Out    io.Writer
	Err    io.Writer
	Getenv func(string) string
}

// Gen runs cxgen and returns its exit code.
func Gen(ctx context.Context, s Streams, args []string) int {
	return execute(ctx, s, genRoot(s), args)
}

// Run runs cxrun and returns its exit code.
func Run(ctx context.Context, s Streams, args []string) int {
	return execute(ctx, s, runRoot(s), args)
}

func execute(ctx context.Context, s Streams, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError("%w; see '%s --help'", err, c.CommandPath())
	})
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	fmt.Fprintf(s.Err, "%s: %v\n", root.Name(), err)
	var exit *ExitError
	if errors.As(err, &exit) {
		return exit.Code
	}
	return ExitFailed
}
