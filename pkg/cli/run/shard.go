package run

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/shard"
)

// jobReserve is the part of a job's time that a shard leaves to the job's other
// steps: downloads before it, summary and upload after it.
const jobReserve = 5 * time.Minute

func newShard(s cli.Streams) *cobra.Command {
	var (
		matrix, id, results string
		resume              bool
		limit               time.Duration
	)
	cmd := &cobra.Command{
		Use:   "shard --matrix FILE --id CELL --results DIR",
		Short: "Run one cell of the matrix on this machine",
		Long: `Run the cases of one cell, each in a group of ranks that stays warm from case to
case, and write one JSON document per case into the results directory. A case
that dies, hangs or fails costs itself alone; its document says why.

Raw samples are kept in samples/ of the results. What ranks print is in logs/,
which is private: it is not made to be published.

Exit code 1 where a case failed, 3 where this machine cannot go on: then the
documents that were finished are whole, and --resume goes on after them.`,
		Example: `  cxgen matrix --suite smoke -o matrix_full.json
  cxrun shard --matrix matrix_full.json --id local-host-bf16-n1 --results results`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if matrix == "" || id == "" || results == "" {
				return cli.UsageError("shard needs --matrix, --id and --results")
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
			if err := checkFaults(s, m.Requested()); err != nil {
				return err
			}
			if cell.Vendor != hostVendor { // asking for devices takes seconds
				this := machineHere(c.Context(), cli.Definitions{})
				warn(s, this.Unusable...)
				if err := admit([]plan.Cell{cell}, this.Present); err != nil {
					return err
				}
			}
			local := localRunID(time.Now())
			if resume {
				if local, err = shard.RunIn(results, local); err != nil {
					return cli.EnvironmentError("%w", err)
				}
			}
			run, err := newRun(s, local)
			if err != nil {
				return err
			}
			if limit < 0 {
				return cli.UsageError("--limit %s: a time limit is positive", limit)
			}
			if limit == 0 {
				limit = time.Duration(cell.Minutes)*time.Minute - jobReserve
			}
			r := cellRun{matrix: m, run: run, results: results, resume: resume, limit: limit}
			counts, err := r.do(c.Context(), s, cell)
			fmt.Fprintf(s.Out, "%s: %d passed, %d failed, %d kept\n", cell.ID, counts.Passed, counts.Failed, counts.Kept)
			if err != nil {
				return err
			}
			if counts.Failed > 0 {
				return fmt.Errorf("%d of %d cases failed", counts.Failed, len(cell.CaseIDs))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&matrix, "matrix", "", "the matrix in `FILE`, made by this version of the program")
	f.StringVar(&id, "id", "", "run this `CELL` of the matrix")
	f.StringVar(&results, "results", "", "write the documents into `DIR`")
	f.BoolVar(&resume, "resume", false, "go on where an earlier shard on the results stopped")
	f.DurationVar(&limit, "limit", 0, "end orderly within this `TIME`; the cell's minutes less five unless said")
	return cmd
}
