package page

import (
	"errors"
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/compare"
	"github.com/collectivex/collectivex/pkg/fold"
	"github.com/collectivex/collectivex/pkg/sanitize"
)

// Comparison is the comparison of a later run with the first.
type Comparison struct {
	Run, First string
	Beside     []string   // differences besides the comparison keys
	Rows       [][]string // by Heads, the largest effect first, then rows that were not compared
	More       int        // omitted rows
	Notes      compare.Notes
	Verdict    string // how many cases and metrics have each status
}

// maxCompared limits the rows of a comparison.
const maxCompared = 2000

// Heads returns the column headings of comparisons: the case, the columns of package compare, and one for the
// spread of changes over the rungs of a case.
func (*Page) Heads() []string {
	return slices.Concat([]string{"case"}, compare.Columns(), []string{"rungs"})
}

// compare compares the later runs with the first. It reads their documents again, since most reports have
// one run and need not keep figures.
func (b *builder) compare(in []string) error {
	if len(b.Runs) < 2 {
		return nil
	}
	sides := make([]compare.Side, len(b.Runs))
	for rec, err := range fold.Read(in) {
		if _, ok := errors.AsType[*fold.Problem](err); ok {
			continue
		} else if err != nil {
			return err
		}
		run, stands := b.sources[rec.Source]
		if !stands {
			continue
		}
		delete(b.sources, rec.Source) // a file that is named twice counts once
		sides[run].Add(rec.Document)
	}
	if len(sides) >= minTrend {
		b.trends(sides)
	}
	for run := 1; run < len(sides); run++ {
		c := compare.Of(&sides[0], &sides[run], compare.Options{})
		if len(sides) > 2 && unlike(c) {
			continue
		}
		out := Comparison{Run: b.Runs[run].Name, First: b.Runs[0].Name, Verdict: c.Verdict()}
		for _, d := range c.Beside {
			out.Beside = append(out.Beside, sanitize.Line(d.String()))
		}
		for i := range c.Cases {
			for n, line := range c.Cases[i].Lines(true) {
				rungs := ""
				if n == 0 {
					rungs = apart(c.Cases[i].Rungs)
				}
				row := slices.Concat([]string{line.CaseID}, out.Notes.Mark(line).Cells, []string{rungs})
				for j := range row {
					row[j] = sanitize.Line(row[j])
				}
				out.Rows = append(out.Rows, row)
			}
		}
		out.More = max(0, len(out.Rows)-maxCompared)
		out.Rows = out.Rows[:len(out.Rows)-out.More]
		b.Comparisons = append(b.Comparisons, out)
	}
	return nil
}

// unlike reports whether the sides have no case in common.
func unlike(c *compare.Comparison) bool {
	return !slices.ContainsFunc(c.Cases, func(k compare.Case) bool {
		return k.Why != "" || k.Status != compare.New && k.Status != compare.Gone
	})
}

// minTrend is the minimum number of runs of a trend: two are compared.
const minTrend = 3

// trends adds the trend of each case over all runs.
func (b *builder) trends(sides []compare.Side) {
	var all []*compare.Side
	for i := range sides {
		all = append(all, &sides[i])
	}
	for _, t := range compare.Trends(all...) {
		bars, last, change := t.Columns()
		b.Trends = append(b.Trends, []string{sanitize.Line(t.CaseID), t.Metric, sanitize.Line(t.At), bars, fmt.Sprint(len(t.Us)), last, change})
	}
	b.MoreTrends = max(0, len(b.Trends)-maxCompared)
	b.Trends = b.Trends[:len(b.Trends)-b.MoreTrends]
}

// apart formats the number of rungs of a case and their smallest and largest change. It returns "" for an empty
// list, which stands for a single rung.
func apart(rungs []compare.Rung) string {
	if len(rungs) == 0 {
		return ""
	}
	low, high := rungs[0].Ratio, rungs[0].Ratio
	for _, r := range rungs {
		low, high = min(low, r.Ratio), max(high, r.Ratio)
	}
	return fmt.Sprintf("%d: %+.1f … %+.1f %%", len(rungs), 100*(low-1), 100*(high-1))
}
