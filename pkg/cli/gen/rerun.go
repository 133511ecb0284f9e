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
	Others  []string    `json:"others"`  // cases that would or will run besides
	Left    []string    `json:"left"`    // cases that nothing here runs again
	Started bool        `json:"started"` // the failed jobs were started again
	Runs    []rerunning `json:"runs"`    // dispatches, started or not
	Error   string      `json:"error"`   // why not all was started; empty if it was
}

// rerunning is one dispatch that covers cases.
type rerunning struct {
	Covers []string `json:"covers"` // of the cases
	Others []string `json:"others"`
	dispatched
}

func newRerun(s cli.Streams, clock fleet.Clock) *cobra.Command {
	var (
		defs     cli.Definitions
		ref, run string
		dispatch bool
		dry      bool
	)
	r := &remote{s: s, clock: clock}
	cmd := &cobra.Command{
		Use:   "rerun FILE.ndjson",
		Short: "Run again what has no successful document",
		Long: `Read the dataset of a run, and run again the cases that have no successful document
in it: those that failed, and those of the run's plan that have none.

The failed jobs of that run are started again, as a further attempt. Their cells keep
the successes of earlier attempts and run the other cases. With --dispatch, new runs
are started instead, with filters that cover the cases; their plan is that of the
definitions as they are now. In both cases standard error names what will run, and
what runs besides. Nothing to run again is no error.`,
		Example: `  cxgen rerun run/aggregate/collectivex-1001.ndjson --repo acme/fleet
  cxgen rerun run.ndjson --repo acme/fleet --dispatch --dry-run --json`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("rerun takes one NDJSON file: the dataset of a run")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			var of fleet.RunRef
			var err error
			if run != "" {
				if of, err = fleet.ParseRun(run); err != nil {
					return cli.UsageError("--run: %w", err)
				}
			}
			// Which run it is, before its plan is known.
			id, _, err := fleet.Unanswered(args[0], nil, of.ID)
			if err != nil {
				return cli.UsageError("%w", err)
			}
			client, err := r.client(c.Context(), of)
			if err != nil {
				return err
			}
			m, err := client.Matrix(c.Context(), id)
			if err != nil {
				return unreachable(fmt.Errorf("the plan of run %d, which says what is missing: %w", id, err))
			}
			out := &rerun{RunID: id, Cells: []string{}, Others: []string{}, Left: []string{}, Runs: []rerunning{}}
			if _, out.Cases, err = fleet.Unanswered(args[0], m, id); err != nil {
				return cli.UsageError("%w", err)
			}
			if out.Cases == nil {
				out.Cases = []string{}
			}
			s.Tell("run %d: %s without a successful document", id, plural.Count(len(out.Cases), "case", "cases"))
			var failed error
			switch {
			case len(out.Cases) == 0:
			case dispatch:
				cat, err := defs.Load()
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
					out.Runs = append(out.Runs, rerunning{cover.Cases, cover.Others, dispatched{Ref: ref, estimate: e}})
					out.Others = append(out.Others, cover.Others...)
					s.Tell("dispatch%s: %s and %s; %s", flags(cover.Filters.Only), plural.Count(len(cover.Cases), "case", "cases"), plural.Count(len(cover.Others), "other", "others"), e)
				}
				if !dry {
					failed = out.dispatch(c.Context(), s, client, ref)
				}
			default:
				cells, err := client.FailedCells(c.Context(), id)
				if err != nil {
					return unreachable(err)
				}
				out.again(m, cells)
				s.Tell("re-run of the failed jobs of run %d: %s", id, strings.Join(out.Cells, ", "))
				switch {
				case len(out.Cells) == 0:
					failed = fmt.Errorf("no job of run %d failed, so none can be run again; use --dispatch", id)
				case !dry:
					failed = unreachable(client.RerunFailed(c.Context(), id))
					out.Started = failed == nil
				}
			}
			for _, id := range out.Others {
				s.Tell("runs besides: %s", id)
			}
			for _, id := range out.Left {
				s.Tell("not run again: %s", id)
			}
			if failed != nil {
				out.Error = failed.Error()
			}
			if err := r.print(out, func() {
				for _, run := range out.Runs {
					if run.Dispatched {
						fmt.Fprintln(s.Out, run.URL)
					}
				}
				if out.Started {
					fmt.Fprintln(s.Out, id)
				}
			}); err != nil {
				return err
			}
			if failed == nil && len(out.Left) > 0 {
				failed = fmt.Errorf("%s cannot be run again this way", plural.Count(len(out.Left), "case", "cases"))
			}
			return failed
		},
	}
	defs.AddFlag(cmd.Flags())
	r.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&run, "run", "", "the `RUN` that the documents are of, if the file has those of several or none")
	cmd.Flags().StringVar(&ref, "ref", "", "with --dispatch: run the workflow of `BRANCH` or tag instead of the default branch's")
	cmd.Flags().BoolVar(&dispatch, "dispatch", false, "start new runs instead of the failed jobs")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would run, and start nothing")
	return cmd
}

// dispatch starts the runs one after the other. It ends with the first that fails: what
// was started is noted, and what was not stays in the list as such.
func (o *rerun) dispatch(ctx context.Context, s cli.Streams, c *fleet.Client, ref string) error {
	for i := range o.Runs {
		run := &o.Runs[i]
		d, err := order(ctx, c, ref, run.estimate)
		if err != nil {
			return unreachable(fmt.Errorf("%d of %s started: %w", i, plural.Count(len(o.Runs), "run was", "runs were"), err))
		}
		run.Dispatched, run.RunID, run.URL, run.Ref = true, d.ID, d.URL, d.Ref
		s.Tell("started: %s", d.URL)
	}
	return nil
}

// again notes what the failed cells will run and what they will not. Cells keep their
// successes, so that nothing runs besides.
func (o *rerun) again(m *plan.Matrix, failed []string) {
	covered := map[string]bool{}
	for i := range m.Include {
		if c := &m.Include[i]; slices.Contains(failed, c.ID) {
			o.Cells = append(o.Cells, c.ID)
			for _, id := range c.CaseIDs {
				covered[id] = true
			}
		}
	}
	for _, id := range o.Cases {
		if !covered[id] {
			o.Left = append(o.Left, id)
		}
	}
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
