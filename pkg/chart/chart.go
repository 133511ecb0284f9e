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
	layers []func(*Canvas)
}

// Axis is the range of values that one direction of a plot shows.
type Axis struct {
	Label    string // that of X is broken at newlines, and where it is wider than the axis
	Log      bool   // for positive values
	Ticks    Ticker // without it, the axis is not drawn
	Min, Max float64
}

// New returns an empty plot. Its axes are linear and not drawn, and grow with its layers.
func New(title string) *Plot {
	empty := Axis{Min: math.Inf(1), Max: math.Inf(-1)}
	return &Plot{Title: title, X: empty, Y: empty}
}

// Add adds a layer above all others. It does not change the axes.
func (p *Plot) Add(draw func(*Canvas)) { p.layers = append(p.layers, draw) }

// Grow makes the axes reach to a point.
func (p *Plot) Grow(x, y float64) {
	p.X.Min, p.X.Max = min(p.X.Min, x), max(p.X.Max, x)
	p.Y.Min, p.Y.Max = min(p.Y.Min, y), max(p.Y.Max, y)
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

// AddSeries adds a layer with a series, and makes the axes reach to its points. Points that an axis cannot show are left out.
func (p *Plot) AddSeries(s Series) {
	s.Points = slices.DeleteFunc(slices.Clone(s.Points), func(at Point) bool { return !p.X.shows(at.X) || !p.Y.shows(at.Y) })
	if len(s.Points) == 0 {
		return
	}
	for _, at := range s.Points {
		p.Grow(at.X, at.Y)
	}
	p.Add(func(c *Canvas) {
		var at []Point
		for _, of := range s.Points {
			at = append(at, c.At(of.X, of.Y))
		}
		s.draw(c, at, at)
	})
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
	bottom := p.legend(c, p.area(c, c.lines(Width/2, margin, inner, "middle", p.Title), height)) + margin
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
	top += lineHeight / 2
	left, right, bottom := float64(margin), Width-margin, top+height
	var in Point // from the axes to the ends of their ranges
	if xs != nil {
		right -= widest(xs) / 2
		in.X = inset
	}
	if ys != nil {
		left += widest(ys) + 14
		bottom += 2 * inset
		in.Y = inset
	}
	if p.Y.Label != "" {
		left += lineHeight
		c.b.WriteString(`<g transform="rotate(-90)">`)
		c.Text(Point{-(top + bottom) / 2, margin + large/2}, "middle", large, ink, p.Y.Label)
		c.b.WriteString("</g>\n")
	}
	c.x, c.y = p.X.scale(left+in.X, right-in.X), p.Y.scale(bottom-in.Y, top+in.Y)
	c.axis(xs, "middle", 17, bottom-top, func(v, out float64) Point { return Point{c.x(v), bottom + out} })
	c.axis(ys, "end", 11, right-left, func(v, out float64) Point { return Point{left - out, c.y(v)} })
	if ys != nil {
		c.Path([]Point{{left, top}, {left, bottom}}, Style{Stroke: ink})
	}
	if xs != nil {
		c.Path([]Point{{left, bottom}, {right, bottom}}, Style{Stroke: ink})
	}
	for _, draw := range p.layers {
		draw(c)
	}
	if xs != nil {
		bottom += 26
	}
	return c.lines((left+right)/2, bottom, right-left, "middle", p.X.Label)
}

// axis draws ticks, their labels at a distance from the plot, and the grid lines of the given length. at returns the
// point of a value on the axis, moved out of the plot.
func (c *Canvas) axis(ticks []Tick, anchor string, distance, length float64, at func(v, out float64) Point) {
	for _, t := range ticks {
		mark := 4.0
		if t.Label != "" {
			mark = 8
			c.Path([]Point{at(t.Value, 0), at(t.Value, -length)}, Style{Stroke: grid})
			c.Text(at(t.Value, distance), anchor, Small, ink, t.Label)
		}
		c.Path([]Point{at(t.Value, 0), at(t.Value, mark)}, Style{Stroke: ink})
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
			y = max(y, c.lines(x+sampleSize+gap, from, inner-sampleSize-gap, "start", s.Label))
		}
	}
	return y
}

// shows reports whether the axis can have a value.
func (a *Axis) shows(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (v > 0 || !a.Log)
}

// settle gives the axis a range, a default one if it cannot show its values, and returns its ticks.
func (a *Axis) settle() []Tick {
	switch span := a.Max - a.Min; {
	case !(span >= 0 && span <= math.MaxFloat64) || a.Log && a.Min <= 0: // NaN is neither
		a.Min, a.Max = 1, 10
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
