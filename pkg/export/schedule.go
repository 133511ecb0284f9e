package export

import (
	"encoding/json"

	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/result"
)

// scheduleRows are those of a collective, with the schedule behind the name of the operation.
func scheduleRows(doc result.Document, head Row) []Row {
	d := doc.(*result.ScheduleDocument)
	rows := collectiveRows(d.Collective(), head)
	for i := range rows {
		rows[i].OpOrPhase += "/" + d.Label()
	}
	return rows
}

func scheduleSpans(doc result.Document, kind string, data json.RawMessage) ([]figure.Span, error) {
	return collectiveSpans(doc.(*result.ScheduleDocument).Collective(), kind, data)
}
