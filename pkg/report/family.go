package report

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// unmoved are the summaries of the families that have no package of their own yet.
var unmoved = map[plan.Family]unmovedFamily{
	plan.FamilyCollective: collectiveFamily, plan.FamilySchedule: scheduleFamily,
}

type unmovedFamily struct {
	family.Summary
	Views  []figure.View
	Series func(d result.Document) []figure.Series
}

// SummaryOf returns what a family says in a summary.
func SummaryOf(f *family.Family) *family.Summary {
	if old, ok := unmoved[f.Plan.Name]; ok {
		return &old.Summary
	}
	return &f.Summary
}

// Views returns the charts of a family.
func Views(f *family.Family) []figure.View {
	if old, ok := unmoved[f.Plan.Name]; ok {
		return old.Views
	}
	return f.Views
}

// Series returns what the charts of its family show of a document, whatever its outcome.
func Series(d result.Document) []figure.Series {
	name := d.Head().Identity.Case.Family
	if old, ok := unmoved[name]; ok {
		return old.Series(d)
	}
	return figure.SeriesOf(family.Find(name).Figures(d))
}

// MarshalJSON writes the lists of headlines behind the other members.
func (s *Summary) MarshalJSON() ([]byte, error) {
	type others Summary // without this method
	text, err := result.Encode((*others)(s))
	if err != nil {
		return nil, err
	}
	text = bytes.TrimSuffix(bytes.TrimSpace(text), []byte{'}'})
	for _, f := range family.All() {
		for _, name := range SummaryOf(f).Lists {
			list, err := json.Marshal(s.Headlines[name])
			if err != nil {
				return nil, err
			}
			text = fmt.Appendf(text, ",%q:%s", name, list)
		}
	}
	return append(text, '}'), nil
}
