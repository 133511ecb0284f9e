package report

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/figure"

	"github.com/collectivex/collectivex/pkg/result"
)

// scheduleFamily shows what the collective family shows, in lists of its own: a schedule and
// a library's collective never stand in one column.
var scheduleFamily = unmovedFamily{
	Summary: family.Summary{
		Rows: func(doc result.Document) (measured, asked int) {
			return collectiveRows(doc.(*result.ScheduleDocument).Collective())
		},
		Headline: func(doc result.Document) (string, any) {
			d := doc.(*result.ScheduleDocument)
			c := collectiveOf(d.Collective())
			c.Op += "/" + d.Label()
			return scheduleList, c
		},
		Lists: []string{scheduleList},
		Sections: func(h family.Headlines) family.Sections {
			cases := family.Of[*Collective](h, scheduleList)
			return family.Sections{Headlines: collectiveSections("Schedules", cases), Details: collectiveLadders(" of schedules", cases)}
		},
	},
	Views: []figure.View{{
		Name: "schedules", Title: "Schedules", Shape: figure.Lines, X: figure.Axis{Title: "size", Bytes: true},
		Note:   "Collectives as explicit steps. Bus bandwidth as nccl-tests defines it; the line of a library's own collective is in the section on collectives.",
		Facets: append(slices.Clone(collectiveFacets), figure.Facet{Title: "schedule"}), Rates: busBandwidth, Fits: true,
	}},
	Series: func(doc result.Document) []figure.Series {
		d := doc.(*result.ScheduleDocument)
		all := collectiveSeries(d.Collective())
		for i := range all {
			all[i].View, all[i].Facets = "schedules", append(all[i].Facets, d.Label())
		}
		return all
	},
}

const scheduleList = "schedules"
