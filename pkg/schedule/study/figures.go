package study

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/collectivex/collectivex/pkg/schedule/simulate"
)

// RowsFile is the file of the rows of a study.
const RowsFile = "rows.ndjson"

// Render returns the files of a study by name: rows.ndjson, rows.csv, errors.csv where
// cases were measured and simulated, the models that were measured, and an SVG for each figure.
func (m *Manifest) Render(rows []Row) (map[string][]byte, error) {
	files := map[string][]byte{}
	var err error
	if files[RowsFile], err = ndjson(rows); err != nil {
		return nil, err
	}
	if files["rows.csv"], err = table(rows); err != nil {
		return nil, err
	}
	if off, err := m.errorsTable(rows); err != nil {
		return nil, err
	} else if off != nil {
		files[ErrorsFile] = off
	}
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
	var b bytes.Buffer
	err = t.WriteSVG(&b, f.Title)
	return b.Bytes(), err
}

// legendLine is a line of the legend, as a part of the height of the lines of a figure.
const legendLine = 0.06

// publishedMark is the radius of a mark of what others published. It is larger than other marks, which are
// drawn above it, so that both can be seen where they meet.
const publishedMark = vg.Length(4.5)

// publishedShapes are filled.
var publishedShapes = [...]draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}}

// draw draws the figure from rows. What was measured is a line, what was simulated a dashed one;
// what others published is filled marks without one. A series without rows stands in the legend alone.
func (f *Figure) draw(rows []Row) ([]byte, error) {
	p := newPlot()
	setTitle(p, f.Title)
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, powers{}
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	p.Y.Label.Text = "time in µs"
	p.Legend.Top, p.Legend.Left = true, true
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
		marks, err := plotter.NewScatter(points)
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
		marks.Color, marks.Shape = plotutil.Color(i), plotutil.Shape(i)
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		line.Color = plotutil.Color(i)
		if origin == Simulated {
			line.Dashes = []vg.Length{vg.Points(6), vg.Points(3)}
		}
		above = append(above, line, marks)
		p.Legend.Add(label, line, marks)
	}
	p.Add(above...)
	if len(drawn) == 0 {
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 1, 10, 1, 10
	}
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		if axis.Min == axis.Max { // logarithms need a range above 0
			axis.Min, axis.Max = axis.Min/2, 2*axis.Max
		}
	}
	p.X.Max *= math.Pow(p.X.Max/p.X.Min, 0.02)                              // room for half of the last label
	p.Y.Max *= math.Pow(p.Y.Max/p.Y.Min, legendLine*float64(len(f.Series))) // and for the legend
	p.X.Label.Text = fmt.Sprintf("bytes of the vector; rows %s", key(drawn)[:12])
	return svg(p)
}

// typeface is that of all figures.
var typeface = font.Font{Typeface: "Liberation", Variant: "Sans"}

// newPlot returns an empty plot whose texts are in the typeface.
func newPlot() *plot.Plot {
	p := plot.New()
	for _, text := range []*font.Font{
		&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font,
		&p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font,
	} {
		size := text.Size
		*text = typeface
		text.Size = size
	}
	p.Legend.Padding = vg.Points(2)
	return p
}

// wide is the width of all figures, and margin is around a plot.
const (
	wide   = 18 * vg.Centimeter
	margin = 2 * vg.Millimeter
)

// setTitle sets the title of a plot, in as many lines as it needs.
func setTitle(p *plot.Plot, title string) {
	line := ""
	var lines []string
	for word := range strings.FieldsSeq(title) {
		longer := strings.TrimSpace(line + " " + word)
		if line != "" && p.Title.TextStyle.Width(longer) > wide-2*margin {
			lines = append(lines, line)
			longer = word
		}
		line = longer
	}
	p.Title.Text = strings.Join(append(lines, line), "\n")
}

// svg draws a plot in the size of all figures.
func svg(p *plot.Plot) ([]byte, error) {
	c := vgsvg.New(wide, 12*vg.Centimeter)
	p.Draw(draw.Crop(draw.New(c), margin, -margin, margin, -margin))
	var b bytes.Buffer
	_, err := c.WriteTo(&b)
	// Fonts of the same width stand in for the one that the plot was laid out with.
	return bytes.ReplaceAll(b.Bytes(), []byte("Liberation Sans"), []byte("Liberation Sans,Arial,Helvetica,sans-serif")), err
}
