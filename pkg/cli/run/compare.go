package run

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/compare"
	"github.com/collectivex/collectivex/pkg/fold"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/report"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sanitize"
)

type comparing struct {
	cli.Streams
	baseline  string
	effect    float64
	json, all bool
	again     confirmation
}

func newCompare(s cli.Streams) *cobra.Command {
	r := comparing{Streams: s}
	cmd := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Compare two sides of runs: faster, slower, the same or unclear",
		Long: `Compare the documents of OLD and NEW. Each is a directory or an NDJSON file, of any
number of runs; 'cxrun sweep --repeat N' makes several. Cases are matched by their
comparison key. A case that has no counterpart is listed with the factors that differ.
A case has the status of all its rungs together; the times and their change are those
of the rung named in "at". NAME=DIR names a side; by default it has the name of DIR.

The unit is a run with ranks of its own. A case is faster or slower if its shift is beyond
--min-effect and beyond the noise floor, which comes from the repeats. It is the same if
shift and floor together are within --min-effect. Everything else is unclear: with fewer
than five runs a side, that is every case. Of many cases, a few are beyond their floor by
chance: q is how likely that is, given their number, and with a q above 0.05 a case is
unclear, too. What is unclear comes with the number of runs that would be enough if shift
and noise are as measured.

--confirm measures suspect cases again: eight runs a side in pairs, in the order OLD NEW,
NEW OLD and so on. It needs to know how OLD and NEW are run: as commands that take the flags
of 'cxrun sweep', or as this program with other environment, such as the path of a library.
An effect is confirmed if these runs show it beyond a noise floor of their own, and seven of
the eight pairs agree. If that fails and at least five agree, a second stage measures eight
further pairs: of all sixteen, twelve must agree. A suspect that is not confirmed is unclear.
The figures of a suspect are then those of the second measurement.
If the directory of --confirm already has such runs, they are read instead.

With --baseline, a single run of NEW is enough for a suspect if the history has five runs of
its case, and --confirm measures NEW alone again, eight or sixteen times, and compares these
runs with the history. The trend is the time in each run of the history and in NEW. What the
machine did to all of them, such as a load that lasted, is confirmed too.

The exit code is 1 if a regression is confirmed, in either stage, if NEW has only failures
in a case that OLD passed, if a side has no document, if runs that --confirm measured lack
a suspect, or if a file or line was left out because it is not a document; everything else
is still compared.`,
		Example: `  cxrun compare old.ndjson new.ndjson
  cxrun compare results/monday results/tuesday --json
  cxrun compare old=results/monday new=results/tuesday
  cxrun compare --baseline history results/today
  cxrun compare --baseline history results/today --confirm again
  cxrun compare old.ndjson new.ndjson --confirm again --old-env CX_NCCL_LIB=/opt/old/libnccl.so.2
  cxrun compare old.ndjson new.ndjson --confirm again2 --old-run '/opt/old/cxrun sweep --suite smoke'`,
		RunE: func(c *cobra.Command, args []string) error {
			if r.baseline != "" {
				args = append([]string{r.baseline}, args...)
			}
			if len(args) != 2 {
				return cli.UsageError("compare needs OLD and NEW, or --baseline DIR and NEW: directories of documents or NDJSON files")
			}
			return r.compare(c, args)
		},
	}
	cmd.Flags().StringVar(&r.baseline, "baseline", "", "compare with all runs below `DIR`, the history, except the runs of NEW")
	cmd.Flags().Float64Var(&r.effect, "min-effect", 3, "smallest effect that counts, in `PERCENT`")
	r.again.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&r.json, "json", false, "write JSON, with every rung, instead of a table")
	cmd.Flags().BoolVar(&r.all, "all", false, "also list what is the same")
	return cmd
}

// compare compares the sides at two paths, and fails if there is a regression or if either side
// is incomplete.
func (r *comparing) compare(cmd *cobra.Command, paths []string) error {
	if !(r.effect > 0 && r.effect < 1000) {
		return cli.UsageError("--min-effect %v: want per cent above 0, such as 3", r.effect)
	}
	sides := named{args: paths}
	sides.split()
	paths = sides.paths
	for i, path := range paths {
		if err := checkInput(path); err != nil {
			return cli.UsageError("%w", err)
		}
		sides.names[i] = cmp.Or(sides.names[i], path)
	}
	newer, verdict, err := side(r.Streams, paths[1], nil)
	if err != nil {
		return err
	}
	var runs []string
	if r.baseline != "" {
		runs = verdict.Runs
	}
	older, before, err := side(r.Streams, paths[0], runs)
	if err != nil {
		return err
	}
	if r.baseline != "" {
		if err := r.again.compareWith(older); err != nil {
			return err
		}
	}
	if err := r.again.check(); err != nil {
		return err
	}
	o := compare.Options{Effect: math.Log1p(r.effect / 100), History: r.baseline != ""}
	c := compare.Of(older, newer, o)
	if r.again.dir != "" {
		defer whileRead(cmd)()
		problems, err := r.again.confirm(cmd.Context(), r.Streams, c, o)
		if err != nil {
			return err
		}
		before.Problems = append(before.Problems, problems...)
	}
	if r.json {
		err = r.JSON(c)
	} else {
		err = r.print(c, sides.names)
	}
	if err != nil {
		return err
	}
	before.Problems = append(before.Problems, verdict.Problems...)
	lines := c.Regressions()
	for _, err := range []error{r.again.unfinished(), incomplete(paths, before)} {
		if err != nil {
			lines = append(lines, err.Error())
		}
	}
	if len(lines) > 0 {
		return errors.New(strings.Join(lines, "; "))
	}
	return nil
}

// side reads the documents at path that count for their cases. Documents of the runs in
// without are left out.
func side(s cli.Streams, path string, without []string) (*compare.Side, *fold.Verdict, error) {
	judge := fold.NewJudge(nil, fold.Expected{})
	counting := map[fold.Case]result.Document{}
	excluded := false // whether path has documents of the runs in without
	for rec, err := range fold.Read([]string{path}) {
		if p, ok := errors.AsType[*fold.Problem](err); ok {
			judge.Problem(p)
			continue
		} else if err != nil {
			return nil, nil, cli.EnvironmentError("%w", err)
		}
		if slices.Contains(without, rec.Head.RunID) {
			excluded = true
			continue
		}
		if _, counts := judge.Record(rec); !counts {
			continue
		}
		counting[fold.Case{Run: rec.Head.RunID, ID: rec.Head.CaseID}] = rec.Document
	}
	v := judge.Verdict(nil)
	printLeftOut(s, v)
	out := &compare.Side{}
	for _, a := range v.Answers {
		if d := counting[a.Case]; d != nil {
			out.Add(d)
		}
	}
	switch {
	case out.Len() > 0:
		return out, v, nil
	case excluded:
		return nil, nil, fmt.Errorf("%s has only the runs of NEW: name a directory that also has earlier runs", path)
	}
	return nil, nil, noDocument(path)
}

// print prints the comparison, and adds it to the summary of a job of Actions.
func (r *comparing) print(c *compare.Comparison, names []string) error {
	var b strings.Builder
	if err := printComparison(&b, c, names, r.all); err != nil {
		return err
	}
	if _, err := io.WriteString(r.Out, b.String()); err != nil {
		return err
	}
	text := "## Comparison\n\n```\n" + strings.ReplaceAll(b.String(), "`", "'") + "```\n"
	switch left, ok := r.StepSummaryLeft(report.MaxMarkdown); {
	case !ok:
		return nil
	case len(text) > left:
		r.Tell("the comparison does not fit into the job summary: it has %d bytes, and %d are left", len(text), left)
		return nil
	}
	return r.AddStepSummary(text)
}

// printComparison prints the names of the sides, what differs beside the keys, the cases by
// the size of their effect, and counts.
func printComparison(w io.Writer, c *compare.Comparison, names []string, all bool) error {
	fmt.Fprintf(w, "OLD %s, NEW %s\n", sanitize.Line(names[0]), sanitize.Line(names[1]))
	for _, d := range c.Beside {
		fmt.Fprintln(w, sanitize.Line(d.String()))
	}
	if n, history := c.History(); history && n < compare.MinRuns {
		fmt.Fprintf(w, "the history has %s of a case at most, and nothing is suspect before it has %d\n", plural.Count(n, "run", "runs"), compare.MinRuns)
	}
	fmt.Fprintln(w)
	if err := c.Text(w, all); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, c.Verdict())
	return err
}
