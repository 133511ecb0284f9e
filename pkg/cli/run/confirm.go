package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/compare"
	"github.com/collectivex/collectivex/pkg/fold"
	"github.com/collectivex/collectivex/pkg/plural"
)

// confirmation measures suspects again: both sides in turn, or NEW alone, to compare it with a history.
type confirmation struct {
	dir     string
	sides   [2]howToRun   // OLD, NEW
	history *compare.Side // nil: both sides in turn
	short   []string      // ids of suspects that lack runs although they were measured again just now
}

// unfinished returns an error if runs are missing, such as those that a time limit left out: nobody knows then whether
// there is a regression.
func (c *confirmation) unfinished() error {
	if len(c.short) == 0 {
		return nil
	}
	return fmt.Errorf("the confirmation lacks runs of %s, so it decides nothing about %s", plural.Count(len(c.short), "suspect", "suspects"), strings.Join(c.short, ", "))
}

type howToRun struct {
	name    string // of its directory in the confirmation's directory
	command string // words; empty: this program's sweep
	env     []string
}

func (c *confirmation) addFlags(flags *pflag.FlagSet) {
	c.sides[0].name, c.sides[1].name = "old", "new"
	flags.StringVar(&c.dir, "confirm", "", "measure suspects again, into `DIR`, or read what was measured there before")
	for i := range c.sides {
		side := &c.sides[i]
		label := strings.ToUpper(side.name)
		flags.StringVar(&side.command, side.name+"-run", "", "`COMMAND` that runs "+label+" and takes the flags of 'cxrun sweep' (default: this program's sweep, of the suspects' suites)")
		flags.StringArrayVar(&side.env, side.name+"-env", nil, "environment that "+label+" is run with, as `NAME=VALUE`; may be repeated")
	}
}

func (h howToRun) given() bool { return h.command != "" || len(h.env) > 0 }

// given reports whether the flags say how the sides are run.
func (c *confirmation) given() bool { return c.sides[0].given() || c.sides[1].given() }

// compareWith makes NEW alone be measured, unless the flags say how to run OLD or it was measured before.
func (c *confirmation) compareWith(history *compare.Side) error {
	there, err := c.holds(c.sides[0])
	if !there && !c.sides[0].given() {
		c.history = history
	}
	return err
}

// holds reports whether the directory has runs of one of the sides.
func (c *confirmation) holds(sides ...howToRun) (bool, error) {
	for _, side := range sides {
		if _, err := os.Stat(filepath.Join(c.dir, side.name)); err == nil {
			return true, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return false, cli.EnvironmentError("--confirm: %w", err)
		}
	}
	return false, nil
}

// measured reports whether the directory has runs.
func (c *confirmation) measured() (bool, error) { return c.holds(c.sides[:]...) }

// check refuses flags that contradict each other or the directory.
func (c *confirmation) check() error {
	if c.dir == "" {
		if c.given() {
			return cli.UsageError("--old-run, --new-run, --old-env and --new-env say how to confirm: add --confirm DIR")
		}
		return nil
	}
	switch there, err := c.measured(); {
	case err != nil:
		return err
	case there && c.given():
		return cli.UsageError("--confirm %s already holds runs: leave out --old-run, --new-run, --old-env and --new-env to read them, or name another directory", c.dir)
	case !there && !c.given() && c.history == nil:
		return cli.UsageError("--confirm %s holds no runs, and nothing distinguishes OLD from NEW: add --old-run, --new-run, --old-env or --new-env", c.dir)
	}
	for _, side := range c.sides {
		for _, v := range side.env {
			if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
				return cli.UsageError("--%s-env %q: want NAME=VALUE", side.name, v)
			}
		}
	}
	return nil
}

// confirm measures the suspects of found again, stage by stage, or reads what was measured
// before, and adds the results to found. It returns the files and lines that were left out.
func (c *confirmation) confirm(ctx context.Context, s cli.Streams, found *compare.Comparison, o compare.Options) ([]*fold.Problem, error) {
	suspects := found.Suspects()
	if len(suspects) == 0 {
		s.Tell("nothing is suspect, so nothing is measured again")
		return nil, nil
	}
	if there, err := c.measured(); err != nil {
		return nil, err
	} else if there {
		return c.read(s, found, o)
	}
	var problems []*fold.Problem
	for stage := range compare.Stages {
		measure := c.measure
		if c.history != nil {
			measure = c.measureNew
		}
		if err := measure(ctx, s, stage*compare.Pairs, suspects, found.Suites(suspects)); err != nil {
			return nil, err
		}
		var err error
		if problems, err = c.read(s, found, o); err != nil {
			return nil, err
		}
		if suspects = found.Open(); len(suspects) == 0 {
			break
		}
	}
	c.short = found.Undecided()
	return problems, nil
}

// read adds the results of the runs in the directory to found.
func (c *confirmation) read(s cli.Streams, found *compare.Comparison, o compare.Options) (problems []*fold.Problem, err error) {
	sides := [2]*compare.Side{c.history}
	for i, how := range c.sides {
		if sides[i] != nil {
			continue
		}
		var v *fold.Verdict
		if sides[i], v, err = side(s, filepath.Join(c.dir, how.name), nil); err != nil {
			return nil, err
		}
		problems = append(problems, v.Problems...)
	}
	o.History = c.history != nil
	found.Confirm(sides[0], sides[1], o)
	return problems, nil
}

// measure runs the pairs of a stage, in the order OLD NEW, NEW OLD and so on, so that a disturbance
// of the machine falls on both sides alike. before counts the pairs of earlier stages.
func (c *confirmation) measure(ctx context.Context, s cli.Streams, before int, suspects, suites []string) error {
	again := "measuring %s again, in %d pairs of runs"
	if before > 0 {
		again = "measuring %s that may yet be confirmed, in %d further pairs of runs"
	}
	s.Tell(again, plural.Count(len(suspects), "suspect", "suspects"), compare.Pairs)
	for pair := range compare.Pairs {
		for turn := range c.sides {
			side := c.sides[(pair+turn)%2]
			name := strconv.Itoa(before + pair + 1)
			s.Tell("pair %s of %d: %s", name, before+compare.Pairs, strings.ToUpper(side.name))
			if err := side.run(ctx, suspects, suites, 1, filepath.Join(c.dir, side.name, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureNew runs NEW as often as a stage has pairs.
func (c *confirmation) measureNew(ctx context.Context, s cli.Streams, before int, suspects, suites []string) error {
	s.Tell("measuring %s again, in %d runs", plural.Count(len(suspects), "suspect", "suspects"), compare.Pairs)
	side := c.sides[1]
	return side.run(ctx, suspects, suites, compare.Pairs, filepath.Join(c.dir, side.name, strconv.Itoa(before+1)))
}

// endGrace is how long an interrupted run has to cancel its jobs.
const endGrace = time.Minute

func (h howToRun) run(ctx context.Context, suspects, suites []string, repeats int, out string) error {
	args, err := h.args(suites)
	if err != nil {
		return err
	}
	args = append(args, "--"+caseFlag, strings.Join(suspects, ","), "--"+repeatFlag, strconv.Itoa(repeats), "--"+outFlag, out)
	env := map[string]string{}
	for _, v := range h.env {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	// Without the variables of Actions, each run has its own run id.
	env[runIDVariable], env["GITHUB_STEP_SUMMARY"] = "", ""
	_, err = command.Output(ctx, command.Host{}, command.Command{Args: args, Env: env, Grace: endGrace})
	// A run with failed cases leaves documents about them.
	if failed, ok := errors.AsType[*command.Error](err); ok && failed.Status == (command.Status{Code: cli.ExitFailed}) {
		return nil
	}
	if err != nil {
		return cli.EnvironmentError("run %s: %s: %w", strings.ToUpper(h.name), strings.Join(args, " "), err)
	}
	return nil
}

// args returns the command without what each run adds.
func (h howToRun) args(suites []string) ([]string, error) {
	if h.command != "" {
		words := strings.Fields(h.command)
		if len(words) == 0 {
			return nil, cli.UsageError("--%s-run: no command", h.name)
		}
		return words, nil
	}
	program, err := os.Executable()
	if err != nil {
		return nil, cli.EnvironmentError("%w", err)
	}
	return []string{program, "sweep", "--suite", strings.Join(suites, ",")}, nil
}
