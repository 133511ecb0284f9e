package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/table"
)

// headlines returns the headlines of the cases of all runs, as a summary shows them. Rows of the same case in
// several runs are adjacent.
func (b *builder) headlines() (out []table.Section) {
	for _, f := range family.All() {
		var of []table.Section
		for _, run := range b.Runs {
			for _, s := range f.Summary.Sections(b.repeats.Headlines(run.ID)).Headlines {
				if len(s.Table.Rows) > 0 {
					of = under(of, s, run.Name)
				}
			}
		}
		out = append(out, of...)
	}
	for i := range out {
		s := &out[i]
		order := map[string]int{}
		key := func(row []string) string { return strings.Join(row[1:s.Keys], "\x00") }
		for k, row := range s.Table.Rows {
			if _, ok := order[key(row)]; !ok {
				order[key(row)] = k
			}
		}
		slices.SortStableFunc(s.Table.Rows, func(x, y []string) int { return cmp.Compare(order[key(x)], order[key(y)]) })
		if len(b.Runs) == 1 {
			for _, row := range s.Table.Rows {
				row[0] = ""
			}
		}
		s.LiftCommon()
		s.Table.DropEmpty()
	}
	return out
}

// under appends the rows of section s to the section of all with the same title, with the name of the run as their
// first cell.
func under(all []table.Section, s table.Section, run string) []table.Section {
	i := slices.IndexFunc(all, func(o table.Section) bool { return o.Title == s.Title })
	if i < 0 {
		i = len(all)
		all = append(all, table.Section{Title: s.Title, Note: s.Note, Keys: s.Keys + 1, Table: &table.Table{
			Columns: slices.Concat(table.Text("run"), s.Table.Columns),
		}})
	}
	for _, row := range s.Table.Rows {
		all[i].Table.Rows = append(all[i].Table.Rows, slices.Concat([]string{run}, row))
	}
	return all
}

// Verdict formats the outcome of the cases of a run.
func (r Run) Verdict() string {
	parts := []string{fmt.Sprintf("%d of %s passed", r.Count.Success, plural.Count(r.Count.Cases+r.Count.Missing, "case", "cases"))}
	for _, p := range []struct {
		n    int
		what string
	}{{r.Count.Failed, "failed"}, {r.Count.Invalid, "invalid"}, {r.Count.Missing, "without a document"}, {r.Count.Unsupported, "unsupported"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

// Machines names the devices and libraries of the page, each once.
func (p *Page) Machines() []string {
	var out []string
	for _, o := range p.Origins {
		if o.fact("device") == "" && len(p.Origins) > 1 {
			continue // of a case whose ranks did not report
		}
		var parts []string
		for _, name := range []string{"device", "library version", "runtime"} {
			if v := o.fact(name); v != "" && !slices.Contains(parts, v) {
				parts = append(parts, v)
			}
		}
		if text := strings.Join(parts, ", "); text != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}
