package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/table"
)

// list is the JSON name of the headlines in a summary.
const list = "simulations"

// Headline is the headline of a simulation case.
type Headline struct {
	CaseID   string `json:"case_id"`
	SKU      string `json:"sku"` // that requested it; no figure depends on it
	Origin   string `json:"origin"`
	World    int    `json:"world"`
	Op       string `json:"op"`
	Schedule string `json:"schedule"`
	Topology string `json:"topology"`
	// Model is the name of the model and the beginning of its digest.
	Model  string `json:"model"`
	Source string `json:"source,omitempty"` // of the figures of the model
	Rows   []Row  `json:"rows"`
	Key    string `json:"comparison_key"`
}

func headlineOf(d *Document) *Headline {
	s, b := &d.Simulation, Of(&d.Identity.Case)
	return &Headline{
		CaseID: d.Identity.CaseID, SKU: d.Identity.CaseFactors.SKU, Origin: s.Origin, World: d.Topology.WorldSize,
		Op: s.Op, Schedule: b.Label(), Topology: b.Links(), Model: s.Model.Label(), Source: s.Model.Source, Rows: s.Rows, Key: d.ComparisonKey,
	}
}

// sections returns separate tables of the headlines: simulated and measured times are never shown together.
func sections(h family.Headlines) family.Sections {
	all := family.Of[*Headline](h, list)
	return family.Sections{Headlines: []table.Section{overview(all)}, Details: []table.Section{paths(all)}}
}

// keys are the columns that identify simulations.
var keys = table.Text("SKU", "ranks", "op", "schedule", "topology", "model")

func (s *Headline) key() []string {
	return []string{s.SKU, strconv.Itoa(s.World), s.Op, s.Schedule, s.Topology, s.Model}
}

// overview returns a table with the smallest and the largest size of each case.
func overview(cases []*Headline) table.Section {
	t := &table.Table{Columns: slices.Concat(keys, table.Figures("smallest", "simulated µs", "largest", "simulated µs"), table.Headline("GB/s"), table.Text("mostly"))}
	for _, c := range cases {
		if len(c.Rows) == 0 {
			continue
		}
		first, last := &c.Rows[0], &c.Rows[len(c.Rows)-1]
		most := slices.MaxFunc(last.Path.Parts(), func(a, b Part) int { return cmp.Compare(a.Picoseconds, b.Picoseconds) })
		t.Rows = append(t.Rows, append(c.key(), table.Size(first.Bytes), table.OrDash(first.Micros()), table.Size(last.Bytes), table.OrDash(last.Micros()), table.OrDash(float64(last.Bytes)/last.Micros()/1e3), most.Name))
	}
	return table.Section{
		Title: "Simulated schedules", Table: t, Keys: len(keys),
		Note: "Times of a model, from the common start of all ranks to the end of the last: nothing was measured. The rate is the size by the time of the largest size, and the last column the largest part of its critical path.",
	}
}

// paths returns a table with the parts of the critical path for each size of each case.
func paths(cases []*Headline) table.Section {
	var parts []string
	for _, p := range new(CriticalPath).Parts() {
		parts = append(parts, p.Name+" µs")
	}
	t := &table.Table{Columns: slices.Concat(keys, table.Figures("bytes", "messages", "simulated µs"), table.Figures(parts...))}
	for _, c := range cases {
		for i := range c.Rows {
			r := &c.Rows[i]
			row := append(c.key(), table.Size(r.Bytes), fmt.Sprint(r.Messages), table.OrDash(r.Micros()))
			for _, p := range r.Path.Parts() {
				row = append(row, table.OrDash(float64(p.Picoseconds)/1e6))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return table.Section{Title: "Critical paths of simulated schedules", Table: t, Keys: len(keys), Folded: true}
}
