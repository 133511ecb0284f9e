package run

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/compare"
	"github.com/collectivex/collectivex/pkg/fold"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sanitize"
)

func newCompare(s cli.Streams) *cobra.Command {
	var (
		baseline  string
		effect    float64
		json, all bool
		again     confirmation
	)
	cmd := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Compare two sides, each one or more runs: what is faster, slower, the same or unclear",
		Long: `Compare the documents of OLD and NEW. Each is a directory or an NDJSON file, of any
number of runs; 'cxrun sweep --repeat N' makes several. Cases are matched by their
comparison key. A case that has no counterpart is listed with the factors that differ.
The change of a case is that of all its rungs; the times are those of the rung named in "at".

The unit is a run with ranks of its own. A case is faster or slower if its shift is beyond
--min-effect and beyond the noise floor, which comes from the repeats. It is the same if
shift and floor together are within --min-effect. Everything else is unclear: with fewer
than five runs a side, that is every case. Of many cases, a few are beyond their floor by
chance: q is how likely that is, given their number, and with a q above 0.05 a case is
unclear, too.

--confirm measures what is suspect again: eight runs a side in pairs, in the order OLD NEW,
NEW OLD and so on. It needs to know how OLD and NEW are run: as commands that take the flags
of 'cxrun sweep', or as this program with other environment, such as the path of a library.
An effect is confirmed if these runs show it beyond a noise floor of their own, and seven of
the eight pairs agree. If that fails and at least five agree, a second stage measures eight
further pairs: of all sixteen, twelve must agree. What is not confirmed is unclear. A
directory that has such runs already is read.

The exit code is 1 if a regression is confirmed, in either stage, if NEW has only failures
in a case that OLD passed, if a side has no document, or if a file or line was left out
because it is not a document; everything else is compared all the same.`,
		Example: `  cxrun compare old.ndjson new.ndjson
  cxrun compare results/monday results/tuesday --json
  cxrun compare --baseline history results/today
  cxrun compare old.ndjson new.ndjson --confirm again --old-env CX_NCCL_LIB=/opt/old/libnccl.so.2
  cxrun compare old.ndjson new.ndjson --confirm again2 --old-run '/opt/old/cxrun sweep --suite smoke'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if baseline != "" {
				args = append([]string{baseline}, args...)
			}
			if len(args) != 2 {
				return cli.UsageError("compare needs OLD and NEW, or --baseline DIR and NEW: directories of documents or NDJSON files")
			}
			if !(effect > 0 && effect < 1000) {
				return cli.UsageError("--min-effect %v: want per cent above 0, such as 3", effect)
			}
			for _, path := range args {
				if err := checkInput(path); err != nil {
					return cli.UsageError("%w", err)
				}
			}
			o := compare.Options{Effect: math.Log1p(effect / 100)}
			newer, verdict, err := side(s, args[1], nil)
			if err != nil {
				return err
			}
			var runs []string
			if baseline != "" {
				runs = verdict.Runs
			}
			older, before, err := side(s, args[0], runs)
			if err != nil {
				return err
			}
			if err := again.check(); err != nil {
				return err
			}
			c := compare.Of(older, newer, o)
			if again.dir != "" {
				defer whileRead(cmd)()
				problems, err := again.confirm(cmd.Context(), s, c, o)
				if err != nil {
					return err
				}
				before.Problems = append(before.Problems, problems...)
			}
			if json {
				err = writeJSON(s.Out, c)
			} else {
				err = printComparison(s.Out, c, all)
			}
			if err != nil {
				return err
			}
			before.Problems = append(before.Problems, verdict.Problems...)
			lines := c.Regressions()
			if err := incomplete(args, before); err != nil {
				lines = append(lines, err.Error())
			}
			if len(lines) > 0 {
				return errors.New(strings.Join(lines, "; "))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&baseline, "baseline", "", "compare with all runs below `DIR`, the history, but those of NEW itself")
	cmd.Flags().Float64Var(&effect, "min-effect", 3, "smallest effect that counts, in `PERCENT`")
	again.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&json, "json", false, "write JSON, with every rung, instead of a table")
	cmd.Flags().BoolVar(&all, "all", false, "also list what is the same")
	return cmd
}

// side reads the documents at path that stand for their cases. Documents of the runs in
// without are left out.
func side(s cli.Streams, path string, without []string) (*compare.Side, *fold.Verdict, error) {
	judge := fold.NewJudge(nil, fold.Expected{})
	standing := map[fold.Case]result.Document{}
	for rec, err := range fold.Read([]string{path}, true) {
		if p, ok := errors.AsType[*fold.Problem](err); ok {
			judge.Problem(p)
			continue
		} else if err != nil {
			return nil, nil, cli.EnvironmentError("%w", err)
		}
		if slices.Contains(without, rec.Head.RunID) {
			continue
		}
		if _, stands := judge.Record(rec); !stands {
			continue
		}
		d, err := rec.Document()
		if err != nil {
			judge.Problem(&fold.Problem{Source: rec.Source, Err: err})
			continue
		}
		standing[fold.Case{Run: rec.Head.RunID, ID: rec.Head.CaseID}] = d
	}
	v := judge.Verdict(nil)
	printLeftOut(s, v)
	out := &compare.Side{}
	for _, a := range v.Answers {
		if d := standing[a.Case]; d != nil {
			out.Add(d)
		}
	}
	if out.Len() == 0 {
		return nil, nil, noDocument(path)
	}
	return out, v, nil
}

// printComparison prints what differs beside the keys, the cases by the size of their
// effect, and counts.
func printComparison(w io.Writer, c *compare.Comparison, all bool) error {
	var b strings.Builder
	for _, d := range c.Beside {
		fmt.Fprintln(&b, sanitize.Line(d.String()))
	}
	if len(c.Beside) > 0 {
		b.WriteString("\n")
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(compare.Columns(), "\t"))
	for i := range c.Cases {
		for _, line := range c.Cases[i].Rows(all) {
			for j := range line {
				line[j] = sanitize.Line(line[j])
			}
			fmt.Fprintln(t, strings.Join(line, "\t"))
		}
	}
	if err := t.Flush(); err != nil { // a strings.Builder never fails
		return err
	}
	var counts []string
	for _, status := range compare.Statuses() {
		if n := c.Counts[status]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, status))
		}
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Join(counts, ", "))
	_, err := io.WriteString(w, b.String())
	return err
}
