package toy

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/table"
)

// figures has the bytes of a message as its X and the tone as its mode.
func figures(doc result.Document) (out []figure.Row) {
	d := doc.(*document)
	tone := of(&d.Identity.Case).Tone
	for i := range d.Rows {
		r := &d.Rows[i]
		out = append(out, figure.Row{
			Labels:   figure.Labels{Op: "echo", Mode: tone, XName: "bytes", X: r.Bytes, Timing: "host"},
			Complete: true, Passed: r.passed(),
			Figures: figure.Burst(figure.Latency, r.Micros, 1, true),
			Rung:    &figure.Rung{Clock: "echo", Size: r.Bytes, Label: fmt.Sprintf("%d bytes", r.Bytes)},
			Lines: []figure.Line{{View: "toys", Facets: []string{tone}, Point: figure.Point{
				X: r.Bytes, Time: figure.MicrosecondsOf(r.Micros, 1), Work: []float64{2 * float64(r.Bytes)}, Samples: r.Micros.N,
				Reason: figure.Verified(true, r.passed(), r.verdict()),
			}}},
		})
	}
	return out
}

var views = []figure.View{{
	Name: "toys", Title: "Toys there and back", Shape: figure.Lines, X: figure.Axis{Title: "bytes of a message", Bytes: true},
	Facets: []figure.Facet{{Title: "tone", Values: tones, One: true}}, Rates: []figure.Rate{{Name: "rate", Title: "toy rate", Unit: "MB/s"}},
}}

// spans are the throws of a record, one after the other.
func spans(_ result.Document, kind string, data json.RawMessage) ([]figure.Span, error) {
	if kind != kindEchoes {
		return nil, nil
	}
	var e echoes
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, err
	}
	return []figure.Span{{Track: "echoes", Name: fmt.Sprintf("%d bytes", e.Bytes), Began: e.Began, Us: e.Micros, Args: map[string]any{"wrong_bytes": e.Wrong}}}, nil
}

// list is the name of the headlines in the JSON form of a summary.
const list = "toys"

// headline is the largest size of a case.
type headline struct {
	CaseID string  `json:"case_id"`
	Rows   int     `json:"rows"`
	Bytes  int64   `json:"bytes"`
	Micros float64 `json:"us"`
}

func rows(doc result.Document) (measured, asked int) {
	d := doc.(*document)
	return family.Count(d.Rows, (*row).passed), len(of(&d.Identity.Case).Sizes)
}

func headlineOf(doc result.Document) (string, any) {
	d := doc.(*document)
	if len(d.Rows) == 0 {
		return list, nil
	}
	last := &d.Rows[len(d.Rows)-1]
	return list, &headline{d.Identity.CaseID, len(d.Rows), last.Bytes, last.Micros.P50}
}

func sections(h family.Headlines) family.Sections {
	t := &table.Table{Columns: append(table.Text("case"), table.Figures("sizes", "bytes", "echo µs")...)}
	for _, toy := range family.Of[*headline](h, list) {
		t.Rows = append(t.Rows, []string{toy.CaseID, strconv.Itoa(toy.Rows), table.Size(toy.Bytes), table.Significant(toy.Micros)})
	}
	return family.Sections{Headlines: []table.Section{{Title: "Toys", Table: t}}}
}
