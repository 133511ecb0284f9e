package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/dirlock"
	"github.com/collectivex/collectivex/pkg/fold"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/preflight"
	"github.com/collectivex/collectivex/pkg/report"
	"github.com/collectivex/collectivex/pkg/shard"
	"github.com/collectivex/collectivex/pkg/vocab"
)

const defaultSuite = "smoke"

// Names below a sweep's directory. Documents are below cellsDir, one directory a cell.
const (
	matrixFile = plan.FileName
	cellsDir   = "cells"
	foldFile   = "run.ndjson"
)

type sweeping struct {
	cli.Streams
	defs        cli.Definitions
	filters     planner.Filters
	out, resume string
	repeat      int
	wait        bool
}

func newSweep(s cli.Streams) *cobra.Command {
	r := sweeping{Streams: s}
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Plan a run, run all of it on this machine, and summarize it",
		Long: `Run the whole pipeline on this machine: plan the cases that the filters select, run
every cell, fold the documents and summarize them. Without filters it runs the
suite "smoke" on this machine, which usually takes less than a minute. On a machine with
GPUs, it measures every library that it finds, at sizes that show the link; with eight GPUs
this is estimated at less than ten minutes.

--resume completes a sweep that was killed. It uses the plan and the run id in its
directory, runs the cases that have no document yet, and folds again.`,
		Example: `  cxrun sweep
  cxrun sweep --op all_reduce --world 2
  cxrun sweep --repeat 5 --out results/before
  cxrun sweep --suite collectives-host --op all_reduce --world 2 --out results/host
  cxrun sweep --resume results/host`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			defer whileRead(c)()
			if c.Flags().Changed(resumeFlag) {
				return r.complete(c)
			}
			return r.begin(c)
		},
	}
	r.defs.AddFlag(cmd.Flags())
	cli.AddFilterFlags(cmd.Flags(), &r.filters)
	cmd.Flags().StringVar(&r.out, outFlag, "", "write everything into `DIR` (default: results/RUN)")
	cmd.Flags().StringSliceVar(&r.filters.Cases, caseFlag, nil, "only these cases, by `ID`; a list with commas")
	cmd.Flags().IntVar(&r.repeat, repeatFlag, 0, "measure each case in `N` independent runs, all cases once before any again (default: as the suite says)")
	cli.AddWaitFlag(cmd.Flags(), &r.wait)
	cmd.Flags().StringVar(&r.resume, resumeFlag, "", "complete the sweep in `DIR`, with its plan and under its run id")
	return cmd
}

const (
	resumeFlag = "resume"
	repeatFlag = "repeat"
	caseFlag   = "case"
	outFlag    = "out"
)

// maxRepeats is the limit that definitions have too.
const maxRepeats = 1000

func (r *sweeping) begin(c *cobra.Command) error {
	cat, err := r.defs.Load()
	if err != nil {
		return err
	}
	if c.Flags().Changed(repeatFlag) {
		if r.repeat < 1 || r.repeat > maxRepeats {
			return cli.UsageError("--repeat %d: want 1 to %d", r.repeat, maxRepeats)
		}
		for i := range cat.Suites {
			cat.Suites[i].Repeats = r.repeat
		}
	}
	m, this, err := r.plan(c.Context(), cat)
	if err != nil {
		return err
	}
	if requested(m) == 0 {
		warn(r.Streams, "no case matches the filters, so nothing is run or written; name another --suite, or leave filters out")
		return nil
	}
	ctx, release, err := takeTurn(c.Context(), r.Streams, devicesOf(m, m.Include, this), r.wait)
	if err != nil {
		return err
	}
	defer release()
	id := localRunID(time.Now())
	if r.out == "" {
		r.out = filepath.Join("results", id)
	}
	cells, err := newCellRun(r.Streams, m, id)
	if err != nil {
		return err
	}
	owned, err := writePlan(ctx, m, r.out)
	if err != nil {
		return err
	}
	return errors.Join(sweep(ctx, r.Streams, cells, r.out), owned.Release())
}

// plan plans the sweep for this machine, and warns of what it leaves out.
func (r *sweeping) plan(ctx context.Context, cat *catalog.Catalog) (m *plan.Matrix, this preflight.Survey, err error) {
	backends := gpuBackends(cat, r.filters)
	if this, err = machineHere(ctx, r.defs); err != nil {
		return nil, this, err
	}
	if why := this.Misnamed(backends); len(why) > 0 {
		return nil, this, cli.EnvironmentError("%s", strings.Join(why, "; "))
	}
	gpus, _ := this.Choose(backends)
	if gpus == nil && len(this.GPUs) > 0 {
		gpus = &this.GPUs[0]
	}
	machine := planner.Machine{CPU: runtime.GOARCH, GPUs: gpus, Backends: this.Host}
	if m, err = planHere(cat, r.filters, machine); err != nil {
		return nil, this, err
	}
	if err := tellHeld(r.Streams, cat, r.filters, machine, m, this.Findings); err != nil {
		return nil, this, err
	}
	if err := admit(m.Include, this.Present); err != nil {
		return nil, this, err
	}
	if len(backends) > 0 {
		warn(r.Streams, this.Warnings...)
		tellUnusable(r.Streams, this)
	}
	return m, this, nil
}

func (r *sweeping) complete(c *cobra.Command) error {
	var others []string
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != resumeFlag && f.Name != cli.WaitFlag {
			others = append(others, "--"+f.Name)
		}
	})
	if len(others) > 0 {
		return cli.UsageError("--resume continues with the plan in %s: leave out %s", r.resume, strings.Join(others, ", "))
	}
	path := filepath.Join(r.resume, matrixFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return cli.UsageError("--resume %s: no sweep began there, since it has no %s", r.resume, matrixFile)
	}
	m, err := readMatrix(path)
	if err != nil {
		return err
	}
	this, err := admitCells(c.Context(), r.Streams, m.Include)
	if err != nil {
		return err
	}
	ctx, release, err := takeTurn(c.Context(), r.Streams, devicesOf(m, m.Include, this), r.wait)
	if err != nil {
		return err
	}
	defer release()
	cells, err := newCellRun(r.Streams, m, localRunID(time.Now()))
	if err != nil {
		return err
	}
	cells.resume = true
	owned, err := dirlock.Take(ctx, r.resume, dirlock.Run)
	if err != nil {
		return cli.EnvironmentError("%w", err)
	}
	for _, cell := range m.Include {
		runs, err := shard.RunsIn(filepath.Join(r.resume, cellsDir, cell.ID))
		if err != nil {
			return errors.Join(cli.EnvironmentError("%w", err), owned.Release())
		}
		for id, attempt := range runs { // a sweep writes one
			cells.run.RunID, cells.run.RunAttempt = id, attempt
		}
	}
	return errors.Join(sweep(ctx, r.Streams, cells, r.resume), owned.Release())
}

// sweep runs the cells of r's matrix, each in a directory of its own below out, and folds and
// summarizes their documents. Repeats are interleaved: all cells run their first repeats before
// any runs a second one, so that a disturbance of the machine falls on all cases alike. The
// error includes the errors of all cells that could not continue.
func sweep(ctx context.Context, s cli.Streams, r cellRun, out string) error {
	tellListeners(s, r.matrix)
	failed := map[string]error{}
	resume := r.resume
	for r.repeat = 1; r.repeat <= repeats(r.matrix); r.repeat++ {
		r.resume = resume || r.repeat > 1
		for _, cell := range r.matrix.Include {
			r.results = filepath.Join(out, cellsDir, cell.ID)
			if _, err := r.do(ctx, s, cell); err != nil && failed[cell.ID] == nil {
				failed[cell.ID] = err
			}
		}
	}
	verdict, err := sumUp(s, r.matrix, r.run.RunID, out)
	var all []error
	for _, cell := range r.matrix.Include {
		all = append(all, failed[cell.ID])
	}
	if err = errors.Join(append(all, err)...); err != nil {
		return err
	}
	return verdict.Err()
}

// repeats returns the highest repeat that m asks for.
func repeats(m *plan.Matrix) int {
	highest := 1
	for q := range m.Requested() {
		highest = max(highest, q.Case.Repeat)
	}
	return highest
}

// gpuBackends names the backends that the filters ask for on GPUs; none if they ask for hosts
// only.
func gpuBackends(cat *catalog.Catalog, f planner.Filters) []string {
	onGPUs := func(sku string) bool {
		p := cat.Platform(sku)
		return p == nil || p.Vendor != vocab.Host
	}
	if skus := f.Only[planner.FilterSKU]; len(skus) > 0 && !slices.ContainsFunc(skus, onGPUs) {
		return nil
	}
	var names []string
	for i := range cat.Backends {
		b := &cat.Backends[i]
		if b.OnGPUs() && (len(f.Only[planner.FilterBackend]) == 0 || slices.Contains(f.Only[planner.FilterBackend], b.Name)) {
			names = append(names, b.Name)
		}
	}
	return names
}

// tellHeld warns of cases that m lacks although their library is here, because something else keeps
// it from running.
func tellHeld(s cli.Streams, cat *catalog.Catalog, f planner.Filters, machine planner.Machine, m *plan.Matrix, findings []preflight.Finding) error {
	for _, finding := range findings {
		if !finding.Held || slices.Contains(machine.Backends, finding.Backend) {
			continue
		}
		machine.Backends = append(slices.Clone(machine.Backends), finding.Backend)
		if machine.GPUs != nil {
			g := *machine.GPUs
			g.Backends = append(slices.Clone(g.Backends), finding.Backend)
			machine.GPUs = &g
		}
		with, err := planHere(cat, f, machine)
		if err != nil {
			return err
		}
		if n := requested(with) - requested(m); n > 0 {
			warn(s, fmt.Sprintf("%s; %s left out", finding.Text, plural.Count(n, "case of "+finding.Backend+" is", "cases of "+finding.Backend+" are")))
		}
	}
	return nil
}

// tellListeners warns of libraries that take connections from other machines.
func tellListeners(s cli.Streams, m *plan.Matrix) {
	var told []string
	for i := range m.Include {
		if b, _ := backends.Find(m.Include[i].Backend); b.Listens != "" && !slices.Contains(told, b.Listens) {
			told = append(told, b.Listens)
			warn(s, b.Listens)
		}
	}
}

func requested(m *plan.Matrix) int { return len(m.RequestedCases) + len(m.RequestedOther) }

// planHere plans for the machine at hand, unless the filters name other platforms.
func planHere(cat *catalog.Catalog, f planner.Filters, machine planner.Machine) (*plan.Matrix, error) {
	only := planner.Only{planner.FilterSuite: {defaultSuite}, planner.FilterSKU: machine.SKUs(cat)}
	for name, values := range f.Only {
		if len(values) > 0 {
			only[name] = values
		}
	}
	f.Only = only
	m, err := planner.Resolve(cat, f, machine)
	if err != nil {
		return nil, cli.UsageError("%w", err)
	}
	m.Generator = plan.Generator{Program: "cxrun", Version: cli.Version, Format: plan.Format}
	return m, nil
}

// writePlan claims the directory out for this process and writes the matrix into it. It fails if out
// already has a matrix.
func writePlan(ctx context.Context, m *plan.Matrix, out string) (*dirlock.Claim, error) {
	if info, err := os.Stat(out); err == nil && !info.IsDir() {
		return nil, cli.EnvironmentError("--out %s is a file: name a directory", out)
	}
	owned, err := dirlock.Take(ctx, out, dirlock.Run)
	if err != nil {
		return nil, cli.EnvironmentError("--out: %w", err)
	}
	path := filepath.Join(out, matrixFile)
	if _, err = os.Lstat(path); err == nil {
		err = cli.UsageError("%s already holds a run; use another --out, or complete it with 'cxrun sweep --resume %s'", out, out)
	} else if err = os.MkdirAll(filepath.Join(out, cellsDir), 0o755); err == nil {
		err = m.WriteFile(path)
	}
	if _, usage := errors.AsType[*cli.ExitError](err); err != nil && !usage {
		err = cli.EnvironmentError("%w", err)
	}
	if err != nil {
		return nil, errors.Join(err, owned.Release())
	}
	return owned, nil
}

// sumUp folds the documents, and prints the summary, the paths of the results and the next command.
func sumUp(s cli.Streams, m *plan.Matrix, runID, out string) (*fold.Verdict, error) {
	path := filepath.Join(out, foldFile)
	verdict, err := fold.Fold([]string{filepath.Join(out, cellsDir)}, m, fold.Expected{RunID: runID}, path)
	if err != nil {
		return nil, cli.EnvironmentError("%w", err)
	}
	printLeftOut(s, verdict)
	sum, _, err := report.Build([]string{path}, m)
	if err != nil {
		return nil, cli.EnvironmentError("%w", err)
	}
	if err := printSummary(s, sum, ""); err != nil {
		return nil, err
	}
	fmt.Fprintf(s.Out, "\nplan       %s\ndocuments  %s\nsamples    %s\nlogs       %s (private)\nall in one %s\n",
		filepath.Join(out, matrixFile), filepath.Join(out, cellsDir, "*", "*.json"),
		filepath.Join(out, cellsDir, "*", "samples"), filepath.Join(out, cellsDir, "*", "logs"), path)
	if len(verdict.Answers) > 0 {
		fmt.Fprintf(s.Out, "\ncharts: cxrun report --in %s -o %s\n", out, filepath.Join(out, "report.html"))
	}
	return verdict, nil
}
