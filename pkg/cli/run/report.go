package run

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/report/page"
	"github.com/collectivex/collectivex/pkg/safefile"
)

func newReport(s cli.Streams) *cobra.Command {
	var (
		in                   named
		matrices             []string
		out, format, figures string
	)
	cmd := &cobra.Command{
		Use:   "report --in DIR|FILE -o FILE.html",
		Short: "Write charts and tables of one or more runs as one HTML file",
		Long: `Write the documents below directories or in NDJSON files as one HTML file with
charts, tables, coverage and, for several runs, a comparison with the first. The file
needs no network, and its tables can be read without scripts. docs/report.md explains it.
NAME=DIR names the runs below DIR; by default they have the name of the directory or
file. Without --matrix, the matrix that a sweep left beside its documents is read.

With --figures, the first chart of each view is also written as an SVG file.

Without a document and without a matrix nothing is written, and the exit code is 1. It is
also 1 if a file was left out because it is not a document.`,
		Example: `  cxrun report --in run.ndjson --matrix matrix_full.json -o report.html
  cxrun report --in monday.ndjson --in tuesday.ndjson -o week.html --figures figures
  cxrun report --in before=monday.ndjson --in after=tuesday.ndjson -o upgrade.html`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if _, err := formatOf(out, format, pageFormats); err != nil {
				return err
			}
			return writeReport(s, in, matrices, out, figures)
		},
	}
	in.addFlag(cmd)
	cmd.Flags().StringArrayVar(&matrices, "matrix", nil, "also list missing and unsupported cases of the matrix in `FILE`; may be repeated")
	addOutput(cmd, &out, &format, pageFormats)
	cmd.Flags().StringVar(&figures, "figures", "", "also write charts as SVG files into `DIR`")
	return cmd
}

// pageFormats are the formats of a report. A browser prints it as PDF.
var pageFormats = []string{"html"}

// writeReport writes the page to out and, unless figures is empty, charts into that directory.
func writeReport(s cli.Streams, in named, matrices []string, out, figures string) error {
	plans, err := in.plans(s, matrices)
	if err != nil {
		return err
	}
	p, v, err := page.Build(in.paths, in.names, plans)
	if err != nil {
		return cli.EnvironmentError("%w", err)
	}
	if len(plans) == 0 && len(v.Answers) == 0 {
		printLeftOut(s, v)
		return noDocument(in.paths...)
	}
	if err := writePage(s, p, out); err != nil {
		return cli.EnvironmentError("-o: %w", err)
	}
	if figures != "" {
		n, err := writeFigures(p, figures)
		switch {
		case err != nil:
			return cli.EnvironmentError("--figures: %w", err)
		case n == 0:
			s.Tell("cxrun: --figures: no case has figures to draw, so %s was not written", figures)
		}
	}
	printLeftOut(s, v)
	tellWritten(s, out, len(p.Cases), len(p.Runs))
	if len(plans) > 0 && len(v.Problems) == 0 {
		return nil // the page lists what is missing
	}
	return incomplete(in.paths, v)
}

func writePage(s cli.Streams, p *page.Page, out string) error {
	if out == stdout {
		return p.WriteHTML(s.Out)
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	return safefile.WriteAtomic(out, p.WriteHTML)
}

// writeFigures writes the first chart of each view, and returns how many there are.
func writeFigures(p *page.Page, dir string) (int, error) {
	pictures := p.Pictures()
	if len(pictures) == 0 {
		return 0, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	for _, f := range pictures {
		if err := os.WriteFile(filepath.Join(dir, f.Name+".svg"), f.SVG, 0o644); err != nil {
			return 0, err
		}
	}
	return len(pictures), nil
}
