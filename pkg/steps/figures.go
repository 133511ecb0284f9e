package steps

import (
	"encoding/json"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/result"
)

// figures returns the figures of a collective, with the schedule added to the name of the operation.
func figures(doc result.Document) []figure.Row {
	d := doc.(*Document)
	label := d.Label()
	rows := collective.Figures(d.Collective())
	for i := range rows {
		r := &rows[i]
		r.Op += "/" + label
		for k := range r.Lines {
			r.Lines[k].View, r.Lines[k].Facets = view, append(r.Lines[k].Facets, label)
		}
	}
	return rows
}

func spans(d result.Document, kind string, data json.RawMessage) ([]figure.Span, error) {
	return collective.Spans(d.(*Document).Collective(), kind, data)
}
