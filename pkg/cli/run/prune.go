package run

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/prune"
	"github.com/collectivex/collectivex/pkg/result"
)

func newPrune(s cli.Streams) *cobra.Command {
	var (
		r           prune.Retention
		apply, json bool
	)
	cmd := &cobra.Command{
		Use:   "prune --in DIR --to DIR",
		Short: "Move old runs and raw samples out of a directory of results",
		Long: `Decide which runs in a directory of results stay, and print what would be moved.
With --apply, move the others into the directory --to, which must be on the same
file system. Nothing is ever deleted: delete that directory yourself.

A run (a directory with documents, or a FILE.ndjson) stays if
  - it is among the newest --keep runs with a success of one of its cases (same
    case id and comparison key), or, for a case that never succeeded, among the
    newest with an attempt,
  - a baseline has documents of it,
  - one of its files cannot be read, or
  - a process writes to it.
Of the runs that stay, the raw samples stay for the newest --keep-samples.
Whatever else is in the directory stays, too.`,
		Example: `  cxrun prune --in results --to old-results
  cxrun prune --in results --to old-results --keep 10 --baseline results/release-1.ndjson --apply`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("keep-samples") {
				r.Samples = r.Runs
			}
			p, err := prune.New(r)
			switch {
			case err != nil:
			case json:
				err = writeLine(s.Out, p)
			default:
				printPlan(s, p, apply)
			}
			if err == nil && apply {
				err = p.Apply()
			}
			switch {
			case errors.Is(err, prune.ErrUsage):
				return cli.UsageError("%w", err)
			case err != nil:
				return cli.EnvironmentError("%w", err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.Results, "in", "", "the runs in `DIR`")
	f.StringVar(&r.To, "to", "", "move them into `DIR`, beside the results")
	_ = cmd.MarkFlagRequired("in") // fails only for unknown flags
	_ = cmd.MarkFlagRequired("to")
	f.IntVar(&r.Runs, "keep", 5, "keep the newest `N` runs of each case")
	f.IntVar(&r.Samples, "keep-samples", 0, "keep the raw samples of the newest `N` runs of each case (default: as --keep)")
	f.StringArrayVar(&r.Baselines, "baseline", nil, "keep the runs of the documents in `DIR|FILE`; may be repeated")
	f.BoolVar(&apply, "apply", false, "move; without it nothing changes")
	f.BoolVar(&json, "json", false, "print the plan as JSON")
	return cmd
}

func writeLine(w io.Writer, v any) error {
	text, err := result.Encode(v)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

func printPlan(s cli.Streams, p *prune.Plan, apply bool) {
	gone, samples := 0, 0
	for _, e := range p.Entries {
		switch {
		case e.Keep == "":
			gone++
			fmt.Fprintf(s.Out, "move  %s: %s, newest %s\n", e.Name, plural.Count(e.Documents, "document", "documents"), e.Newest.UTC().Format("2006-01-02"))
		case len(e.Samples) > 0:
			samples++
			fmt.Fprintf(s.Out, "keep  %s: %s; move %s\n", e.Name, e.Keep, strings.Join(e.Samples, ", "))
		default:
			fmt.Fprintf(s.Out, "keep  %s: %s\n", e.Name, e.Keep)
		}
	}
	fmt.Fprintf(s.Out, "%s and the samples of %s to move\n", plural.Count(gone, "run", "runs"), plural.Count(samples, "run", "runs"))
	if !apply && gone+samples > 0 {
		fmt.Fprintln(s.Out, "nothing was moved; add --apply")
	}
}
