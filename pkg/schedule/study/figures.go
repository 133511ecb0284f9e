package study

import (
	"fmt"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

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
			figure, err = m.drawOverlap(&f, rows)
		default:
			figure, err = f.draw(rows)
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

// publishedMark is the radius of the marks of published points. Other marks are smaller and drawn above them, so
// that both are visible where they overlap.
const publishedMark = vg.Length(4.5)

// publishedShapes are the shapes of the marks of published points, all filled.
var publishedShapes = [...]draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}}

// draw draws the series of a figure: measured series as solid lines, simulated series as dashed lines, and
// published series as filled marks without a line. A series without rows is only in the legend.
func (f *Figure) draw(rows []Row) ([]byte, error) {
	p := chart.New(f.Title)
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, chart.Powers{Bytes: true}
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, chart.Decades{}
	p.Y.Label.Text = "time in µs"
	chart.AddGrid(p)
	var drawn []Row
	var above []plot.Plotter
	for i, name := range f.Series {
		var points plotter.XYs
		origin := ""
		for _, r := range rows {
			if r.Series == name {
				points = append(points, plotter.XY{X: float64(r.Bytes), Y: float64(r.Picoseconds) / float64(simulate.Microsecond)})
				drawn, origin = append(drawn, r), r.Origin
			}
		}
		if len(points) == 0 {
			p.Legend.Add(name + " (no rows)")
			continue
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		label := fmt.Sprintf("%s (%s)", name, origin)
		if origin == External {
			marks.Color, marks.Radius = plotutil.DarkColors[i%len(plotutil.DarkColors)], publishedMark
			marks.Shape = publishedShapes[i%len(publishedShapes)]
			p.Add(marks)
			p.Legend.Add(label, marks)
			continue
		}
		marks.Color, marks.Shape, line.Color = plotutil.Color(i), plotutil.Shape(i), plotutil.Color(i)
		if origin == Simulated {
			line.Dashes = []vg.Length{vg.Points(6), vg.Points(3)}
		}
		above = append(above, line, marks)
		p.Legend.Add(label, line, marks)
	}
	p.Add(above...)
	p.X.Label.Text = fmt.Sprintf("bytes of the vector; rows %s", key(drawn)[:12])
	return chart.SVG(p, chart.Height)
}
