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

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/shard"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// jobReserve is the part of a job's time that a shard leaves to the job's other
// steps: downloads before it, summary and upload after it.
const jobReserve = 5 * time.Minute

func newShard(s cli.Streams) *cobra.Command {
	var (
		matrix, id, results, runID string
		resume, join               bool
		limit                      time.Duration
	)
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

Outside of Actions every cell is a run of its own, unless it resumes one or
--run-id names one.

With --join this process is one of the ranks of the cell, which mpirun, torchrun,
srun or Kubernetes started with this command; the environment says which one, and
CX_STORE where the ranks meet. The process of rank 0 writes the results. See
docs/fleet.md.`,
		Example: `  cxgen matrix --suite smoke -o matrix_full.json
  cxrun shard --matrix matrix_full.json --id local-host-bf16-n1 --results results`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			defer whileRead(c)()
			if matrix == "" || id == "" || results == "" {
				return cli.UsageError("shard needs --matrix, --id and --results")
			}
			if limit <= 0 && c.Flags().Changed("limit") {
				return cli.UsageError("--limit %s: want a positive time such as 90m", limit)
			}
			m, err := readMatrix(matrix)
			if err != nil {
				return err
			}
			cell, err := m.Cell(id)
			if err != nil {
				return cli.UsageError("%s: %w", matrix, err)
			}
			// A fault may well be meant for another cell.
			if err := checkFaults(s, m); err != nil {
				return err
			}
			if err := admitCells(c.Context(), s, []plan.Cell{cell}); err != nil {
				return err
			}
			around, err := newCluster(s)
			if err != nil {
				return err
			}
			run, err := shardRun(s, runID, results, resume)
			if err != nil {
				return err
			}
			if limit == 0 {
				limit = time.Duration(cell.Minutes)*time.Minute - jobReserve
			}
			r := cellRun{matrix: m, cluster: around, run: run, results: results, resume: resume, limit: limit}
			if join {
				if r.team, err = joinTeam(c.Context(), s, m, cell, around); err != nil {
					return err
				}
				defer func() { err = errors.Join(err, r.team.Close()) }()
				if !r.team.Leads() {
					return r.team.Serve(c.Context())
				}
			}
			counts, err := r.do(c.Context(), s, cell)
			fmt.Fprintf(s.Out, "%s: %d passed, %d failed, %d kept (%d of them failed)\n",
				cell.ID, counts.Passed, counts.Failed, counts.Kept, counts.KeptFailed)
			if err != nil {
				return err
			}
			if failed := counts.NotPassed(); failed > 0 {
				return fmt.Errorf("%d of %s failed", failed, plural.Count(len(cell.CaseIDs), "case", "cases"))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&matrix, "matrix", "", "the matrix in `FILE`, made by this version of the program")
	f.StringVar(&id, "id", "", "run the cell with the id `CELL`")
	f.StringVar(&results, "results", "", "write the documents into `DIR`")
	f.BoolVar(&resume, "resume", false, "continue where an earlier shard stopped in this results directory")
	f.BoolVar(&join, "join", false, "be one of the ranks that mpirun, torchrun, srun or Kubernetes started")
	f.StringVar(&runID, "run-id", "", "write documents of the run `ID`; for several cells of one run, started by hand")
	f.DurationVar(&limit, "limit", 0, "stop cleanly within this `TIME` (default: the cell's timeout less five minutes)")
	return cmd
}

// admitCells refuses cells that are for another machine. Hosts are not asked:
// asking for devices takes seconds.
func admitCells(ctx context.Context, s cli.Streams, cells []plan.Cell) error {
	cells = slices.DeleteFunc(slices.Clone(cells), func(cell plan.Cell) bool { return cell.Vendor == vocab.Host })
	if len(cells) == 0 {
		return nil
	}
	this := machineHere(ctx, cli.Definitions{})
	warn(s, this.Unusable...)
	return admit(cells, this.Present)
}

// runIDs are the run ids that people may give: they stand in documents and in
// the names of files.
var runIDs = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// shardRun says which run the documents of a shard belong to: the one that
// runID names, else the one of the Actions job, else the one that it resumes,
// else one of its own.
func shardRun(s cli.Streams, runID, results string, resume bool) (shard.Run, error) {
	run, err := newRun(s, localRunID(time.Now()))
	if err != nil {
		return run, err
	}
	var old []string
	if resume {
		runs, err := shard.RunsIn(results)
		if err != nil {
			return run, cli.EnvironmentError("%w", err)
		}
		old = slices.Sorted(maps.Keys(runs))
	}
	onActions := s.Getenv(runIDVariable) != ""
	switch {
	case runID == "" && len(old) > 1 && !onActions:
		return run, cli.UsageError("%s holds documents of runs %s; name one with --run-id", results, strings.Join(old, ", "))
	case runID == "":
		if len(old) == 1 && !onActions {
			run.RunID = old[0]
		}
		return run, nil
	case !runIDs.MatchString(runID) || run.Screen.Check(runID) != nil:
		return run, cli.UsageError("--run-id %q: want up to 64 letters, digits, '.', '_' and '-', and nothing private", runID)
	case len(old) > 0 && !slices.Contains(old, runID):
		return run, cli.UsageError("--run-id %s: %s holds documents of run %s; resume that one, or use another directory", runID, results, strings.Join(old, ", "))
	}
	run.RunID = runID
	return run, nil
}
