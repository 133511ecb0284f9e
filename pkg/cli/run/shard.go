package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/preflight"
	"github.com/collectivex/collectivex/pkg/shard"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// jobReserve is the part of a job's time that a shard leaves to the job's other
// steps: downloads before it, summary and upload after it.
const jobReserve = 5 * time.Minute

type sharding struct {
	cli.Streams
	matrix, id, results, runID string
	resume, join, wait         bool
	limit                      time.Duration
	only                       []string
	repeat                     int
}

func newShard(s cli.Streams) *cobra.Command {
	r := sharding{Streams: s}
	cmd := &cobra.Command{
		Use:   "shard --matrix FILE --id CELL --results DIR",
		Short: "Run one cell of the matrix on this machine",
		Long: `Run the cases of one cell and write one JSON document per case into the results
directory. Cases of the same kind share a group of rank processes. A case that
crashes, hangs or fails does not affect the others; its document says why.

Raw samples are written to samples/ in the results directory, and the output of
ranks to logs/. Logs are private: do not publish them.

The exit code is 1 if a case failed, and 3 if this machine cannot continue. All
finished documents are then complete, and --resume continues after them.

--case and --repeat measure some cases of the cell again, as 'cxrun compare --new-run'
asks for.

Outside of Actions every cell is a run of its own, unless it resumes one or
--run-id names one.

With --join this process is one of the ranks of the cell, which mpirun, torchrun,
srun or Kubernetes started with this command; the environment says which one, and
CX_STORE where the ranks meet. The process of rank 0 writes the results. See
docs/fleet.md.`,
		Example: `  cxgen matrix --suite smoke -o matrix_full.json
  cxrun shard --matrix matrix_full.json --id local-host-bf16-n1 --results results`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			defer whileRead(c)()
			if r.limit <= 0 && c.Flags().Changed("limit") {
				return cli.UsageError("--limit %s: want a positive time such as 90m", r.limit)
			}
			if c.Flags().Changed(repeatFlag) && (r.repeat < 1 || r.repeat > maxRepeats) {
				return cli.UsageError("--repeat %d: want 1 to %d", r.repeat, maxRepeats)
			}
			return r.run(c.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.matrix, "matrix", "", "the matrix in `FILE`, made by this version of the program")
	f.StringVar(&r.id, "id", "", "run the cell with the id `CELL`")
	f.StringVar(&r.results, "results", "", "write the documents into `DIR`")
	for _, name := range []string{"matrix", "id", "results"} {
		_ = cmd.MarkFlagRequired(name) // fails only for unknown flags
	}
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == outFlag {
			name = "results"
		}
		return pflag.NormalizedName(name)
	})
	f.StringSliceVar(&r.only, caseFlag, nil, "only these cases, by the `ID` of the first repeat; a list with commas")
	f.IntVar(&r.repeat, repeatFlag, 0, "measure each case in `N` independent runs (default: as planned)")
	f.BoolVar(&r.resume, "resume", false, "continue where an earlier shard stopped in this results directory")
	f.BoolVar(&r.join, "join", false, "be one of the ranks that mpirun, torchrun, srun or Kubernetes started")
	f.StringVar(&r.runID, "run-id", "", "write documents of the run `ID`; for several cells of one run, started by hand")
	cli.AddWaitFlag(f, &r.wait)
	f.DurationVar(&r.limit, "limit", 0, "stop cleanly within this `TIME` (default: the cell's timeout, or with --case what these need, for each of --repeat, less five minutes)")
	return cmd
}

// minutes returns the time of the cell, of which the plan has that of one pass through all cases. A few cases of a long
// cell need no more than their budgets, which a partition of Slurm may admit where it refuses the cell's.
func (r *sharding) minutes(cell plan.Cell, cases []plan.Requested) int {
	all, some := cell.Minutes, 0
	for _, q := range cases {
		if slices.Contains(r.only, firstID(q.Case)) {
			some += q.BudgetSeconds
		}
	}
	repeat := max(1, r.repeat)
	if some == 0 {
		return all * repeat
	}
	return min(all*repeat, planner.OverheadMinutes+(some*repeat+59)/60)
}

func (r *sharding) run(ctx context.Context) (err error) {
	m, err := readMatrix(r.matrix)
	if err != nil {
		return err
	}
	cell, err := m.Cell(r.id)
	if err != nil {
		return cli.UsageError("%s: %w", r.matrix, err)
	}
	cases, err := m.Cases(cell)
	if err != nil {
		return cli.UsageError("%s: %w", r.matrix, err)
	}
	for _, id := range r.only {
		if !slices.ContainsFunc(cases, func(q plan.Requested) bool { return firstID(q.Case) == id }) {
			return cli.UsageError("--case %s: cell %s has no such case", id, cell.ID)
		}
	}
	cell.Minutes = r.minutes(cell, cases)
	cells, err := newCellRun(r.Streams, m, localRunID(time.Now())) // a fault may be meant for another cell
	if err != nil {
		return err
	}
	here := cell
	if r.join {
		here.Launcher = vocab.Bare // whatever started this process, its rank runs here
	}
	this, err := admitCells(ctx, r.Streams, []plan.Cell{here})
	if err != nil {
		return err
	}
	if err := r.identify(&cells.run); err != nil {
		return err
	}
	cells.results, cells.resume, cells.limit = r.results, r.resume, r.limit
	cells.only, cells.repeats = r.only, r.repeat
	if r.limit == 0 {
		cells.limit = time.Duration(cell.Minutes)*time.Minute - jobReserve
	}
	devices := devicesOf(m, []plan.Cell{here}, this)
	var member launch.Member
	if r.join {
		if member, err = memberOf(r.Streams, m, cell, cells.cluster); err != nil {
			return err
		}
		first := min(member.Place.LocalRank, len(devices)) // this process only runs the rank of its place
		devices = devices[first:min(first+1, len(devices))]
	}
	ctx, release, err := takeTurn(ctx, r.Streams, devices, r.wait)
	if err != nil {
		return err
	}
	defer release()
	if r.join {
		if cells.team, err = launch.Join(ctx, member, command.Host{}); err != nil {
			return cli.EnvironmentError("--join: %w", err)
		}
		defer func() { err = errors.Join(err, cells.team.Close(ctx, cli.ExitOK)) }()
		if !cells.team.Leads() {
			_, err := cells.team.Serve(ctx)
			return err
		}
	}
	counts, err := cells.do(ctx, r.Streams, cell)
	fmt.Fprintf(r.Out, "%s: %d passed, %d failed, %d kept (%d of them failed)\n",
		cell.ID, counts.Passed, counts.Failed, counts.Kept, counts.KeptFailed)
	if err != nil {
		return err
	}
	if failed := counts.NotPassed(); failed > 0 {
		return fmt.Errorf("%d of %s failed", failed, plural.Count(counts.Passed+counts.Failed+counts.Kept, "case", "cases"))
	}
	return nil
}

// firstID returns the id of the first repeat of c.
func firstID(c plan.Case) string {
	c.Repeat = 1
	return c.ID()
}

// admitCells refuses cells that are for another machine. It does not look for devices, which
// takes seconds, if all cells are for hosts. It returns what it found.
func admitCells(ctx context.Context, s cli.Streams, cells []plan.Cell) (this preflight.Survey, err error) {
	cells = slices.DeleteFunc(slices.Clone(cells), func(cell plan.Cell) bool { return cell.Vendor == vocab.Host })
	if len(cells) == 0 {
		return this, nil
	}
	if this, err = machineHere(ctx, cli.Definitions{}); err != nil {
		return this, err
	}
	warn(s, this.Unusable...)
	return this, admit(cells, this.Present)
}

// runIDs matches the run ids that people may give, which are part of documents and file names.
var runIDs = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// identify sets the run of the documents, unless it is the Actions job's: the run of --run-id,
// else the run that the shard resumes.
func (r *sharding) identify(run *shard.Run) error {
	var old []string
	if r.resume {
		runs, err := shard.RunsIn(r.results)
		if err != nil {
			return cli.EnvironmentError("%w", err)
		}
		old = slices.Sorted(maps.Keys(runs))
	}
	onActions := r.Getenv(runIDVariable) != ""
	switch {
	case r.runID == "" && (onActions || len(old) == 0):
	case r.runID == "" && len(old) > 1:
		return cli.UsageError("%s holds documents of runs %s; name one with --run-id", r.results, strings.Join(old, ", "))
	case r.runID == "":
		run.RunID = old[0]
	case !runIDs.MatchString(r.runID) || run.Screen.Check(r.runID) != nil:
		return cli.UsageError("--run-id %q: want up to 64 letters, digits, '.', '_' and '-', without host names or other private text", r.runID)
	case len(old) > 0 && !slices.Contains(old, r.runID):
		return cli.UsageError("--run-id %s: %s holds documents of run %s; resume that one, or use another directory", r.runID, r.results, strings.Join(old, ", "))
	default:
		run.RunID = r.runID
	}
	return nil
}
