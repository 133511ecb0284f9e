package run

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/export"
	"github.com/collectivex/collectivex/pkg/plural"
)

func newExport(s cli.Streams) *cobra.Command {
	var (
		in  inputs
		out string
	)
	cmd := &cobra.Command{
		Use:   "export --in DIR|FILE -o FILE",
		Short: "Write the figures of a run for other tools: CSV, Parquet, Prometheus, Perfetto",
		Long: `Write the figures of the documents below a directory or in an NDJSON file in the
format that the extension of the output names:

  .csv      a table with one figure per row (pandas, spreadsheets, R)
  .parquet  the same table (DuckDB, Polars, Spark)
  .prom     gauges for the textfile collector of Prometheus' node_exporter
  .json     the trace of one case, for Perfetto: ranks, windows, checks. It needs
            the raw samples beside the document

For each case of a run, the attempt that counts is written: the newest success,
else the newest attempt. docs/export.md describes every column.

The exit code is 1 if there is no document, or if a file was left out because it is
not a document.`,
		Example: `  cxrun export --in results/monday -o monday.csv
  cxrun export --in run.ndjson -o run.parquet
  cxrun export --in results/monday/cells/CELL/DOCUMENT.json -o trace.json`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := in.check(); err != nil {
				return err
			}
			v, err := export.Write(in, out, "cxrun "+cli.Build())
			switch {
			case errors.Is(err, export.ErrForm):
				return cli.UsageError("-o %s: name a file that ends in %s", out, strings.Join(export.Extensions(), ", "))
			case errors.Is(err, export.ErrInput):
				return cli.UsageError("%w", err)
			case err != nil:
				return cli.EnvironmentError("%w", err)
			}
			printLeftOut(s, v)
			fmt.Fprintf(s.Out, "%s: %s of %s\n", out, plural.Count(len(v.Answers), "case", "cases"), plural.Count(len(v.Runs), "run", "runs"))
			return incomplete(in, v)
		},
	}
	in.addFlag(cmd)
	cmd.Flags().StringVarP(&out, "output", "o", "", "write to `FILE`, whose extension names the format")
	_ = cmd.MarkFlagRequired("output") // fails only for unknown flags
	return cmd
}
