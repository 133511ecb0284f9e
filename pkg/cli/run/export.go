package run

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/export"
	"github.com/collectivex/collectivex/pkg/fold"
	"github.com/collectivex/collectivex/pkg/plural"
)

func newExport(s cli.Streams) *cobra.Command {
	var (
		in          named
		out, format string
	)
	cmd := &cobra.Command{
		Use:   "export --in DIR|FILE -o FILE",
		Short: "Write figures for other tools: CSV, Parquet, Prometheus, Perfetto",
		Long: `Write the figures of the documents below a directory or in an NDJSON file in the
format that --format or the extension of the output names:

  csv      a table with one figure per row (pandas, spreadsheets, R)
  parquet  the same table (DuckDB, Polars, Spark)
  prom     gauges for the textfile collector of Prometheus' node_exporter
  json     the trace of one case, for Perfetto: ranks, windows, checks. It needs
           the raw samples beside the document

NAME=DIR names the runs below DIR, in the column run; by default they have the name of
the directory or file. For each case of a run, the attempt that counts is written: the
newest success, else the newest attempt. docs/export.md describes every column.

Without a document nothing is written, and the exit code is 1. It is also 1 if a file
was left out because it is not a document.`,
		Example: `  cxrun export --in results/monday -o monday.csv
  cxrun export --in before=run.ndjson --in after=results/monday -o run.parquet
  cxrun export --in run.ndjson -o - --format csv
  cxrun export --in results/monday/cells/CELL/DOCUMENT.json -o trace.json`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := in.parse(); err != nil {
				return err
			}
			format, err := formatOf(out, format, export.Formats())
			if err != nil {
				return err
			}
			var v *fold.Verdict
			if program := "cxrun " + cli.Build(); out == stdout {
				v, err = export.To(s.Out, in.paths, in.names, format, program)
			} else {
				v, err = export.Write(in.paths, in.names, out, format, program)
			}
			switch {
			case errors.Is(err, export.ErrNone):
				printLeftOut(s, v)
				return noDocument(in.paths...)
			case errors.Is(err, export.ErrInput):
				return cli.UsageError("%w", err)
			case err != nil:
				return cli.EnvironmentError("%w", err)
			}
			printLeftOut(s, v)
			tellWritten(s, out, len(v.Answers), len(v.Runs))
			return incomplete(in.paths, v)
		},
	}
	in.addFlag(cmd)
	addOutput(cmd, &out, &format, export.Formats())
	return cmd
}

// stdout is the output that means standard output.
const stdout = "-"

// addOutput adds the flags of a command that writes a file in one of formats. Their names are also file extensions.
func addOutput(cmd *cobra.Command, out, format *string, formats []string) {
	f := cmd.Flags()
	f.StringVarP(out, "output", "o", "", "write to `FILE`; - is standard output")
	f.StringVar(format, "format", "", "write as `FORMAT`: "+strings.Join(formats, ", ")+" (default: the extension of FILE)")
	_ = cmd.MarkFlagRequired("output") // fails only for unknown flags
	cli.MarkStdout(f, "output")
	complete(cmd, map[string][]string{"format": formats})
}

// formatOf returns the format in which to write to out: the named one, else the one of its extension. Standard
// output needs no name if there is only one format.
func formatOf(out, named string, formats []string) (string, error) {
	format := cmp.Or(named, strings.TrimPrefix(filepath.Ext(out), "."))
	switch {
	case slices.Contains(formats, format):
		return format, nil
	case named != "":
		return "", cli.UsageError("unknown --format %q: want %s", named, strings.Join(formats, ", "))
	case out == stdout && len(formats) == 1:
		return formats[0], nil
	case out == stdout:
		return "", cli.UsageError("-o -: name the format with --format: %s", strings.Join(formats, ", "))
	}
	return "", cli.UsageError("-o %s: name a file that ends in .%s, or the format with --format", out, strings.Join(formats, ", ."))
}

// tellWritten reports how much was written to out: on standard error if out is standard output.
func tellWritten(s cli.Streams, out string, cases, runs int) {
	text := fmt.Sprintf("%s of %s", plural.Count(cases, "case", "cases"), plural.Count(runs, "run", "runs"))
	if out == stdout {
		s.Tell("cxrun: %s", text)
		return
	}
	fmt.Fprintf(s.Out, "%s: %s\n", out, text)
}
