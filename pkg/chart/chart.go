// Package chart draws plots as SVG files that look alike.
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

// Width is the width of all charts. Height is the height of most plots, without their margins.
const (
	Width  = 22 * vg.Centimeter
	Height = 11 * vg.Centimeter

	margin     = 3 * vg.Millimeter
	titleWidth = 0.8 * Width // other fonts can be wider than the one that a title is laid out with
)

// Typeface is the typeface of all texts.
var Typeface = font.Font{Typeface: "Liberation", Variant: "Sans"}

// New returns an empty plot with a title, which has as many lines as it needs, and lines at the
// labels of the axes.
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

// AddGrid adds lines at the labels of the axes, below what is added after them.
func AddGrid(p *plot.Plot) {
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xdd}, color.Gray{0xdd}
	p.Add(grid)
}

// SVG draws a plot of a height, and its legend below it. Logarithmic axes without values, or with
// one, get a range around it.
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
	// Fonts of the same width stand in for the one that the plot was laid out with.
	return bytes.ReplaceAll(b.Bytes(), []byte("Liberation Sans"), []byte("Liberation Sans,Arial,Helvetica,sans-serif")), err
}

// Swatch is a rectangle of a legend, filled or with a border.
type Swatch struct{ Fill, Border color.Color }

// Thumbnail implements plot.Thumbnailer.
func (s Swatch) Thumbnail(c *draw.Canvas) { s.Draw(c, c.Rectangle) }

// Draw draws the rectangle.
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
