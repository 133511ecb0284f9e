package overlap

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/table"
)

// list is the name of the headlines in the JSON form of a summary.
const list = "overlaps"

// Headline is the headline of an overlap case.
type Headline struct {
	family.Repeats[*Headline] `json:"-"`

	CaseID          string        `json:"case_id"`
	SKU             string        `json:"sku"`
	Backend         string        `json:"backend"`
	Form            string        `json:"form"`
	Op              string        `json:"op"`
	DType           string        `json:"dtype"`
	Compute         string        `json:"compute"`
	Hidden          int64         `json:"hidden"`
	Products        int           `json:"products,omitempty"`    // of a window of form beside
	Collectives     int           `json:"collectives,omitempty"` // of a window of form beside
	World           int           `json:"world"`
	SharedProcessor bool          `json:"shared_processor"`
	Rows            []HeadlineRow `json:"rows"`
	Key             string        `json:"comparison_key"`
}

// HeadlineRow is one row. Times are medians in microseconds.
type HeadlineRow struct {
	Bytes         int64   `json:"bytes"`
	Compute       float64 `json:"compute_us"`
	Communication float64 `json:"communication_us"`
	Together      float64 `json:"together_us"`
	Serial        float64 `json:"serial_us"`
	Figures
	ComputeCoverage       float64 `json:"compute_coverage"`
	CommunicationCoverage float64 `json:"communication_coverage"`

	Beyond *float64 `json:"-"` // see Row.ExposedBeyondNoise
}

func headlineOf(d *Document) *Headline {
	c := &d.Identity.Case
	b := Of(c)
	h := &Headline{
		CaseID: d.Identity.CaseID, SKU: d.Identity.CaseFactors.SKU, Backend: d.Implementation.Name, Form: b.Form, Op: b.Communication(), DType: c.Precision,
		Compute: d.Measurement.Compute, Hidden: b.Hidden, Products: b.Products, Collectives: b.Collectives, World: c.World, SharedProcessor: d.Measurement.SharedProcessor, Rows: []HeadlineRow{}, Key: d.ComparisonKey,
	}
	for i := range d.Measurement.Rows {
		if r := &d.Measurement.Rows[i]; r.Verify.Passed {
			h.Rows = append(h.Rows, HeadlineRow{
				r.Bytes, r.Compute.P50, r.Communication.P50, r.Together.P50, r.Serial.P50, r.Figures, r.ComputeCoverage, r.CommunicationCoverage, r.ExposedBeyondNoise(),
			})
		}
	}
	return h
}

// Settle leaves out figures of a row that fewer than half of the repeats have, as they are below the noise in the others.
func (o *Headline) Settle() {
	for i := range o.Rows {
		r, repeats, exposed, efficient := &o.Rows[i], 0, 0, 0
		for _, one := range o.All() {
			if i >= len(one.Rows) {
				continue
			}
			repeats++
			if one.Rows[i].Beyond != nil {
				exposed++
			}
			if one.Rows[i].Efficiency != nil {
				efficient++
			}
		}
		if r.Beyond = &r.Exposed; 2*exposed < repeats {
			r.Beyond = nil
		}
		if 2*efficient < repeats {
			r.Efficiency = nil
		}
	}
}

// efficiency returns the efficiency of the largest size, or 0.
func (o *Headline) efficiency() float64 {
	if n := len(o.Rows); n > 0 && o.Rows[n-1].Efficiency != nil {
		return *o.Rows[n-1].Efficiency
	}
	return 0
}

// sections shows the headlines.
func sections(h family.Headlines) family.Sections {
	all := family.Of[*Headline](h, list)
	return family.Sections{Headlines: []table.Section{overview(all)}, Details: []table.Section{ladder(all)}}
}

// keys are the columns that identify overlap cases.
var keys = table.Text("SKU", "backend", "form", "type", "compute", "hidden", "ranks")

func (o *Headline) key() []string {
	form := o.Form
	if form == Beside {
		form += fmt.Sprintf(" %s, %d:%d", o.Op, o.Products, o.Collectives)
	}
	return []string{o.SKU, o.Backend, form, o.DType, computes(o.Compute, o.SharedProcessor), strconv.FormatInt(o.Hidden, 10), strconv.Itoa(o.World)}
}

// computes returns the text of the column compute.
func computes(compute string, shared bool) string {
	if shared {
		compute += " (shared processor)"
	}
	return compute
}

// cells returns the columns of a row's times and figures.
func (r *HeadlineRow) cells() []string {
	return []string{
		table.Size(r.Bytes), table.Significant(r.Compute), table.Significant(r.Communication), table.Significant(r.Together), table.Significant(r.Serial),
		maybe(r.Beyond), maybe(r.Efficiency),
	}
}

// maybe formats a figure, with a dash for nil.
func maybe(v *float64) string {
	if v == nil {
		return table.Dash
	}
	return table.Significant(*v)
}

var times = []string{"size", "compute µs", "communication µs", "together µs", "serial µs", "exposed µs"}

var efficiencyColumn = table.Headline("efficiency")

func overview(cases []*Headline) table.Section {
	s := &table.Table{Columns: slices.Concat(keys, table.Figures(times...), efficiencyColumn)}
	for _, c := range cases {
		if n := len(c.Rows); n > 0 {
			cells := c.Rows[n-1].cells()
			if c.Rows[n-1].Efficiency != nil {
				cells[len(cells)-1] += c.Spread((*Headline).efficiency)
			}
			s.Rows = append(s.Rows, append(c.key(), cells...))
		}
	}
	return table.Section{
		Title: "Computation beside communication", Table: s, Keys: len(keys),
		Note: "Medians of the largest size, from the opening of the start gate to the end: each side alone, both together, and serial (one side after the other). Exposed is together − compute; it is missing where it is below the noise. An efficiency of 1 hides the shorter side entirely; below 0, together is slower than serial; it is missing where the shorter side is not above the noise. A form with P:C has P products and C collectives in a window; hidden is the width of the matrices.",
	}
}

func ladder(cases []*Headline) table.Section {
	s := &table.Table{Columns: slices.Concat(keys, table.Figures(times...), efficiencyColumn, table.Figures("floor µs", "compute covered", "compute slowdown", "compute tax", "communication covered", "communication slowdown", "communication tax"))}
	for _, c := range cases {
		for i := range c.Rows {
			r := &c.Rows[i]
			s.Rows = append(s.Rows, slices.Concat(c.key(), r.cells(), []string{
				table.Significant(r.Floor), table.Significant(r.ComputeCoverage), maybe(r.ComputeSlowdown), maybe(r.ComputeTax),
				table.Significant(r.CommunicationCoverage), maybe(r.CommunicationSlowdown), maybe(r.CommunicationTax),
			}))
		}
	}
	return table.Section{Title: "Sizes of computation beside communication", Table: s, Keys: len(keys), Folded: true}
}
