package simulation

import (
	"fmt"
	"strings"

	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// makespan is the name of the simulated time. It is unique to simulations, so that they are never mixed with measurements.
const makespan = "makespan"

// figures returns rows with the model as mode, the topology as placement and the origin as timing.
func figures(doc result.Document) (rows []figure.Row) {
	d := doc.(*Document)
	s, b := &d.Simulation, Of(&d.Identity.Case)
	for i := range s.Rows {
		r := &s.Rows[i]
		row := figure.Row{
			Labels: figure.Labels{
				Op: s.Op + "/" + b.Label(), Mode: s.Model.Label(), Placement: b.Links(), XName: "bytes", X: r.Bytes, Timing: s.Origin,
			},
			Complete: true, Passed: true,
			Figures: []figure.Figure{{Name: makespan, Stat: Simulated, Unit: figure.Microseconds, Value: r.Micros()}},
			Lines: []figure.Line{{
				View: view, Facets: []string{s.Op, b.Label(), b.Links(), s.Model.Label()},
				Point: figure.Point{X: r.Bytes, Time: result.Percentiles{P50: r.Micros()}, Work: []float64{float64(r.Bytes) / 1e3}},
			}},
			Rung: &figure.Rung{Clock: Simulated, Exact: makespan, Size: r.Bytes, Label: fmt.Sprintf("%d B", r.Bytes)},
		}
		for _, part := range r.Path.Parts() {
			name := "critical_path_" + strings.ReplaceAll(part.Name, " ", "_")
			row.Figures = append(row.Figures, figure.Figure{Name: name, Stat: Simulated, Unit: figure.Microseconds, Value: float64(part.Picoseconds) / 1e6})
		}
		row.Figures = append(row.Figures, figure.Figure{Name: "messages", Stat: Simulated, Unit: figure.Dimensionless, Value: float64(r.Messages)})
		rows = append(rows, row)
	}
	return rows
}

// view is the name of the family's view.
const view = "simulations"

// views is a separate chart: simulated and measured times are never shown together.
var views = []figure.View{{
	Name: view, Title: "Simulated schedules", Shape: figure.Lines, X: figure.Axis{Title: "size", Bytes: true},
	Note: "Times of a model of a machine: nothing was measured. A model is named with the beginning of the digest of its figures.",
	Facets: []figure.Facet{
		{Title: "operation", Values: vocab.Ops(), One: true}, {Title: "schedule"}, {Title: "topology"}, {Title: "model"},
	},
	Rates: []figure.Rate{{Name: "algbw", Title: "size by simulated time", Unit: "GB/s"}}, Latency: true, Time: "simulated time", Fits: true,
}}
