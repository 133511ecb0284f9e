package study

import (
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/chart"
	"github.com/collectivex/collectivex/pkg/schedule/drawing"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
)

// RowsFile is the name of the file with the rows of a study.
const RowsFile = "rows.ndjson"

// Render returns the contents of a study's files by name: rows.ndjson, rows.csv, errors.csv if
// cases were both measured and simulated, the measured models, and an SVG for each figure.
func (m *Manifest) Render(rows []Row) (map[string][]byte, error) {
	files := map[string][]byte{RowsFile: ndjson(rows), "rows.csv": table(rows)}
	if off := m.errorsTable(rows); off != nil {
		files[ErrorsFile] = off
	}
	var err error
	for name := range m.Measured() {
		if files[ModelFile(name)], err = m.MeasuredModel(name); err != nil {
			return nil, err
		}
	}
	for _, f := range m.Figures {
		var figure []byte
		switch {
		case f.Topology != "":
			figure, err = m.drawTopology(&f)
		case f.Overlap != "":
			figure = m.drawOverlap(&f, rows)
		default:
			figure = f.draw(rows)
		}
		if err != nil {
			return nil, fmt.Errorf("figure %q: %w", f.Name, err)
		}
		files[f.Name+".svg"] = figure
	}
	return files, nil
}

// drawTopology draws the nodes and links of a case.
func (m *Manifest) drawTopology(f *Figure) ([]byte, error) {
	c := &m.Cases[slices.IndexFunc(m.Cases, func(c Case) bool { return c.Name == f.Topology })]
	t, err := simulate.NewTopology(c.Topology, c.Ranks, c.Width)
	if err != nil {
		return nil, err
	}
	return drawing.Topology(t, f.Title)
}

// draw draws the series of a figure: measured series as solid lines, simulated series as dashed lines, both
// with hollow marks, and published series as filled marks without a line. Filled marks are larger and below
// the others, so that both are visible where they overlap. A series without rows is only in the legend.
func (f *Figure) draw(rows []Row) []byte {
	p := chart.New(f.Title)
	p.X.Log, p.X.Ticks = true, chart.Powers(true)
	p.Y.Log, p.Y.Ticks, p.Y.Label = true, chart.Decades, "time in µs"
	var drawn []Row
	var below, above []chart.Series
	for i, name := range f.Series {
		s := chart.Series{Label: name + " (no rows)"}
		for _, r := range rows {
			if r.Series == name {
				s.Points = append(s.Points, chart.Point{X: float64(r.Bytes), Y: float64(r.Picoseconds) / float64(simulate.Microsecond)})
				drawn, s.Label = append(drawn, r), fmt.Sprintf("%s (%s)", name, r.Origin)
			}
		}
		colour := chart.Colours[i%len(chart.Colours)]
		s.Mark = chart.Markers[i%len(chart.Markers)]
		switch {
		case len(s.Points) == 0:
		case drawn[len(drawn)-1].Origin == External:
			s.Marks = chart.Style{Fill: colour, Stroke: colour, Width: 5}
			below = append(below, s)
		default:
			s.Line, s.Marks = chart.Style{Stroke: colour, Width: 1.4}, chart.Style{Fill: "#ffffff", Stroke: colour, Width: 1.4}
			if drawn[len(drawn)-1].Origin == Simulated {
				s.Line.Dashes = "8 4"
			}
			above = append(above, s)
		}
		p.Legend = append(p.Legend, s)
	}
	for _, s := range append(below, above...) {
		p.AddSeries(s)
	}
	p.X.Label = fmt.Sprintf("bytes of the vector; rows %s", key(drawn)[:12])
	return p.SVG(chart.Height)
}
