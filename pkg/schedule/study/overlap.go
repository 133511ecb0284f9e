package study

import (
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/collectivex/collectivex/pkg/chart"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
)

// Overlap is computation beside communication, measured at each of its sizes. It has a series for each
// contender, named "NAME CONTENDER on BACKEND".
type Overlap struct {
	Name string `yaml:"name"`
	Form string `yaml:"form"`
	// Collective is the communication of form beside. Algorithm is the schedule of the collective; if it
	// is empty, the backend's own implementation is measured.
	Collective  string  `yaml:"collective,optional"`
	Algorithm   string  `yaml:"algorithm,optional"`
	Backend     string  `yaml:"backend"`
	Ranks       int     `yaml:"ranks" min:"2" max:"1024"`
	DType       string  `yaml:"dtype"`                // of matrices and communication
	Hidden      int64   `yaml:"hidden" min:"1"`       // rows and columns of matrices, as overlap.Block has them
	Products    int     `yaml:"products,optional"`    // of a window of form beside
	Collectives int     `yaml:"collectives,optional"` // of a window of form beside
	Compute     string  `yaml:"compute"`
	Bytes       []int64 `yaml:"bytes" min:"1" max:"1099511627776"` // of the communication
}

// CheckYAML implements strictyaml.Checked.
func (o *Overlap) CheckYAML() (at any, why string) {
	beside := o.Form == overlap.Beside
	switch {
	case !slices.Contains(overlap.Forms(), o.Form):
		why = fmt.Sprintf("form %q, must be one of %s", o.Form, strings.Join(overlap.Forms(), ", "))
	case beside && (o.Collective == "" || o.Products < 1 || o.Collectives < 1):
		why = "form beside needs a collective, products and collectives"
	case !beside && (o.Collective != "" || o.Algorithm != "" || o.Products != 0 || o.Collectives != 0):
		why = "a linear layer has no collective, algorithm, products or collectives: leave them out"
	}
	return &o.Form, why
}

// series returns the name of a contender's series.
func (o *Overlap) series(contender string) string {
	return fmt.Sprintf("%s %s on %s", o.Name, contender, o.Backend)
}

// rows returns the rows of the overlap without their times. Their keys do not depend on its name.
func (o *Overlap) rows() (out []planned) {
	same := *o
	same.Name, same.Bytes = "", nil
	for _, contender := range overlap.Contenders(o.Form) {
		for _, n := range o.Bytes {
			out = append(out, planned{Row: Row{
				Key: key(same, contender, n), Origin: Measured, Series: o.series(contender), Bytes: n,
				Collective: o.Collective, Algorithm: o.Algorithm, Ranks: o.Ranks, Backend: o.Backend,
			}, of: o, contender: contender})
		}
	}
	return out
}

// bar has the times of one size by contender, in microseconds.
type bar map[string]float64

// drawOverlap draws four bars for each size of an overlap: computation alone, communication alone, both at
// once, and both in sequence. The upper part of the bar for both at once is the exposed communication: the
// time beyond the computation alone. A size that lacks a row has a gap.
func (m *Manifest) drawOverlap(f *Figure, rows []Row) ([]byte, error) {
	o := &m.Overlaps[slices.IndexFunc(m.Overlaps, func(o Overlap) bool { return o.Name == f.Overlap })]
	bars, labels, drawn := o.bars(rows)
	p := chart.New(f.Title)
	p.Y.Label.Text = "time in µs"
	p.NominalX(labels...)
	p.X.Min, p.X.Max = -0.5, float64(len(labels))-0.5
	if len(drawn) == 0 {
		p.Y.Max = 1
		p.Legend.Add(o.Name + " (no rows)")
	}
	add := func(label string, place int, fill color.Color, below *plotter.BarChart, value func(bar) float64) *plotter.BarChart {
		var values plotter.Values
		for _, b := range bars {
			values = append(values, value(b))
		}
		c, err := plotter.NewBarChart(values, barWidth)
		if err != nil {
			panic(err) // every overlap has sizes, and all values are numbers
		}
		c.Color, c.Offset = fill, (vg.Length(place)-1.5)*barWidth
		if below != nil {
			c.StackOn(below)
		}
		p.Add(c)
		p.Legend.Add(label, c)
		return c
	}
	for i, contender := range overlap.Contenders(overlap.Beside) {
		whole := func(b bar) float64 { return b[contender] }
		if contender != overlap.Together {
			add(contender+" (measured)", i, plotutil.Color(i), nil, whole)
			continue
		}
		hidden := func(b bar) float64 { return min(whole(b), b[overlap.OnlyCompute]) }
		below := add(contender+" (measured)", i, plotutil.Color(i), nil, hidden)
		add("together − compute: exposed", i, color.Black, below, func(b bar) float64 { return whole(b) - hidden(b) })
	}
	p.X.Label.Text = fmt.Sprintf("bytes of the communication; rows %s", key(drawn)[:12])
	return chart.SVG(p, chart.Height)
}

// bars returns the bars of each size, their labels, and the rows that they show.
func (o *Overlap) bars(rows []Row) (bars []bar, labels []string, drawn []Row) {
	contenders := overlap.Contenders(overlap.Beside)
	for _, n := range o.Bytes {
		b := bar{}
		for _, r := range rows {
			for _, contender := range contenders {
				if r.Series == o.series(contender) && r.Bytes == n {
					b[contender] = float64(r.Picoseconds) / float64(simulate.Microsecond)
					drawn = append(drawn, r)
				}
			}
		}
		if len(b) < len(contenders) {
			b = bar{}
		}
		bars, labels = append(bars, b), append(labels, chart.Size(n))
	}
	return bars, labels, drawn
}

// barWidth is the width of a bar.
const barWidth = vg.Length(10)
