package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/table"
)

func (s *Summary) sections() []table.Section {
	var of family.Sections
	for _, f := range family.All() {
		got := f.Summary.Sections(s.Headlines)
		of.Warnings = append(of.Warnings, got.Warnings...)
		of.Headlines = append(of.Headlines, got.Headlines...)
		of.Details = append(of.Details, got.Details...)
	}
	all := slices.Concat(
		[]table.Section{s.failedSection(), s.missingSection(), s.rejectedSection(), s.unrequestedSection(), s.warningSection()},
		of.Warnings, of.Headlines, []table.Section{s.machineSection()}, of.Details, []table.Section{s.unsupportedSection()})
	all = slices.DeleteFunc(all, func(s table.Section) bool { return len(s.Table.Rows) == 0 })
	for i := range all {
		all[i].LiftCommon()
		all[i].Table.DropEmpty()
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
	parts := []string{fmt.Sprintf("%d of %s passed", c.Success, table.Plural(asked, "case"))}
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
		parts = append(parts, table.Plural(extra, "further attempt"))
	}
	line := strings.Join(parts, ", ")
	if len(s.Runs) == 1 && s.Runs[0] != "" {
		line = "run " + s.Runs[0] + ": " + line
	}
	return line
}

func (s *Summary) failedSection() table.Section {
	t := &table.Table{Columns: append(table.Text("cell", "case", "status", "reason"), table.Figures("rows", "attempts")...)}
	for _, f := range s.Failed {
		t.Rows = append(t.Rows, []string{
			f.Cell, f.CaseID, f.Status, f.Reasons.String(),
			fmt.Sprintf("%d of %d", f.Measured, f.Asked), strconv.Itoa(f.Attempts),
		})
	}
	return table.Section{Title: "Failed cases", Table: t}
}

func (s *Summary) missingSection() table.Section {
	t := &table.Table{Columns: table.Text("cell", "case")}
	for _, m := range s.Missing {
		t.Rows = append(t.Rows, []string{m.Cell, m.CaseID})
	}
	return table.Section{
		Title: "Cases without a document", Table: t,
		Note: "The cell ended without writing a document. Its log says why.",
	}
}

func (s *Summary) warningSection() table.Section {
	t := &table.Table{Columns: append(table.Text("warning", "first case"), table.Figures("cases")...)}
	for _, w := range s.Warnings {
		t.Rows = append(t.Rows, []string{w.Text, w.Cases[0], strconv.Itoa(len(w.Cases))})
	}
	return table.Section{Title: "Warnings", Table: t, Note: "The figures count, but the devices were not at their best, or their state is unknown."}
}

func (s *Summary) unrequestedSection() table.Section {
	t := &table.Table{Columns: table.Text("case")}
	for _, id := range s.Unrequested {
		t.Rows = append(t.Rows, []string{id})
	}
	return table.Section{Title: "Cases that were not requested", Table: t}
}

func (s *Summary) rejectedSection() table.Section {
	t := &table.Table{Columns: append(table.Text("what is wrong"), table.Figures("files")...)}
	for _, r := range s.Rejected {
		t.Rows = append(t.Rows, []string{r.Reason, strconv.Itoa(r.Files)})
	}
	return table.Section{Title: "Files left out", Table: t, Note: "The log names them."}
}

func (s *Summary) unsupportedSection() table.Section {
	t := &table.Table{Columns: table.Text("case", "reason", "detail")}
	for _, u := range s.Unsupported {
		t.Rows = append(t.Rows, []string{u.CaseID, u.Reason, u.Detail})
	}
	return table.Section{Title: "Unsupported cases", Table: t, Folded: true}
}

func (s *Summary) machineSection() table.Section {
	t := &table.Table{Columns: append(table.Text("SKU", "backend", "device", "framework", "runtime", "library"), table.Figures("cases")...)}
	for _, m := range s.Machines {
		t.Rows = append(t.Rows, []string{m.SKU, m.Backend, m.Device, m.Framework, m.Runtime, m.Library, strconv.Itoa(m.Cases)})
	}
	return table.Section{Title: "Measured on", Table: t}
}
