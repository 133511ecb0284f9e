package report

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// scheduleFamily shows what the collective family shows, in lists of its own: a schedule and
// a library's collective never stand in one column.
var scheduleFamily = Family{
	Name: plan.FamilySchedule,
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
	Sections: func(h Headlines) Sections {
		cases := of[*Collective](h, scheduleList)
		return Sections{Headlines: collectiveSections("Schedules", cases), Details: collectiveLadders(" of schedules", cases)}
	},
	Views: []View{{
		Name: "schedules", Title: "Schedules", Shape: Lines, X: Axis{Title: "size", Bytes: true},
		Note:   "Collectives as explicit steps. Bus bandwidth as nccl-tests defines it; the line of a library's own collective is in the section on collectives.",
		Facets: append(slices.Clone(collectiveFacets), Facet{Title: "schedule"}), Rates: busBandwidth, Fits: true,
	}},
	Series: func(doc result.Document) []Series {
		d := doc.(*result.ScheduleDocument)
		all := collectiveSeries(d.Collective())
		for i := range all {
			all[i].View, all[i].Facets = "schedules", append(all[i].Facets, d.Label())
		}
		return all
	},
}

const scheduleList = "schedules"
