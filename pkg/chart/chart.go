// Package chart draws plots as SVG files in one style.
package chart

import (
	"bytes"
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Width is the width of every chart. Height is the usual height of a plot, without the legend below it.
const (
	Width  = 22 * vg.Centimeter
	Height = 11 * vg.Centimeter

	margin     = 3 * vg.Millimeter
	titleWidth = 0.8 * Width // the reader's font can be wider than Typeface
)

// Typeface is the typeface of all text in charts.
var Typeface = font.Font{Typeface: "Liberation", Variant: "Sans"}

// New returns an empty plot with a title. A title that is too wide for one line is broken between words.
func New(title string) *plot.Plot {
	p := plot.New()
	for _, text := range []*font.Font{
		&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font,
		&p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font,
	} {
		size := text.Size
		*text = Typeface
		text.Size = size
	}
	p.Legend.Padding = vg.Points(2)
	p.Title.Padding = vg.Points(6)
	line := ""
	var lines []string
	for word := range strings.FieldsSeq(title) {
		longer := strings.TrimSpace(line + " " + word)
		if line != "" && p.Title.TextStyle.Width(longer) > titleWidth {
			lines = append(lines, line)
			longer = word
		}
		line = longer
	}
	p.Title.Text = strings.Join(append(lines, line), "\n")
	return p
}

// AddGrid adds lines at the labelled ticks of both axes. Call it first, since later plotters are drawn above.
func AddGrid(p *plot.Plot) {
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xdd}, color.Gray{0xdd}
	p.Add(grid)
}

// SVG draws a plot of the given height, with its legend below it. A logarithmic axis with a single value
// gets a range around that value, and one without values a default range. SVG moves the legend out of p, so
// p can be drawn only once.
func SVG(p *plot.Plot, height vg.Length) ([]byte, error) {
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		if _, log := axis.Scale.(plot.LogScale); !log {
			continue
		}
		if axis.Min > axis.Max {
			axis.Min, axis.Max = 1, 10
		}
		if axis.Min == axis.Max {
			axis.Min, axis.Max = axis.Min/2, 2*axis.Max
		}
	}
	legend := p.Legend
	p.Legend = plot.NewLegend()
	legend.Top, legend.Left = true, true
	below := legend.Rectangle(draw.Canvas{}).Size().Y + margin
	c := vgsvg.New(Width, height+below)
	all := draw.Crop(draw.New(c), margin, -margin, margin, -margin)
	p.Draw(draw.Crop(all, 0, 0, below, 0))
	all.Max.Y = all.Min.Y + below - margin
	legend.Draw(all)
	var b bytes.Buffer
	_, err := c.WriteTo(&b)
	// Readers without Typeface use fonts of about the same width.
	return bytes.ReplaceAll(b.Bytes(), []byte("Liberation Sans"), []byte("Liberation Sans,Arial,Helvetica,sans-serif")), err
}

// Swatch is a rectangle, such as the sample of a colour in a legend. A nil Fill or Border is not drawn.
type Swatch struct{ Fill, Border color.Color }

// Thumbnail implements plot.Thumbnailer.
func (s Swatch) Thumbnail(c *draw.Canvas) { s.Draw(c, c.Rectangle) }

// Draw draws the swatch as the rectangle r of c.
func (s Swatch) Draw(c *draw.Canvas, r vg.Rectangle) {
	path := r.Path()
	if s.Fill != nil {
		c.SetColor(s.Fill)
		c.Fill(path)
	}
	if s.Border != nil {
		c.SetLineStyle(draw.LineStyle{Color: s.Border, Width: vg.Points(0.8)})
		c.Stroke(path)
	}
}
