package gen

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/fleet"
	"github.com/collectivex/collectivex/pkg/sanitize"
)

func newWatch(s cli.Streams, clock fleet.Clock) *cobra.Command {
	var (
		w          fleet.Watch
		exitStatus bool
	)
	r := &remote{s: s, clock: clock}
	cmd := &cobra.Command{
		Use:   "watch RUN",
		Short: "Watch a run on GitHub until it is over",
		Long: `Watch a run on GitHub until it is over: its cells by state and platform, the
runner and step of each cell that runs, failures with their reason, and an estimate of
the time left, based on the cells that have ended.

Standard error shows the progress: a display on a terminal, lines elsewhere. At the end,
standard output has the URL of the run, for the next command in a pipeline. RUN is a
number, a URL, or - for the first line of standard input.`,
		Example: `  cxgen watch https://github.com/acme/fleet/actions/runs/1001
  cxgen watch 1001 --repo acme/fleet --exit-status --deadline 6h
  cxgen dispatch --suite smoke | cxgen watch -`,
		Args: oneRun,
		RunE: func(c *cobra.Command, args []string) error {
			if w.Deadline <= 0 && c.Flags().Changed("deadline") {
				return cli.UsageError("--deadline %s: want a positive duration such as 90m", w.Deadline)
			}
			client, id, err := r.run(c.Context(), args[0])
			if err != nil {
				return err
			}
			width, live := s.Terminal(s.Err)
			d := &display{w: s.Err, width: width, said: map[string]string{}}
			w.Show = d.lines
			if live {
				w.Show = d.draw
			}
			sweep, err := client.Watch(c.Context(), id, w)
			ended := errors.Is(err, fleet.ErrDeadline) || errors.Is(err, fleet.ErrCellFailed)
			if err != nil && !ended {
				return unreachable(err)
			}
			if sweep != nil {
				if err := r.print(sweep, func() { fmt.Fprintln(s.Out, sweep.URL) }); err != nil {
					return err
				}
			}
			switch {
			case err != nil:
				return err
			case exitStatus && sweep.Conclusion != fleet.Success:
				return fmt.Errorf("run %d ended with %s", id, sweep.Conclusion)
			}
			return nil
		},
	}
	r.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&exitStatus, "exit-status", false, "exit 1 if the run does not end with success")
	cmd.Flags().BoolVar(&w.FailFast, "fail-fast", false, "stop watching and exit 1 when a job fails; the run goes on")
	cmd.Flags().DurationVar(&w.Deadline, "deadline", 0, "stop watching and exit 1 after `DURATION`, such as 6h; the run goes on")
	return cmd
}

type display struct {
	w     io.Writer
	width int
	drawn int               // lines on the terminal
	said  map[string]string // the last line about each job
	last  string            // the last counts
}

// lines writes a line for each job that changed, and the counts if they changed.
func (d *display) lines(s *fleet.Sweep) {
	at := clockTime(s.At.Sub(s.Started))
	for _, j := range slices.Concat(s.Other, s.Cells) {
		text := describeJob(j)
		if d.said[j.Name] == text || j.State == fleet.Queued {
			continue
		}
		d.said[j.Name] = text
		fmt.Fprintf(d.w, "%s  %s\n", at, sanitize.Line(text))
	}
	if text := counts(s.Cells); len(s.Cells) > 0 && text != d.last {
		d.last = text
		fmt.Fprintf(d.w, "%s  %s%s\n", at, text, eta(s))
	}
	if s.Completed() {
		fmt.Fprintf(d.w, "%s  run %d ended with %s\n", at, s.ID, sanitize.Line(s.Conclusion))
	}
}

// shown is the maximum number of running, and of failed, jobs in a display.
const shown = 12

// draw replaces the last display by a new one: counts for each platform, running and failed
// jobs.
func (d *display) draw(s *fleet.Sweep) {
	var out []string
	status := s.Status
	if s.Completed() {
		status = s.Conclusion
	}
	out = append(out, fmt.Sprintf("run %d, attempt %d: %s, %s%s", s.ID, s.Attempt, status, clockTime(s.At.Sub(s.Started)), eta(s)))
	skus := map[string][]fleet.Job{}
	var names []string
	for _, j := range s.Cells {
		if _, ok := skus[j.SKU]; !ok {
			names = append(names, j.SKU)
		}
		skus[j.SKU] = append(skus[j.SKU], j)
	}
	slices.Sort(names)
	for _, name := range names {
		out = append(out, fmt.Sprintf("  %-14s %s", cmp.Or(name, "cells"), counts(skus[name])))
	}
	for _, state := range []string{fleet.Running, fleet.Failure, fleet.Cancelled} {
		n := 0
		for _, j := range slices.Concat(s.Other, s.Cells) {
			if j.State != state {
				continue
			}
			if n++; n <= shown {
				out = append(out, "  "+describeJob(j))
			}
		}
		if n > shown {
			out = append(out, fmt.Sprintf("  … and %d more: %s", n-shown, state))
		}
	}
	var b strings.Builder
	if d.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", d.drawn)
	}
	for _, line := range out {
		text := []rune(sanitize.Line(line))
		fmt.Fprintf(&b, "\r\x1b[K%s\n", string(text[:min(len(text), max(d.width-1, 0))]))
	}
	b.WriteString("\x1b[J")
	d.drawn = len(out)
	_, _ = io.WriteString(d.w, b.String())
}

// counts returns the number of jobs in each state: "2 queued, 1 running".
func counts(jobs []fleet.Job) string {
	n := map[string]int{}
	for _, j := range jobs {
		n[j.State]++
	}
	var out []string
	for _, state := range fleet.JobStates() {
		if n[state] > 0 {
			out = append(out, fmt.Sprintf("%d %s", n[state], state))
		}
	}
	return strings.Join(out, ", ")
}

func describeJob(j fleet.Job) string {
	name, _, _ := strings.Cut(j.Name, " ") // setup shows the mark of its dispatch
	text := name + ": " + j.State
	if j.Over() && !j.Started.IsZero() && j.Ended.After(j.Started) {
		text += " after " + clockTime(j.Ended.Sub(j.Started))
	}
	if j.Runner != "" && j.State == fleet.Running {
		text += " on " + j.Runner
	}
	if j.Step != "" && j.State == fleet.Running {
		text += ", " + j.Step
	}
	if j.Reason != "" {
		text += ": " + j.Reason
	}
	return text
}

func eta(s *fleet.Sweep) string {
	if s.Left <= 0 {
		return ""
	}
	return ", about " + clockTime(s.Left) + " left"
}

func clockTime(d time.Duration) string {
	n := int(max(d, 0).Round(time.Second).Seconds())
	return fmt.Sprintf("%d:%02d:%02d", n/3600, n/60%60, n%60)
}
