// Package chart draws charts as standalone SVG files in one style.
package chart

import (
	"fmt"
	"math"
	"slices"
)

// All lengths are in pixels.
const (
	Width  = 832.0 // of every chart
	Height = 330.0 // the usual height of what a plot's axes span
	Small  = 13.0  // the size of the text at ticks

	margin     = 12
	inner      = Width - 2*margin
	large      = 16.0 // the size of other text
	lineHeight = 20
	inset      = 6  // from an axis to the ends of its range
	sampleSize = 32 // the width of a legend's samples

	ink, grid = "#1b1f24", "#dddddd"
)

// Plot is a chart: layers over the ranges of two axes, a title above them and a legend below.
type Plot struct {
	Title  string
	X, Y   Axis
	Legend []Series
	layers []layer
}

// layer is drawn at points.
type layer struct {
	points []Point
	draw   func(*Canvas, []Point)
}

// Axis is the range of values that one direction of a plot shows.
type Axis struct {
	Label    string // broken at newlines and where it is too wide
	Log      bool   // for positive values
	Ticks    Ticker // without it, the axis is not drawn
	Min, Max float64
}

// New returns an empty plot. Its axes are linear and not drawn, and grow with its layers.
func New(title string) *Plot {
	empty := Axis{Min: math.Inf(1), Max: math.Inf(-1)}
	return &Plot{Title: title, X: empty, Y: empty}
}

// Add adds a layer above all others. The axes grow to show its points, which draw gets in pixels.
func (p *Plot) Add(points []Point, draw func(c *Canvas, at []Point)) {
	for _, at := range points {
		p.X.Min, p.X.Max = min(p.X.Min, at.X), max(p.X.Max, at.X)
		p.Y.Min, p.Y.Max = min(p.Y.Min, at.Y), max(p.Y.Max, at.Y)
	}
	p.layers = append(p.layers, layer{points, draw})
}

// Series is points with a line through them, with marks, or with both.
type Series struct {
	Label  string // in the legend
	Points []Point
	Line   Style // without a colour, there is no line
	Mark   Marker
	Marks  Style // without a colour, there are no marks
}

// Swatch returns the series that stands for a colour in a legend.
func Swatch(label string, s Style) Series { return Series{Label: label, Mark: swatch, Marks: s} }

// AddSeries adds a layer with a series.
func (p *Plot) AddSeries(s Series) {
	if len(s.Points) > 0 {
		p.Add(s.Points, func(c *Canvas, at []Point) { s.draw(c, at, at) })
	}
}

func (s *Series) draw(c *Canvas, line, marks []Point) {
	if s.Line.Stroke+s.Line.Fill != "" {
		c.Path(line, s.Line)
	}
	if s.Marks.Stroke+s.Marks.Fill != "" {
		c.Marks(marks, s.Mark, s.Marks)
	}
}

// Diagram draws a plot without axes that shows width by height units, each of them unit pixels wide and high.
func (p *Plot) Diagram(width, height, unit float64) []byte {
	p.X.Min, p.X.Max = (width-inner/unit)/2, (width+inner/unit)/2
	p.Y.Min, p.Y.Max = 0, height
	return p.SVG(height * unit)
}

// SVG draws a plot whose vertical axis spans the given height. The legend is below it. An axis with a
// single value gets a range around that value, and one without values a default range.
func (p *Plot) SVG(height float64) []byte {
	c := &Canvas{}
	bottom := p.legend(c, p.area(c, c.lines(Width/2, margin, inner, Middle, p.Title), height)) + margin
	whole := &Canvas{}
	fmt.Fprintf(&whole.b, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]s" height="%[2]s" viewBox="0 0 %[1]s %[2]s" `+
		`font-family="Liberation Sans,Arial,Helvetica,sans-serif" role="img" aria-label="`, number(Width), number(bottom))
	whole.escape(p.Title)
	whole.b.WriteString("\">\n")
	whole.Box(Point{}, Point{Width, bottom}, Style{Fill: "#ffffff"})
	whole.b.WriteString(c.b.String() + "</svg>\n")
	return []byte(whole.b.String())
}

// area draws the axes and layers of a plot below top, and returns their lower end.
func (p *Plot) area(c *Canvas, top, height float64) float64 {
	xs, ys := p.X.settle(), p.Y.settle()
	f := frame{left: margin, top: top + lineHeight/2, right: Width - margin}
	f.bottom = f.top + height
	var in Point // from the frame to the ends of the ranges
	if xs != nil {
		f.right -= widest(xs) / 2
		in.X = inset
	}
	if ys != nil {
		f.left += widest(ys) + 14
		f.bottom += 2 * inset
		in.Y = inset
	}
	if p.Y.Label != "" {
		f.left += lineHeight
		c.b.WriteString(`<g transform="rotate(-90)">`)
		c.Text(Point{-(f.top + f.bottom) / 2, margin + large/2}, Middle, large, ink, p.Y.Label)
		c.b.WriteString("</g>\n")
	}
	x, y := p.X.scale(f.left+in.X, f.right-in.X), p.Y.scale(f.bottom-in.Y, f.top+in.Y)
	f.axes(c, xs, ys, x, y)
	for _, l := range p.layers {
		at := make([]Point, len(l.points))
		for i, of := range l.points {
			at[i] = Point{x(of.X), y(of.Y)}
		}
		l.draw(c, at)
	}
	if xs != nil {
		f.bottom += 26
	}
	return c.lines((f.left+f.right)/2, f.bottom, inner, Middle, p.X.Label)
}

// frame is the place of the axes: its left and lower sides.
type frame struct{ left, top, right, bottom float64 }

// axes draws the axes that have ticks.
func (f *frame) axes(c *Canvas, xs, ys []Tick, x, y func(float64) float64) {
	line := func(colour string, x1, y1, x2, y2 float64) {
		c.Path([]Point{{x1, y1}, {x2, y2}}, Style{Stroke: colour})
	}
	for _, t := range xs {
		if t.Label != "" {
			line(grid, x(t.Value), f.top, x(t.Value), f.bottom)
			c.Text(Point{x(t.Value), f.bottom + 17}, Middle, Small, ink, t.Label)
		}
		line(ink, x(t.Value), f.bottom, x(t.Value), f.bottom+t.length())
	}
	for _, t := range ys {
		if t.Label != "" {
			line(grid, f.left, y(t.Value), f.right, y(t.Value))
			c.Text(Point{f.left - 11, y(t.Value)}, End, Small, ink, t.Label)
		}
		line(ink, f.left, y(t.Value), f.left-t.length(), y(t.Value))
	}
	if xs != nil {
		line(ink, f.left, f.bottom, f.right, f.bottom)
	}
	if ys != nil {
		line(ink, f.left, f.top, f.left, f.bottom)
	}
}

// legend draws the legend below y in as many columns as have room, and returns its lower end.
func (p *Plot) legend(c *Canvas, y float64) float64 {
	const gap = 8
	width := 0.0
	for _, s := range p.Legend {
		width = max(width, sampleSize+3*gap+TextWidth(s.Label, large))
	}
	if len(p.Legend) > 0 {
		y += margin
	}
	for row := range slices.Chunk(p.Legend, max(1, int(inner/max(1, width)))) {
		from := y
		for k, s := range row {
			x := margin + float64(k)*width
			middle := from + lineHeight/2
			s.draw(c, []Point{{x, middle}, {x + sampleSize, middle}}, []Point{{x + sampleSize/2, middle}})
			y = max(y, c.lines(x+sampleSize+gap, from, inner-sampleSize-gap, Start, s.Label))
		}
	}
	return y
}

// settle gives the axis a range, and returns its ticks.
func (a *Axis) settle() []Tick {
	switch {
	case a.Min > a.Max && a.Log:
		a.Min, a.Max = 1, 10
	case a.Min > a.Max:
		a.Min, a.Max = 0, 1
	case a.Min == a.Max && a.Log:
		a.Min, a.Max = a.Min/2, 2*a.Max
	case a.Min == a.Max:
		a.Min, a.Max = a.Min-1, a.Max+1
	}
	if a.Ticks == nil {
		return nil
	}
	return a.Ticks(a.Min, a.Max)
}

// scale returns the function from values to pixels.
func (a *Axis) scale(from, to float64) func(float64) float64 {
	of := func(v float64) float64 { return v }
	if a.Log {
		of = math.Log
	}
	return func(v float64) float64 { return from + (to-from)*(of(v)-of(a.Min))/(of(a.Max)-of(a.Min)) }
}

// widest returns the width of the widest label.
func widest(ticks []Tick) (width float64) {
	for _, t := range ticks {
		width = max(width, TextWidth(t.Label, Small))
	}
	return width
}

// length returns the length of the tick's line.
func (t Tick) length() float64 {
	if t.Label == "" {
		return 4
	}
	return 8
}
