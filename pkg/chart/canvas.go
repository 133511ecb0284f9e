package chart

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Point is a place: in pixels from the upper left corner of the canvas, or in the units of a plot's axes.
type Point struct{ X, Y float64 }

// Style is how a shape is drawn. An area or an outline without a colour is not drawn.
type Style struct {
	Fill, Stroke string  // such as #0072b2
	Opacity      float64 // of the area; 0 stands for 1
	Width        float64 // of the outline; 0 stands for 1
	Dashes       string  // SVG's stroke-dasharray
}

// attributes returns the style as SVG attributes.
func (s *Style) attributes() string {
	out := ` fill="` + cmp.Or(s.Fill, "none") + `"`
	if s.Opacity > 0 {
		out += ` fill-opacity="` + number(s.Opacity) + `"`
	}
	if s.Stroke != "" {
		out += ` stroke="` + s.Stroke + `" stroke-width="` + number(cmp.Or(s.Width, 1)) + `"`
	}
	if s.Dashes != "" {
		out += ` stroke-dasharray="` + s.Dashes + `"`
	}
	return out
}

// number formats a length with at most two decimals.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100+0, 'f', -1, 64) } // + 0: no -0

// Marker is a closed shape: an SVG path from a first point, X and Y from its centre.
type Marker struct {
	X    float64 `json:"x"`
	Y    float64 `json:"y"`
	Path string  `json:"path"`
}

// Markers tell series apart that share a colour.
var Markers = []Marker{
	{-4, 0, "a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z"},    // circle
	{-3.5, -3.5, "h7v7h-7z"},                     // square
	{0, -4.8, "l4.4 8h-8.8z"},                    // triangle
	{0, -5, "l5 5l-5 5l-5 -5z"},                  // diamond
	{0, 4.8, "l4.4 -8h-8.8z"},                    // triangle, point down
	{-1.5, -4.5, "h3v3h3v3h-3v3h-3v-3h-3v-3h3z"}, // cross
}

// swatch is the sample of a colour in a legend.
var swatch = Marker{-12, -6, "h24v12h-24z"}

// Colours are those of Okabe and Ito that have a contrast of 3:1 to white, ordered so that neighbours differ most.
var Colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000"}

// Canvas collects SVG elements. Later ones cover earlier ones.
type Canvas struct {
	b    strings.Builder
	x, y func(float64) float64
}

// At returns the place on the canvas of a point in the units of the plot's axes.
func (c *Canvas) At(x, y float64) Point { return Point{c.x(x), c.y(y)} }

func (c *Canvas) element(s *Style, format string, values ...float64) {
	text := make([]any, len(values))
	for i, v := range values {
		text[i] = number(v)
	}
	fmt.Fprintf(&c.b, "<"+format+"%s/>\n", append(text, s.attributes())...)
}

// Path draws a line through points, or the area that it encloses.
func (c *Canvas) Path(points []Point, s Style) {
	var at []string
	for _, p := range points {
		at = append(at, number(p.X)+" "+number(p.Y))
	}
	c.element(&s, `path d="M`+strings.Join(at, "L")+`"`)
}

// Curve draws a line from one point to another that starts towards a third one, via, and ends coming from it.
func (c *Canvas) Curve(from, via, to Point, s Style) {
	c.element(&s, `path d="M%s %sQ%s %s %s %s"`, from.X, from.Y, via.X, via.Y, to.X, to.Y)
}

// Box draws a rectangle with two corners that are opposite to each other.
func (c *Canvas) Box(a, b Point, s Style) {
	c.element(&s, `rect x="%s" y="%s" width="%s" height="%s"`, min(a.X, b.X), min(a.Y, b.Y), math.Abs(b.X-a.X), math.Abs(b.Y-a.Y))
}

// Circle draws a circle.
func (c *Canvas) Circle(centre Point, radius float64, s Style) {
	c.element(&s, `circle cx="%s" cy="%s" r="%s"`, centre.X, centre.Y, radius)
}

// Marks draws a marker at each point.
func (c *Canvas) Marks(points []Point, m Marker, s Style) {
	var d strings.Builder
	for _, p := range points {
		d.WriteString("M" + number(p.X+m.X) + " " + number(p.Y+m.Y) + m.Path)
	}
	c.element(&s, `path d="`+d.String()+`"`)
}

// Text writes a line of text, vertically centred at its place, which is the start, middle or end of the line.
func (c *Canvas) Text(at Point, anchor string, size float64, colour, text string) {
	fmt.Fprintf(&c.b, `<text x="%s" y="%s" text-anchor="%s" font-size="%s" fill="%s">`, number(at.X), number(at.Y+0.35*size), anchor, number(size), colour)
	c.escape(text)
	c.b.WriteString("</text>\n")
}

// escape writes text for an element or an attribute. Characters that XML lacks become U+FFFD.
func (c *Canvas) escape(text string) { _ = xml.EscapeText(&c.b, []byte(text)) } // a strings.Builder does not fail

// lines writes text below y, with a line break at each newline, and where a line would be wider than width:
// before a word or, if the word is wider than a line, inside it. It returns the lower end of the text.
func (c *Canvas) lines(x, y, width float64, anchor, text string) float64 {
	for line := range strings.Lines(text) {
		for rest := []rune(strings.Join(strings.Fields(line), " ")); len(rest) > 0; y += lineHeight {
			n := 1
			for n < len(rest) && TextWidth(string(rest[:n+1]), large) <= width {
				n++
			}
			for k := n; k > 0 && n < len(rest); k-- {
				if rest[k] == ' ' {
					n = k
					break
				}
			}
			c.Text(Point{x, y + lineHeight/2}, anchor, large, ink, string(rest[:n]))
			rest = []rune(strings.TrimPrefix(string(rest[n:]), " "))
		}
	}
	return y
}

// TextWidth returns the width that a line of text needs: that of Helvetica, Arial and Liberation Sans, and a
// sixth more, since a reader without them uses another font.
func TextWidth(text string, size float64) float64 {
	sum := 0
	for _, r := range text {
		if i := int(r) - ' '; i >= 0 && i < len(advances) {
			sum += advances[i]
		} else {
			sum += 1000
		}
	}
	return float64(sum) * size / 1000 * 7 / 6
}

// advances are the widths of the printable ASCII characters in thousandths of the size, from Adobe's font
// metrics of Helvetica.
var advances = [...]int{
	278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, // to /
	556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, // to ?
	1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778, // to O
	667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, // to _
	333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, // to o
	556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584, // to ~
}
