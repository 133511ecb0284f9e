package steps

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/result"
)

// list is the JSON name of the headlines in a summary. It differs from the collective family's, so that schedules and collectives of
// a library never share a column.
const list = "schedules"

var summary = family.Summary{
	Rows: func(d result.Document) (measured, asked int) { return collective.Rows(d.(*Document).Collective()) },
	Headline: func(doc result.Document) (string, any) {
		d := doc.(*Document)
		c := collective.HeadlineOf(d.Collective())
		c.Op += "/" + d.Label()
		return list, c
	},
	Lists: []string{list},
	Sections: func(h family.Headlines) family.Sections {
		cases := family.Of[*collective.Headline](h, list)
		return family.Sections{Headlines: collective.Peaks("Schedules", cases), Details: collective.Ladders(" of schedules", cases)}
	},
}

const view = "schedules"

var views = []figure.View{{
	Name: view, Title: "Schedules", Shape: figure.Lines, X: figure.Axis{Title: "size", Bytes: true},
	Note:   "Collectives as explicit steps. Bus bandwidth as nccl-tests defines it; the series of a library's own collective is in the section Collectives.",
	Facets: append(slices.Clone(collective.Facets), figure.Facet{Title: "schedule"}), Rates: collective.Rates, Fits: true,
}}
