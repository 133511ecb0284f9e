package report

import (
	"cmp"
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
		of.Warnings = append(of.Warnings, f.Summary.Sections(s.Headlines).Warnings...)
		got := f.Summary.Sections(s.repeated)
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

// verdict returns the first line of every output format.
func (s *Summary) verdict() string {
	c := s.Counts
	if s.Requests != nil {
		c = *s.Requests
	}
	parts := []string{fmt.Sprintf("%d of %s passed", c.Success, table.Plural(c.Cases, "case"))}
	if s.Requests == nil && c.Cases == 0 {
		parts[0] = "no document"
	}
	for _, p := range []struct {
		n    int
		what string
	}{{c.Failed, "failed"}, {c.Invalid, "invalid"}, {c.Missing, "without a document"}, {c.Unsupported, "unsupported"}, {len(s.Unrequested), "not requested"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if extra := s.Counts.Attempts - s.Counts.Cases; extra > 0 {
		parts = append(parts, table.Plural(extra, "further attempt"))
	}
	line := strings.Join(parts, ", ")
	if len(s.Runs) == 1 && s.Runs[0] != "" {
		line = "run " + cmp.Or(s.names[s.Runs[0]], s.Runs[0]) + ": " + line
	}
	return line
}

func (s *Summary) failedSection() table.Section {
	return table.Filled(table.Section{Title: "Failed cases"}, append(table.Text("cell", "case", "status", "reason"), table.Figures("rows", "attempts")...), s.Failed, func(f Failed) []string {
		return []string{f.Cell, f.CaseID, f.Status, f.Reasons.String(), fmt.Sprintf("%d of %d", f.Measured, f.Asked), strconv.Itoa(f.Attempts)}
	})
}

func (s *Summary) missingSection() table.Section {
	of := table.Section{Title: "Cases without a document", Note: "The cell ended without writing a document. Its log says why."}
	return table.Filled(of, table.Text("cell", "case"), s.Missing, func(m Missing) []string { return []string{m.Cell, m.CaseID} })
}

func (s *Summary) warningSection() table.Section {
	of := table.Section{Title: "Warnings", Note: "The figures count, but the devices were not at their best, or their state is unknown."}
	return table.Filled(of, append(table.Text("warning", "first case"), table.Figures("cases")...), s.Warnings, func(w Warning) []string {
		return []string{w.Text, w.Cases[0], strconv.Itoa(len(w.Cases))}
	})
}

func (s *Summary) unrequestedSection() table.Section {
	return table.Filled(table.Section{Title: "Cases that were not requested"}, table.Text("case"), s.Unrequested, func(id string) []string { return []string{id} })
}

func (s *Summary) rejectedSection() table.Section {
	of := table.Section{Title: "Files left out", Note: "The log names them."}
	return table.Filled(of, append(table.Text("what is wrong"), table.Figures("files")...), s.Rejected, func(r Rejected) []string {
		return []string{r.Reason, strconv.Itoa(r.Files)}
	})
}

func (s *Summary) unsupportedSection() table.Section {
	return table.Filled(table.Section{Title: "Unsupported cases", Folded: true}, table.Text("case", "reason", "detail"), s.Unsupported, func(u Unsupported) []string {
		return []string{u.CaseID, u.Reason, u.Detail}
	})
}

func (s *Summary) machineSection() table.Section {
	columns := append(table.Text("SKU", "backend", "device", "framework", "runtime", "library"), table.Figures("cases")...)
	return table.Filled(table.Section{Title: "Measured on"}, columns, s.Machines, func(m Machine) []string {
		return []string{m.SKU, m.Backend, m.Device, m.Framework, m.Runtime, m.Library, strconv.Itoa(m.Cases)}
	})
}
