package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/table"

	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// simulationFamily has a list, tables and a chart of its own: a simulated time never stands
// beside a measured one.
var simulationFamily = unmovedFamily{
	Summary: family.Summary{
		Simulated: true,
		Rows: func(doc result.Document) (measured, asked int) {
			d := doc.(*result.SimulationDocument)
			return len(d.Simulation.Rows), len(d.Identity.Case.Simulation().Sizes)
		},
		Headline: func(doc result.Document) (string, any) {
			return simulationList, simulationOf(doc.(*result.SimulationDocument))
		},
		Lists: []string{simulationList},
		Sections: func(h family.Headlines) family.Sections {
			cases := family.Of[*Simulation](h, simulationList)
			return family.Sections{Headlines: []table.Section{simulationSection(cases)}, Details: []table.Section{simulationPaths(cases)}}
		},
	},
	Views: []figure.View{{
		Name: "simulations", Title: "Simulated schedules", Shape: figure.Lines, X: figure.Axis{Title: "size", Bytes: true},
		Note: "Times of a model of a machine: nothing was measured. A model is named with the beginning of the digest of its figures.",
		Facets: []figure.Facet{
			{Title: "operation", Values: vocab.Ops(), One: true}, {Title: "schedule"}, {Title: "topology"}, {Title: "model"},
		},
		Rates: []figure.Rate{{Name: "algbw", Title: "size by simulated time", Unit: "GB/s"}}, Latency: true, Time: "simulated time", Fits: true,
	}},
	Series: simulationSeries,
}

const simulationList = "simulations"

// Simulation is the headline of a simulation case.
type Simulation struct {
	CaseID   string `json:"case_id"`
	SKU      string `json:"sku"` // that asked for it; no figure depends on it
	Origin   string `json:"origin"`
	World    int    `json:"world"`
	Op       string `json:"op"`
	Schedule string `json:"schedule"`
	Topology string `json:"topology"`
	// Model is the name of the model with the beginning of its digest.
	Model  string                 `json:"model"`
	Source string                 `json:"source,omitempty"` // of the figures of the model
	Rows   []result.SimulationRow `json:"rows"`
	Key    string                 `json:"comparison_key"`
}

func simulationOf(d *result.SimulationDocument) *Simulation {
	s, b := &d.Simulation, d.Identity.Case.Simulation()
	return &Simulation{
		CaseID: d.Identity.CaseID, SKU: d.Identity.CaseFactors.SKU, Origin: s.Origin, World: d.Topology.WorldSize,
		Op: s.Op, Schedule: b.Label(), Topology: b.Links(), Model: s.Model.Label(), Source: s.Model.Source, Rows: s.Rows, Key: d.ComparisonKey,
	}
}

// simulationKeys are the columns that tell simulations apart.
var simulationKeys = table.Text("SKU", "ranks", "op", "schedule", "topology", "model")

func (s *Simulation) keys() []string {
	return []string{s.SKU, strconv.Itoa(s.World), s.Op, s.Schedule, s.Topology, s.Model}
}

func simulationSection(cases []*Simulation) table.Section {
	t := &table.Table{Columns: slices.Concat(simulationKeys, table.Figures("smallest", "simulated µs", "largest", "simulated µs"), []table.Column{{Name: "GB/s", Right: true, Strong: true}}, table.Text("mostly"))}
	for _, c := range cases {
		if len(c.Rows) == 0 {
			continue
		}
		first, last := &c.Rows[0], &c.Rows[len(c.Rows)-1]
		most := slices.MaxFunc(last.Path.Parts(), func(a, b result.Part) int { return cmp.Compare(a.Picoseconds, b.Picoseconds) })
		t.Rows = append(t.Rows, append(c.keys(), table.Size(first.Bytes), table.OrDash(first.Micros()), table.Size(last.Bytes), table.OrDash(last.Micros()), table.OrDash(float64(last.Bytes)/last.Micros()/1e3), most.Name))
	}
	return table.Section{
		Title: "Simulated schedules", Table: t, Keys: len(simulationKeys),
		Note: "Times of a model, from the common start of all ranks to the end of the last: nothing was measured. The rate is the size by the time of the largest size, and the last column the largest part of its critical path.",
	}
}

func simulationPaths(cases []*Simulation) table.Section {
	var parts []string
	for _, p := range new(result.CriticalPath).Parts() {
		parts = append(parts, p.Name+" µs")
	}
	t := &table.Table{Columns: slices.Concat(simulationKeys, table.Figures("bytes", "messages", "simulated µs"), table.Figures(parts...))}
	for _, c := range cases {
		for i := range c.Rows {
			r := &c.Rows[i]
			row := append(c.keys(), table.Size(r.Bytes), fmt.Sprint(r.Messages), table.OrDash(r.Micros()))
			for _, p := range r.Path.Parts() {
				row = append(row, table.OrDash(float64(p.Picoseconds)/1e6))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return table.Section{Title: "Critical paths of simulated schedules", Table: t, Keys: len(simulationKeys), Folded: true}
}

func simulationSeries(doc result.Document) []figure.Series {
	d := doc.(*result.SimulationDocument)
	b := d.Identity.Case.Simulation()
	s := figure.Series{View: "simulations", Facets: []string{d.Simulation.Op, b.Label(), b.Links(), d.Simulation.Model.Label()}}
	for i := range d.Simulation.Rows {
		r := &d.Simulation.Rows[i]
		s.Points = append(s.Points, figure.Point{X: r.Bytes, Time: result.Percentiles{P50: r.Micros()}, Work: []float64{float64(r.Bytes) / 1e3}})
	}
	if len(s.Points) == 0 {
		return nil
	}
	return []figure.Series{s}
}
