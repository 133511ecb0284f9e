package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Section is one part of a summary, the same for every form of it.
type Section struct {
	Title  string
	Note   string
	Table  *Table
	Keys   int // leading columns of the table that tell its rows apart
	Charts []Chart
	Folded bool // details

	common string // key columns that are equal in all rows
}

// liftCommon takes the key columns that are equal in all rows out of the table
// and names them once.
func (s *Section) liftCommon() {
	var common []string
	for i := s.Keys - 1; i >= 0; i-- {
		value := s.Table.Rows[0][i]
		if slices.ContainsFunc(s.Table.Rows, func(r []string) bool { return r[i] != value }) {
			continue
		}
		if value != "" {
			common = append(common, s.Table.Columns[i].Name+" "+value)
		}
		s.Table.remove(i)
	}
	slices.Reverse(common)
	s.common = strings.Join(common, ", ")
}

// Chart is one series over labelled positions. Charts have no logarithmic axis
// and no legend, so that latencies, which need both, stand in tables.
type Chart struct {
	Title  string
	X, Y   string
	Labels []string
	Values []float64
}

func (s *Summary) sections() []Section {
	var of Sections
	for _, f := range families.All() {
		got := f.Sections(s.Headlines)
		of.Warnings = append(of.Warnings, got.Warnings...)
		of.Headlines = append(of.Headlines, got.Headlines...)
		of.Details = append(of.Details, got.Details...)
	}
	all := slices.Concat(
		[]Section{s.failedSection(), s.missingSection(), s.rejectedSection(), s.unrequestedSection(), s.warningSection()},
		of.Warnings, of.Headlines, []Section{s.machineSection()}, of.Details, []Section{s.unsupportedSection()})
	all = slices.DeleteFunc(all, func(s Section) bool { return len(s.Table.Rows) == 0 })
	for i := range all {
		all[i].liftCommon()
		all[i].Table.dropEmpty()
	}
	return all
}

// verdict is the first line of every form.
func (s *Summary) verdict() string {
	c := s.Counts
	asked := c.Cases
	if s.Requests != nil {
		asked = s.Requests.Cases
	}
	parts := []string{fmt.Sprintf("%d of %s passed", c.Success, plural(asked, "case"))}
	for _, p := range []struct {
		n    int
		what string
	}{{c.Failed, "failed"}, {c.Invalid, "invalid"}, {c.Missing, "without a document"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	unsupported := c.Unsupported
	if s.Requests != nil {
		unsupported += s.Requests.Unsupported
	}
	if unsupported > 0 {
		parts = append(parts, fmt.Sprintf("%d unsupported", unsupported))
	}
	if extra := c.Attempts - c.Cases; extra > 0 {
		parts = append(parts, plural(extra, "further attempt"))
	}
	line := strings.Join(parts, ", ")
	if len(s.Runs) == 1 && s.Runs[0] != "" {
		line = "run " + s.Runs[0] + ": " + line
	}
	return line
}

func (s *Summary) failedSection() Section {
	t := &Table{Columns: append(text("cell", "case", "status", "reason"), figure("rows", "attempts")...)}
	for _, f := range s.Failed {
		t.Rows = append(t.Rows, []string{
			f.Cell, f.CaseID, f.Status, f.Reasons.String(),
			fmt.Sprintf("%d of %d", f.Measured, f.Asked), strconv.Itoa(f.Attempts),
		})
	}
	return Section{Title: "Failed cases", Table: t}
}

func (s *Summary) missingSection() Section {
	t := &Table{Columns: text("cell", "case")}
	for _, m := range s.Missing {
		t.Rows = append(t.Rows, []string{m.Cell, m.CaseID})
	}
	return Section{
		Title: "Cases without a document", Table: t,
		Note: "The cell ended without writing a document. Its log says why.",
	}
}

func (s *Summary) warningSection() Section {
	t := &Table{Columns: append(text("warning", "first case"), figure("cases")...)}
	for _, w := range s.Warnings {
		t.Rows = append(t.Rows, []string{w.Text, w.Cases[0], strconv.Itoa(len(w.Cases))})
	}
	return Section{Title: "Warnings", Table: t, Note: "The figures count, but the devices were not at their best, or their state is unknown."}
}

func (s *Summary) unrequestedSection() Section {
	t := &Table{Columns: text("case")}
	for _, id := range s.Unrequested {
		t.Rows = append(t.Rows, []string{id})
	}
	return Section{Title: "Cases that were not requested", Table: t}
}

func (s *Summary) rejectedSection() Section {
	t := &Table{Columns: append(text("what is wrong"), figure("files")...)}
	for _, r := range s.Rejected {
		t.Rows = append(t.Rows, []string{r.Reason, strconv.Itoa(r.Files)})
	}
	return Section{Title: "Files left out", Table: t, Note: "The log names them."}
}

func (s *Summary) unsupportedSection() Section {
	t := &Table{Columns: text("case", "reason", "detail")}
	for _, u := range s.Unsupported {
		t.Rows = append(t.Rows, []string{u.CaseID, u.Reason, u.Detail})
	}
	return Section{Title: "Unsupported cases", Table: t, Folded: true}
}

func (s *Summary) machineSection() Section {
	t := &Table{Columns: append(text("SKU", "backend", "device", "framework", "runtime", "library"), figure("cases")...)}
	for _, m := range s.Machines {
		t.Rows = append(t.Rows, []string{m.SKU, m.Backend, m.Device, m.Framework, m.Runtime, m.Library, strconv.Itoa(m.Cases)})
	}
	return Section{Title: "Measured on", Table: t}
}
