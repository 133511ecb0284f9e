package page

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/figure"
)

// Figure files show what a chart of the page shows before anything is chosen.
const (
	figureWidth  = 960
	figureHeight = 440
	figureLeft   = 74
	figureRight  = 18
	figureTop    = 34
	figureBottom = 50
	maxDrawn     = 24 // series of a figure
)

// Picture is a static chart as a file.
type Picture struct {
	Name string // of the view
	SVG  []byte
}

// Pictures returns a chart of each view for light grounds, as standalone SVG.
func (p *Page) Pictures() []Picture {
	var out []Picture
	for i := range p.Views {
		out = append(out, Picture{p.Views[i].Name, p.draw(&p.Views[i])})
	}
	return out
}

// Picture returns a chart of the view as part of the page. The page's script replaces it.
func (p *Page) Picture(v View) template.HTML {
	return template.HTML(p.draw(&v)) //nolint:gosec // draw escapes all text
}

// slice returns the series that a chart shows before anything is chosen: of each facet
// that separates unlike measurements, the first value that any series has together with
// the values before it.
func (v *View) slice() []*Series {
	var left []*Series
	for i := range v.Series {
		left = append(left, &v.Series[i])
	}
	for i, f := range v.Facets {
		if !f.One || len(left) == 0 {
			continue
		}
		first := slices.MinFunc(left, func(a, b *Series) int { return a.Facets[i] - b.Facets[i] }).Facets[i]
		left = slices.DeleteFunc(left, func(s *Series) bool { return s.Facets[i] != first })
	}
	return left
}

// metric returns the figure that a chart of the view shows first: the first rate, or of a
// view that starts with its latency, that.
func (v *View) metric() (title, unit string, of func(figure.Point) float64) {
	if len(v.Rates) == 0 || v.Latency {
		return v.TimeTitle(), "µs", func(p figure.Point) float64 { return p.Time.P50 }
	}
	return v.Rates[0].Title, v.Rates[0].Unit, func(p figure.Point) float64 { return v.rate(0, p) }
}

// TimeTitle says what the times of the view are.
func (v *View) TimeTitle() string { return cmp.Or(v.Time, "latency") }

// rate returns one of the view's rates at p50, NaN if the point does not have it.
func (v *View) rate(k int, p figure.Point) float64 {
	switch work := p.Work[k]; {
	case v.Rates[k].Given:
		return work
	case work > 0 && p.Time.P50 > 0:
		return work / p.Time.P50
	default:
		return math.NaN()
	}
}

// drawing is SVG as it grows.
type drawing struct{ bytes.Buffer }

func (d *drawing) add(format string, args ...any) { fmt.Fprintf(d, format, args...) }

func (d *drawing) text(x, y float64, attributes, text string) {
	d.add(`<text x="%.1f" y="%.1f" %s>`, x, y, attributes)
	_ = xml.EscapeText(d, []byte(text)) // a buffer takes everything
	d.add("</text>")
}

func (p *Page) draw(v *View) []byte {
	all := v.slice()
	title, unit, of := v.metric()
	shown := slices.DeleteFunc(slices.Clone(all), func(s *Series) bool {
		return !slices.ContainsFunc(s.Points, func(p figure.Point) bool { return of(p) > 0 && p.X >= 0 })
	})
	most := maxDrawn
	if v.Shape == figure.Grid {
		most = 1
	}
	left := max(0, len(shown)-most)
	shown = shown[:len(shown)-left]
	t := themes[0]
	height := figureHeight + 22*(len(shown)+min(left, 1))
	var d drawing
	d.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" font-family="system-ui, sans-serif" font-size="12">`, figureWidth, height)
	if v.Time == "" {
		title = "p50 " + title
	}
	head := fmt.Sprintf("%s: %s in %s", v.Title, title, unit)
	var unlike []string // what the chart shows one value of
	for i, f := range v.Facets {
		if f.One && len(shown) > 0 {
			if value := f.Found[shown[0].Facets[i]]; value != "" {
				unlike = append(unlike, value)
			}
		}
	}
	if len(unlike) > 0 {
		head += " (" + strings.Join(unlike, ", ") + ")"
	}
	d.add("<title>")
	_ = xml.EscapeText(&d, []byte(head))
	d.add(`</title><rect width="%d" height="%d" fill="%s"/>`, figureWidth, height, t.Ground)
	d.text(figureLeft, 20, fmt.Sprintf(`fill="%s" font-weight="600"`, t.Ink), head)
	if v.Shape == figure.Grid {
		d.grid(shown, of, t)
	} else {
		d.lines(v, shown, of, t)
	}
	y := float64(figureHeight) + 12
	for _, s := range shown {
		look := lookOf(s, t)
		d.add(`<path d="M%d %.1fh30" stroke="%s" stroke-width="1.8" stroke-dasharray="%s"/>`, figureLeft, y-4, look.colour, look.dash)
		d.add(`<path d="M%.1f %.1f%s" fill="%s"/>`, figureLeft+15+look.marker.X, y-4+look.marker.Y, look.marker.Path, look.colour)
		d.text(figureLeft+40, y, fmt.Sprintf(`fill="%s"`, t.Ink), v.label(s))
		y += 22
	}
	if left > 0 {
		d.text(figureLeft, y, fmt.Sprintf(`fill="%s"`, t.Muted), fmt.Sprintf("%d more series are not drawn", left))
	}
	d.add("</svg>")
	return d.Bytes()
}

type look struct {
	colour, dash string
	marker       marker
}

func lookOf(s *Series, t theme) look {
	n := len(t.Series)
	return look{t.Series[s.Look%n], dashes[s.Facets[facetRun]%len(dashes)], markers[(s.Look%n+s.Look/n+s.Facets[facetRepeat])%len(markers)]}
}

func (d *drawing) lines(v *View, shown []*Series, of func(figure.Point) float64, t theme) {
	var x, y span
	for _, s := range shown {
		for _, p := range s.Points {
			if p.X > 0 && of(p) > 0 {
				x.add(float64(p.X))
				y.add(of(p))
			}
		}
	}
	if !x.some {
		return
	}
	atX := x.scale(figureLeft, figureWidth-figureRight)
	atY := y.scale(figureHeight-figureBottom, figureTop)
	for _, n := range x.ticks(2, 12) {
		name := strconv.FormatFloat(n, 'f', -1, 64)
		if v.X.Bytes {
			name = size(n)
		}
		d.add(`<path d="M%.1f %dV%d" stroke="%s"/>`, atX(n), figureTop, figureHeight-figureBottom, t.Grid)
		d.text(atX(n), figureHeight-figureBottom+16, fmt.Sprintf(`fill="%s" text-anchor="middle"`, t.Muted), name)
	}
	for _, n := range y.even(y.ticks(y.base(), 8)) {
		d.add(`<path d="M%d %.1fH%d" stroke="%s"/>`, figureLeft, atY(n), figureWidth-figureRight, t.Grid)
		d.text(figureLeft-8, atY(n)+4, fmt.Sprintf(`fill="%s" text-anchor="end"`, t.Muted), significant(n))
	}
	d.text((figureLeft+figureWidth-figureRight)/2, figureHeight-10, fmt.Sprintf(`fill="%s" text-anchor="middle"`, t.Muted), axisLabel(v.X))
	for _, s := range shown {
		look := lookOf(s, t)
		var line, good, bad strings.Builder
		for _, p := range s.Points {
			if p.X <= 0 || of(p) <= 0 {
				continue
			}
			px, py := atX(float64(p.X)), atY(of(p))
			stamp := fmt.Sprintf("M%.1f %.1f%s", px+look.marker.X, py+look.marker.Y, look.marker.Path)
			if p.Reason != "" {
				bad.WriteString(stamp)
				continue
			}
			good.WriteString(stamp)
			if line.Len() == 0 {
				fmt.Fprintf(&line, "M%.1f %.1f", px, py)
			} else {
				fmt.Fprintf(&line, "L%.1f %.1f", px, py)
			}
		}
		d.add(`<path d="%s" fill="none" stroke="%s" stroke-width="1.8" stroke-dasharray="%s"/><path d="%s" fill="%s"/>`,
			line.String(), look.colour, look.dash, good.String(), look.colour)
		if bad.Len() > 0 {
			d.add(`<path class="bad" d="%s" fill="%s" stroke="%s"/>`, bad.String(), t.Ground, t.Muted)
		}
	}
}

// axisLabel is the title of an axis with its unit.
func axisLabel(x figure.Axis) string {
	if x.Unit == "" {
		return x.Title
	}
	return x.Title + " in " + x.Unit
}

// span is the range of positive values on a logarithmic axis.
type span struct {
	low, high float64
	some      bool
}

func (s *span) add(v float64) {
	if !s.some {
		s.low, s.high, s.some = v, v, true
	}
	s.low, s.high = min(s.low, v), max(s.high, v)
}

func (s *span) scale(from, to float64) func(float64) float64 {
	low, high := math.Log2(s.low), math.Log2(s.high)
	pad := max(0.15, (high-low)*0.04)
	low, high = low-pad, high+pad
	return func(v float64) float64 { return from + (math.Log2(v)-low)/(high-low)*(to-from) }
}

// base is that of ticks which leave more than one in the span.
func (s *span) base() float64 {
	if s.high/s.low > 100 {
		return 10
	}
	return 2
}

// ticks returns at most most+1 powers of base in the span.
func (s *span) ticks(base float64, most int) []float64 {
	first := math.Ceil(math.Log(s.low)/math.Log(base) - 1e-9)
	last := math.Floor(math.Log(s.high)/math.Log(base) + 1e-9)
	step := max(1, math.Ceil((last-first)/float64(most)))
	var out []float64
	for e := first; e <= last; e += step {
		out = append(out, math.Pow(base, e))
	}
	if len(out) == 0 {
		return []float64{s.low}
	}
	return out
}

// even returns ticks at even distances, each 1, 2 or 5 times a power of ten, if the given powers are
// not at least two.
func (s *span) even(powers []float64) []float64 {
	if len(powers) > 1 || s.low == s.high {
		return powers
	}
	raw := (s.high - s.low) / 6
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	step := 10 * unit
	for _, k := range []float64{5, 2, 1} {
		if k*unit >= raw {
			step = k * unit
		}
	}
	var out []float64
	for i := math.Ceil(s.low / step); i*step <= s.high; i++ {
		out = append(out, i*step)
	}
	return out
}

func (d *drawing) grid(shown []*Series, of func(figure.Point) float64, t theme) {
	for _, s := range shown {
		world := int(math.Round(math.Sqrt(float64(1 + largest(s)))))
		var values span
		for _, p := range s.Points {
			if p.Reason == "" && of(p) > 0 {
				values.add(of(p))
			}
		}
		cell := float64(figureHeight-figureTop-figureBottom-20) / float64(max(world, 1))
		for _, p := range s.Points {
			v := of(p)
			if v <= 0 {
				continue
			}
			x, y := figureLeft+float64(int(p.X)%world)*cell, figureTop+24+float64(int(p.X)/world)*cell
			fill, ink := t.Ground, t.Muted
			if p.Reason == "" {
				part := 1.0
				if values.high > values.low {
					part = (v - values.low) / (values.high - values.low)
				}
				fill, ink = mixed(t.Heat[0], t.Heat[1], part), t.Ink
				if part > 0.55 {
					ink = t.Ground
				}
			}
			d.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" stroke="%s"/>`, x, y, cell-1, cell-1, fill, t.Grid)
			if cell >= 36 {
				d.text(x+cell/2, y+cell/2+4, fmt.Sprintf(`fill="%s" text-anchor="middle" font-size="10"`, ink), significant(v))
			}
		}
		for r := 0; r < world && world <= 32; r++ {
			at := (float64(r) + 0.5) * cell
			d.text(figureLeft+at, figureTop+18, fmt.Sprintf(`fill="%s" text-anchor="middle" font-size="10"`, t.Muted), strconv.Itoa(r))
			d.text(figureLeft-8, figureTop+28+at, fmt.Sprintf(`fill="%s" text-anchor="end" font-size="10"`, t.Muted), strconv.Itoa(r))
		}
	}
}

// mixed is the colour at a part of the way from one to another.
func mixed(from, to string, part float64) string {
	var rgb [3]any
	for i := range rgb {
		a, _ := strconv.ParseUint(from[1+2*i:3+2*i], 16, 8) // colours are of themes
		b, _ := strconv.ParseUint(to[1+2*i:3+2*i], 16, 8)
		rgb[i] = int(math.Round(float64(a) + (float64(b)-float64(a))*part))
	}
	return fmt.Sprintf("#%02x%02x%02x", rgb[:]...)
}
