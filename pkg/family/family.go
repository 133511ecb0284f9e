// Package family describes a family of measurements to the rest of the program: one descriptor each,
// listed by package families.
package family

import (
	"encoding/json"
	"slices"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/registry"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/table"
)

// Family describes a family, from its definitions to the presentation of its documents. The code that
// measures its cases is in package shard's Family. Plan has the name of the family; Register sets it in the
// other parts.
type Family struct {
	Plan    plan.Descriptor
	Catalog catalog.Family
	Planner planner.Family
	Result  result.Family
	// Computed reports that cases have no ranks and need no devices. The shard computes them; nothing in
	// their documents was measured.
	Computed bool
	// Multiplies reports that cases multiply matrices on devices, with the vendor's library if it is
	// installed.
	Multiplies bool
	// Figures returns all figures of a document, of any outcome; see Rows.
	Figures func(d result.Document) []figure.Row
	// Spans returns the windows and checks of a record among the raw samples of a document, which may
	// be none. It is nil if the family has no traces.
	Spans func(d result.Document, kind string, data json.RawMessage) ([]figure.Span, error)
	// Views are the charts on the HTML page. A family without views appears only in the coverage.
	Views   []figure.View
	Summary Summary
	// ByName reports whether ad hoc measurements use a backend only if it is named; nil: none.
	ByName func(b *catalog.Backend) bool
	// Warning returns doubts about the figures of an ad hoc document besides its outcome and devices, or
	// "". It may be nil.
	Warning func(d result.Document) string
}

// Summary describes how a summary presents the documents of a family.
type Summary struct {
	// Rows counts the rows of a document that are complete and passed, and the rows that
	// were requested; see Counted.
	Rows func(d result.Document) (measured, asked int)
	// Dropped describes requested parts that the document leaves out, and why, or returns "". It may be
	// nil if tables show them.
	Dropped func(d result.Document) string
	// Headline returns the part of a document that a summary keeps and writes in its JSON form, nil for
	// nothing, and its list among Lists.
	Headline func(d result.Document) (list string, headline any)
	// Lists names the lists of its headlines, in the order of the JSON form.
	Lists []string
	// Sections shows the headlines of all cases that passed.
	Sections func(h Headlines) Sections
}

// Count returns how many rows are good.
func Count[R any](rows []R, good func(*R) bool) (n int) {
	for i := range rows {
		if good(&rows[i]) {
			n++
		}
	}
	return n
}

// Headlines holds headlines by list, each in the order of the cases.
type Headlines map[string][]any

// Of returns the headlines of a list, which are of type H.
func Of[H any](h Headlines, list string) []H {
	out := make([]H, len(h[list]))
	for i, headline := range h[list] {
		out[i] = headline.(H)
	}
	return out
}

// Sections are a family's sections of a summary. Empty ones are omitted.
type Sections struct {
	Warnings  []table.Section // reasons to doubt figures
	Headlines []table.Section
	Details   []table.Section
}

var families = registry.New(func(f *Family) string { return string(f.Plan.Name) })

// Register adds a family to every part of the program. Call it from init functions only: it panics if the
// family is already registered, and once a case, definition or document was read.
func Register(f Family) {
	f.Catalog.Name, f.Planner.Name, f.Result.Name = string(f.Plan.Name), f.Plan.Name, f.Plan.Name
	plan.Register(f.Plan)
	catalog.Register(f.Catalog)
	planner.Register(f.Planner)
	result.Register(f.Result)
	families.Add(&f)
}

// Rows returns all figures of a document, of any outcome. Those of a case that is invalid as a whole did not pass.
func (f *Family) Rows(d result.Document) []figure.Row {
	rows := f.Figures(d)
	figure.Disqualify(d.Head().Outcome, rows)
	return rows
}

// Counted returns the number of rows of a document that count, and that were requested.
func (f *Family) Counted(d result.Document) (measured, asked int) {
	measured, asked = f.Summary.Rows(d)
	passed := func(r figure.Row) bool { return r.Passed }
	if d.Head().Outcome.Status == result.Invalid && !slices.ContainsFunc(f.Rows(d), passed) {
		measured = 0
	}
	return measured, asked
}

// All returns the families in the order of their registration.
func All() []*Family { return families.All() }

// Find returns the family of that name, or nil.
func Find(name plan.Family) *Family {
	f, _ := families.Find(string(name))
	return f
}
