// Package cli is what the commands of both programs share: streams, exit
// codes and how an error ends a program. The commands themselves are in gen
// (cxgen, free of cgo) and run (cxrun).
package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/sanitize"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Exit codes of both programs.
const (
	ExitOK          = 0 // all done
	ExitFailed      = 1 // something measured failed, or a check found a difference
	ExitUsage       = 2 // usage or definition error
	ExitEnvironment = 3 // this environment cannot run it
)

// ExitError is an error with the exit code it ends the program with. An error
// without one ends it with ExitFailed.
type ExitError struct {
	Code int
	Err  error // nil if another process prints it
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Code returns the exit code with which an error ends the program.
func Code(err error) int {
	exit, ok := errors.AsType[*ExitError](err)
	switch {
	case err == nil:
		return ExitOK
	case ok:
		return exit.Code
	default:
		return ExitFailed
	}
}

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// UsageError ends the program with ExitUsage.
func UsageError(format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// EnvironmentError ends the program with ExitEnvironment.
func EnvironmentError(format string, args ...any) error {
	return &ExitError{Code: ExitEnvironment, Err: fmt.Errorf(format, args...)}
}

// Execute runs the command that newRoot returns with args and returns the exit
// code of the program. A command fails if its standard output was not written in full.
func Execute(ctx context.Context, s Streams, newRoot func(Streams) *cobra.Command, args []string) int {
	out := &Whole{Out: s.Out}
	s.Out = out
	root := newRoot(s)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if name := nearestFlag(c, err); name != "" {
			return UsageError("%w; did you mean --%s?", err, name)
		}
		return UsageError("%w; see '%s --help'", inWords(err), c.CommandPath())
	})
	completeStandard(root)
	fitHelp(s, root)
	root.AddCommand(newMan(s))
	completeFilters(root)
	started := false
	noteStart(root, &started)
	ran, err := root.ExecuteContextC(ctx)
	if err == nil && out.Err != nil {
		err = &ExitError{ExitFailed, out.Err}
	}
	exit, known := errors.AsType[*ExitError](err)
	switch {
	case err == nil, known && exit.Err == nil:
		return Code(err)
	case !started && !known:
		err = UsageError("%w; see '%s --help'", err, ran.CommandPath())
	}
	fmt.Fprintf(s.Err, "%s: %s\n", root.Name(), sanitize.Lines(err.Error()))
	if s.OnActions() {
		annotate(s.Err, err)
	}
	return Code(err)
}

// inWords replaces an error that names Go's functions by one that says which values a flag
// takes.
func inWords(err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	f := invalid.GetFlag()
	if _, number := errors.AsType[*strconv.NumError](err); !number && f.Value.Type() != "duration" {
		return err
	}
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	kind := "whole number"
	switch f.Value.Type() {
	case "float64":
		kind = "number"
	case "duration":
		kind = "duration such as 90m"
	}
	return fmt.Errorf("%s: invalid value %q: want a %s", name, invalid.GetValue(), kind)
}

// nearestFlag returns the flag of c whose name is most like the unknown one of err, or "".
func nearestFlag(c *cobra.Command, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknown.GetSpecifiedShortnames() != "" {
		return ""
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return vocab.Nearest(unknown.GetSpecifiedName(), names)
}

// noteStart sets started when c or a command below it begins to run: an error
// before that is one of usage (arguments, required flags).
func noteStart(c *cobra.Command, started *bool) {
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			if err := checkFlags(c.Flags()); err != nil {
				return UsageError("%w; see '%s --help'", err, c.CommandPath())
			}
			*started = true
			return run(c, args)
		}
	}
	for _, sub := range c.Commands() {
		noteStart(sub, started)
	}
}

// completeStandard makes the commands that cobra adds refuse unknown arguments, as ours do.
func completeStandard(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Run = nil
			c.RunE = func(_ *cobra.Command, words []string) error {
				about, rest, err := root.Find(words)
				if err != nil || len(rest) > 0 {
					return UsageError("unknown command %q; see '%s --help'", strings.Join(words, " "), root.Name())
				}
				about.InitDefaultHelpFlag()
				return about.Help()
			}
		case "completion":
			c.Args = UnknownCommand
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
}

// takesStdout marks a flag for which - is standard output.
const takesStdout = "takes-stdout"

// WaitFlag is the name of the flag that AddWaitFlag adds.
const WaitFlag = "wait"

// AddWaitFlag adds the flag of commands that take turns at GPUs.
func AddWaitFlag(flags *pflag.FlagSet, wait *bool) {
	flags.BoolVar(wait, WaitFlag, false, "wait for GPUs that another cxrun uses, instead of failing")
}

// MarkStdout makes - stand for standard output in a flag.
func MarkStdout(flags *pflag.FlagSet, flag string) {
	_ = flags.SetAnnotation(flag, takesStdout, nil) // fails only for unknown flags
}

// checkFlags refuses an empty value of a flag, which would stand for its default or for the
// working directory (filters take it as no filter), and - unless it is standard output.
func checkFlags(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		_, stdout := f.Annotations[takesStdout]
		value, kind := f.Value.String(), f.Value.Type()
		switch {
		case err != nil:
		case kind == "stringArray" || kind == "stringSlice":
			list, ok := f.Value.(pflag.SliceValue) // of a stringSlice, "" is an empty list
			if ok && (len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")) {
				err = emptyFlag(f)
			}
		case kind != "string":
		case value == "":
			err = emptyFlag(f)
		case value == "-" && !stdout:
			err = fmt.Errorf("--%s -: cannot write to standard output; name a file or directory", f.Name)
		}
	})
	return err
}

func emptyFlag(f *pflag.Flag) error {
	return fmt.Errorf("--%s is empty; leave it out or give it a value", f.Name)
}

// NoArgs refuses arguments of a command that takes none, and points to --in if it has that.
func NoArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if c.Flags().Lookup("in") != nil {
		return UsageError("unexpected argument %q: name it with --in %s", args[0], args[0])
	}
	return UsageError("unexpected argument %q; see '%s --help'", args[0], c.CommandPath())
}

// UnknownCommand refuses unknown commands, which cobra would take as arguments of c.
func UnknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	return UsageError("unknown command %q%s", args[0], vocab.Hint(args[0], names))
}
