package report

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/registry"
	"github.com/collectivex/collectivex/pkg/result"
)

// Family is what a summary says of the documents of one family.
type Family struct {
	Name plan.Family
	// Simulated says that nothing of the documents was measured.
	Simulated bool
	// Rows counts the rows of a document that are complete and passed, and the rows that
	// were requested.
	Rows func(d result.Document) (measured, asked int)
	// Dropped says what the case asks for and the document leaves out, and why; empty if
	// nothing. Families whose tables say it may lack the function.
	Dropped func(d result.Document) string
	// Headline returns what a summary keeps of a document and writes in its JSON form,
	// nil for nothing, and which of Lists it is in.
	Headline func(d result.Document) (list string, headline any)
	// Lists names the lists of its headlines, in the order of the JSON form.
	Lists []string
	// Sections shows the headlines of all cases that passed.
	Sections func(h Headlines) Sections
	// Views are its charts on the HTML page, and Series what they show of a document,
	// whatever its outcome. A family without views has none but the coverage.
	Views  []View
	Series func(d result.Document) []Series
}

// Headlines are headlines by list, each in the order of the cases.
type Headlines map[string][]any

// of returns the headlines of a list, which are of type H.
func of[H any](h Headlines, list string) []H {
	out := make([]H, len(h[list]))
	for i, headline := range h[list] {
		out[i] = headline.(H)
	}
	return out
}

// Sections are a family's sections. Empty ones are left out.
type Sections struct {
	Warnings  []Section // reasons to doubt figures
	Headlines []Section
	Details   []Section
}

// families are in the order of their sections.
var families = registry.New(func(f Family) string { return string(f.Name) }, epFamily, collectiveFamily, transferFamily, scheduleFamily, copyFamily, overlapFamily, simulationFamily)

// Register adds a family. It is for init functions: it panics if the family is
// registered already, and once a summary has been made.
func Register(f Family) { families.Add(f) }

// Families returns the families in the order of their sections.
func Families() []Family { return families.All() }

// Find returns the family of that name.
func Find(name plan.Family) (Family, bool) { return families.Find(string(name)) }

// MarshalJSON writes the lists of headlines behind the other members.
func (s *Summary) MarshalJSON() ([]byte, error) {
	type others Summary // without this method
	text, err := result.Encode((*others)(s))
	if err != nil {
		return nil, err
	}
	text = bytes.TrimSuffix(bytes.TrimSpace(text), []byte{'}'})
	for _, f := range families.All() {
		for _, name := range f.Lists {
			list, err := json.Marshal(s.Headlines[name])
			if err != nil {
				return nil, err
			}
			text = fmt.Appendf(text, ",%q:%s", name, list)
		}
	}
	return append(text, '}'), nil
}
