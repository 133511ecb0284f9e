package gen

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/fleet"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/plural"
)

// rerun is what cxgen rerun prints as JSON.
type rerun struct {
	RunID   int64       `json:"run_id"`  // whose documents were read
	Cases   []string    `json:"cases"`   // without a successful document
	Cells   []string    `json:"cells"`   // whose jobs are run again
	Others  []string    `json:"others"`  // further cases that would or will run
	Left    []string    `json:"left"`    // cases that are not run again
	Started bool        `json:"started"` // the failed jobs were started again
	Runs    []rerunning `json:"runs"`    // dispatches, started or not
	Error   string      `json:"error"`   // why not all was started; empty if it was

	failed error // Error
}

// rerunning is one dispatch that covers cases.
type rerunning struct {
	Covers []string `json:"covers"` // of the cases
	Others []string `json:"others"`
	dispatched
}

// rerunner has the flags of cxgen rerun.
type rerunner struct {
	*remote
	defs          cli.Definitions
	ref, of       string
	dispatch, dry bool
}

func newRerun(s cli.Streams, clock fleet.Clock) *cobra.Command {
	r := &rerunner{remote: &remote{s: s, clock: clock}}
	cmd := &cobra.Command{
		Use:   "rerun FILE.ndjson",
		Short: "Run again what has no successful document",
		Long: `Read the dataset of a run, and run again the cases that have no successful document
in it: cases that failed, and cases of the run's plan without a document.

The failed jobs of that run are started again, as a further attempt. Their cells keep
the successes of earlier attempts and run the other cases. With --dispatch, new runs
are started instead, with filters that cover the cases; they are planned with the
definitions as they are now. In both cases standard error lists what will run,
including further cases. The exit code is 0 if there is nothing to run again.`,
		Example: `  cxgen rerun run/aggregate/collectivex-1001.ndjson --repo acme/fleet
  cxgen rerun run.ndjson --repo acme/fleet --dispatch --dry-run --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("rerun takes one NDJSON file: the dataset of a run")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return r.again(c.Context(), args[0]) },
	}
	r.defs.AddFlag(cmd.Flags())
	r.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&r.of, "run", "", "the `RUN` of the documents, if the file has documents of several runs or none")
	cmd.Flags().StringVar(&r.ref, "ref", "", "with --dispatch: run the workflow of `BRANCH` or tag instead of the default branch's")
	cmd.Flags().BoolVar(&r.dispatch, "dispatch", false, "start new runs instead of the failed jobs")
	cmd.Flags().BoolVar(&r.dry, "dry-run", false, "report what would run, and start nothing")
	return cmd
}

// again runs the cases again that have no successful document in the dataset.
func (r *rerunner) again(ctx context.Context, dataset string) error {
	if !r.dispatch && (r.ref != "" || r.defs.Dir != "") {
		return cli.UsageError("--ref and --definitions are for new runs: add --dispatch, or leave them out")
	}
	var of fleet.RunRef
	var err error
	if r.of != "" {
		if of, err = fleet.ParseRun(r.of); err != nil {
			return cli.UsageError("--run: %w", err)
		}
	}
	// Its plan, which names the missing cases, is found by the id of the run.
	id, _, err := fleet.Unanswered(dataset, nil, of.ID)
	if err != nil {
		return cli.UsageError("%w", err)
	}
	client, err := r.client(ctx, of)
	if err != nil {
		return err
	}
	m, err := client.Matrix(ctx, id)
	if err != nil {
		return unreachable(fmt.Errorf("the plan of run %d, which names the missing cases: %w", id, err))
	}
	_, cases, err := fleet.Unanswered(dataset, m, id)
	if err != nil {
		return cli.UsageError("%w", err)
	}
	out := &rerun{RunID: id, Cases: append([]string{}, cases...), Cells: []string{}, Others: []string{}, Left: []string{}, Runs: []rerunning{}}
	r.s.Tell("run %d: %s without a successful document", id, plural.Count(len(out.Cases), "case", "cases"))
	switch {
	case len(out.Cases) == 0:
	case r.dispatch:
		err = r.startRuns(ctx, client, out)
	default:
		err = r.startJobs(ctx, client, m, out)
	}
	if err != nil {
		return err
	}
	return r.report(out)
}

// startJobs starts the failed jobs of the run again. Cells keep their successes, so no further
// cases run.
func (r *rerunner) startJobs(ctx context.Context, c *fleet.Client, m *plan.Matrix, out *rerun) error {
	failed, err := c.FailedCells(ctx, out.RunID)
	if err != nil {
		return unreachable(err)
	}
	covered := map[string]bool{}
	for i := range m.Include {
		if cell := &m.Include[i]; slices.Contains(failed, cell.ID) {
			out.Cells = append(out.Cells, cell.ID)
			for _, id := range cell.CaseIDs {
				covered[id] = true
			}
		}
	}
	out.Left = append(out.Left, slices.DeleteFunc(slices.Clone(out.Cases), func(id string) bool { return covered[id] })...)
	r.s.Tell("re-run of the failed jobs of run %d: %s", out.RunID, strings.Join(out.Cells, ", "))
	switch {
	case len(out.Cells) == 0:
		out.failed = fmt.Errorf("no job of run %d failed, so none can be run again; use --dispatch", out.RunID)
	case !r.dry:
		out.failed = unreachable(c.RerunFailed(ctx, out.RunID))
		out.Started = out.failed == nil
	}
	return nil
}

// startRuns starts new runs that cover the cases, one after the other, until one fails.
func (r *rerunner) startRuns(ctx context.Context, c *fleet.Client, out *rerun) error {
	cat, err := r.defs.Load()
	if err != nil {
		return err
	}
	covers, gone, err := fleet.Covers(cat, out.Cases)
	if err != nil {
		return cli.UsageError("%w", err)
	}
	out.Left = append(out.Left, gone...)
	for _, cover := range covers {
		e, err := newEstimate(cat, cover.Filters)
		if err != nil {
			return err
		}
		out.Runs = append(out.Runs, rerunning{cover.Cases, cover.Others, dispatched{Ref: r.ref, estimate: e}})
		out.Others = append(out.Others, cover.Others...)
		r.s.Tell("dispatch%s: %s and %s; %s", flags(cover.Filters.Only), plural.Count(len(cover.Cases), "case", "cases"), plural.Count(len(cover.Others), "other", "others"), e)
	}
	for i := range out.Runs {
		if r.dry {
			break
		}
		run := &out.Runs[i]
		if err := run.start(ctx, c); err != nil {
			out.failed = fmt.Errorf("%d of %s started: %w", i, plural.Count(len(out.Runs), "run was", "runs were"), unreachable(err))
			break
		}
		r.s.Tell("started: %s", run.URL)
	}
	return nil
}

// report prints what was or would be started, and returns why something was not.
func (r *rerunner) report(out *rerun) error {
	for _, id := range out.Others {
		r.s.Tell("runs besides: %s", id)
	}
	for _, id := range out.Left {
		r.s.Tell("not run again: %s", id)
	}
	if out.failed != nil {
		out.Error = out.failed.Error()
	}
	if err := r.print(out, func() {
		for _, run := range out.Runs {
			if run.Dispatched {
				fmt.Fprintln(r.s.Out, run.URL)
			}
		}
		if out.Started {
			fmt.Fprintln(r.s.Out, out.RunID)
		}
	}); err != nil {
		return err
	}
	if out.failed == nil && len(out.Left) > 0 {
		return fmt.Errorf("%s cannot be run again this way", plural.Count(len(out.Left), "case", "cases"))
	}
	return out.failed
}

// flags formats filters as a person would give them.
func flags(only planner.Only) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(only)) {
		if len(only[name]) > 0 {
			fmt.Fprintf(&b, " --%s %s", name, strings.Join(only[name], ","))
		}
	}
	return b.String()
}
