package study

import (
	"fmt"
	"slices"
	"strings"

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
func (m *Manifest) drawOverlap(f *Figure, rows []Row) []byte {
	o := &m.Overlaps[slices.IndexFunc(m.Overlaps, func(o Overlap) bool { return o.Name == f.Overlap })]
	bars, sizes, drawn := o.bars(rows)
	p := chart.New(f.Title)
	p.X.Min, p.X.Max = -0.5, float64(len(sizes))-0.5
	p.X.Ticks = func(float64, float64) []chart.Tick { return sizes }
	p.Y.Label, p.Y.Ticks = "time in µs", chart.Even
	if len(drawn) == 0 {
		p.Legend = append(p.Legend, chart.Series{Label: o.Name + " (no rows)"})
	}
	add := func(label string, place int, colour string, from, to func(bar) float64) {
		fill := chart.Style{Fill: colour}
		for i, b := range bars {
			p.Grow(float64(i), 0)
			p.Grow(float64(i), to(b))
			p.Add(func(c *chart.Canvas) {
				low, high := c.At(float64(i), from(b)), c.At(float64(i), to(b))
				low.X += float64(place-2) * barWidth
				c.Box(low, chart.Point{X: low.X + barWidth, Y: high.Y}, fill)
			})
		}
		p.Legend = append(p.Legend, chart.Swatch(label, fill))
	}
	zero := func(bar) float64 { return 0 }
	for i, contender := range overlap.Contenders(overlap.Beside) {
		label, whole := contender+" (measured)", func(b bar) float64 { return b[contender] }
		if contender != overlap.Together {
			add(label, i, chart.Colours[i], zero, whole)
			continue
		}
		hidden := func(b bar) float64 { return min(whole(b), b[overlap.OnlyCompute]) }
		add(label, i, chart.Colours[i], zero, hidden)
		add("together − compute: exposed", i, "#000000", hidden, whole)
	}
	if p.Y.Max <= 0 { // no size has all rows
		p.Y.Min, p.Y.Max = 0, 1
	}
	p.X.Label = fmt.Sprintf("bytes of the communication; rows %s", key(drawn)[:12])
	return p.SVG(chart.Height)
}

// bars returns the bars of each size, their ticks, and the rows that they show.
func (o *Overlap) bars(rows []Row) (bars []bar, sizes []chart.Tick, drawn []Row) {
	contenders := overlap.Contenders(overlap.Beside)
	for i, n := range o.Bytes {
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
		bars, sizes = append(bars, b), append(sizes, chart.Tick{Value: float64(i), Label: chart.Size(n)})
	}
	return bars, sizes, drawn
}

// barWidth is the width of a bar in pixels.
const barWidth = 13
