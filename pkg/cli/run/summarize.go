package run

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/report"
)

func newSummarize(s cli.Streams) *cobra.Command {
	var (
		in             named
		matrix, format string
		gate           bool
	)
	cmd := &cobra.Command{
		Use:   "summarize --in DIR|FILE",
		Short: "Summarize a run: failed cases first, then one headline per case",
		Long: `Summarize the documents below a directory or in an NDJSON file. In a step of an
Actions job the summary is written to the job's page as Markdown, elsewhere to
standard output as text. With --format it always goes to standard output.`,
		Example: `  cxrun summarize --in results
  cxrun summarize --in run.ndjson --matrix matrix_full.json --format json --gate`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if !slices.Contains([]string{"", "markdown", "text", "json"}, format) {
				return cli.UsageError("unknown --format %q: want markdown, text or json", format)
			}
			if err := in.parse(); err != nil {
				return err
			}
			m, err := in.paths.answering(matrix)
			if err != nil {
				return err
			}
			sum, verdict, err := report.Build(in.paths, m)
			if err != nil {
				return cli.EnvironmentError("%w", err)
			}
			sum.Name(verdict.Names(in.given))
			printLeftOut(s, verdict)
			if err := printSummary(s, sum, format); err != nil {
				return err
			}
			if gate {
				return verdict.Err()
			}
			return nil
		},
	}
	in.addFlag(cmd)
	cmd.Flags().StringVar(&matrix, "matrix", "", "also list missing and unsupported cases of the matrix in `FILE`")
	cmd.Flags().StringVar(&format, "format", "", "write to standard output as `FORMAT`: markdown, text or json")
	cmd.Flags().BoolVar(&gate, "gate", false, "exit 1 if aggregate would")
	return cmd
}

// minMarkdown is the minimum size of a useful summary in bytes.
const minMarkdown = 4096

// printSummary prints sum as --format says.
func printSummary(s cli.Streams, sum *report.Summary, format string) error {
	switch format {
	case "text":
		return printText(s, sum)
	case "json":
		return sum.JSON(s.Out)
	case "markdown":
		return sum.Markdown(s.Out, report.MaxMarkdown)
	}
	left, ok := s.StepSummaryLeft(report.MaxMarkdown)
	if ok && left < minMarkdown {
		s.Tell("the job summary of this step is full: %d bytes left", left)
		ok = false
	}
	if !ok {
		return printText(s, sum)
	}
	var b strings.Builder
	if err := sum.Markdown(&b, left); err != nil {
		return err
	}
	return s.AddStepSummary(b.String())
}

// printText prints sum for people. On a terminal its tables fit, and its first line has the colour of the verdict.
func printText(s cli.Streams, sum *report.Summary) error {
	var b strings.Builder
	width, _ := s.Terminal(s.Out)
	if err := sum.Text(&b, width); err != nil {
		return err
	}
	colour := cli.Red
	if sum.Passed() {
		colour = cli.Green
	}
	verdict, rest, _ := strings.Cut(b.String(), "\n")
	_, err := fmt.Fprintf(s.Out, "%s\n%s", s.Paint(s.Out, colour, verdict), rest)
	return err
}
