package page

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/collectivex/collectivex/pkg/chart"
	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/plural"
)

// maxDrawn is the maximum number of series in a figure file.
const maxDrawn = 24

// Picture is a static chart: the default state of a chart of the page.
type Picture struct {
	Name string // of the view
	SVG  []byte
}

// Pictures returns a chart of each view for light backgrounds, as standalone SVG.
func (p *Page) Pictures() ([]Picture, error) {
	var out []Picture
	for i := range p.Views {
		svg, err := p.Views[i].draw()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Views[i].Name, err)
		}
		out = append(out, Picture{p.Views[i].Name, svg})
	}
	return out, nil
}

// slice returns the series that a chart shows by default: for each facet that separates kinds of
// measurement, the first value that occurs together with the values chosen before it.
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

// metric returns the figure that a chart of the view shows by default: the first rate, or the latency if
// the view begins with it.
func (v *View) metric() (title, unit string, of func(figure.Point) float64) {
	if len(v.Rates) == 0 || v.Latency {
		return v.TimeTitle(), "µs", func(p figure.Point) float64 { return p.Time.P50 }
	}
	return v.Rates[0].Title, v.Rates[0].Unit, func(p figure.Point) float64 { return v.rate(0, p) }
}

// TimeTitle returns the name of the times of the view.
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

// head returns the title of a chart: its contents, and the chosen value of facets that separate kinds of
// measurement.
func (v *View) head(shown []*Series) string {
	title, unit, _ := v.metric()
	if v.Time == "" {
		title = "p50 " + title
	}
	head := fmt.Sprintf("%s: %s in %s", v.Title, title, unit)
	var unlike []string
	for i, f := range v.Facets {
		if f.One && len(shown) > 0 && f.Found[shown[0].Facets[i]] != "" {
			unlike = append(unlike, f.Found[shown[0].Facets[i]])
		}
	}
	if len(unlike) > 0 {
		head += " (" + strings.Join(unlike, ", ") + ")"
	}
	return head
}

func (v *View) draw() ([]byte, error) {
	_, _, of := v.metric()
	shown := slices.DeleteFunc(v.slice(), func(s *Series) bool {
		return !slices.ContainsFunc(s.Points, func(p figure.Point) bool { return of(p) > 0 && p.X >= 0 })
	})
	left := max(0, len(shown)-maxDrawn)
	if v.Shape == figure.Grid {
		left = max(0, len(shown)-1)
	}
	shown = shown[:len(shown)-left]
	p := chart.New(v.head(shown))
	height := chart.Height
	if v.Shape == figure.Grid {
		height *= 1.3
		p.HideAxes()
		for _, s := range shown {
			square := newSquare(s, of)
			p.Add(square)
			p.Legend.Add(v.label(s))
			if square.high >= square.low {
				p.Legend.Add("lowest: "+significant(square.low), chart.Swatch{Fill: colour(themes[0].Heat[0]), Border: colour(themes[0].Grid)})
				p.Legend.Add("highest: "+significant(square.high), chart.Swatch{Fill: colour(themes[0].Heat[1])})
			}
		}
	} else {
		v.lines(p, shown, of)
	}
	if left > 0 {
		p.Legend.Add(fmt.Sprintf("%d more series are not drawn", left))
	}
	return chart.SVG(p, height)
}

// lines adds a line for each series, through the rungs that count.
func (v *View) lines(p *plot.Plot, shown []*Series, of func(figure.Point) float64) {
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, chart.Powers{Bytes: v.X.Bytes}
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, chart.Decades{}
	p.X.Label.Text = v.X.Title
	if unit := v.X.Unit; unit != "" {
		p.X.Label.Text += " in " + unit
	} else if v.X.Bytes {
		p.X.Label.Text += " in bytes"
	}
	chart.AddGrid(p)
	t := themes[0]
	byRun := v.onlyRunsDiffer(shown)
	for _, s := range shown {
		var good, bad, low, high plotter.XYs
		for i, point := range s.Points {
			at := plotter.XY{X: float64(point.X), Y: of(point)}
			switch {
			case !(at.X > 0 && at.Y > 0):
			case point.Reason != "":
				bad = append(bad, at)
			default:
				good = append(good, at)
				if s.Spreads != nil {
					a, b := point, point
					a.Time.P50, b.Time.P50 = s.Spreads[i].Low, s.Spreads[i].High
					low, high = append(low, plotter.XY{X: at.X, Y: of(a)}), append(high, plotter.XY{X: at.X, Y: of(b)})
				}
			}
		}
		n, look := len(t.Series), s.Look
		if byRun {
			look = s.Run
		}
		ink := colour(t.Series[look%n])
		if len(low) > 0 {
			slices.Reverse(high)
			p.Add(&plotter.Polygon{XYs: []plotter.XYs{append(low, high...)}, Color: faint(ink)})
		}
		line := &plotter.Line{XYs: good, LineStyle: draw.LineStyle{Color: ink, Width: vg.Points(1.4), Dashes: dashes[s.Run%len(dashes)]}}
		marks := &plotter.Scatter{XYs: good, GlyphStyle: draw.GlyphStyle{
			Color: ink, Radius: vg.Points(3), Shape: glyphs[(look%n+look/n)%len(glyphs)],
		}}
		grey := &plotter.Scatter{XYs: bad, GlyphStyle: draw.GlyphStyle{Color: colour(t.Muted), Radius: vg.Points(3), Shape: draw.RingGlyph{}}}
		for _, of := range []plot.Plotter{line, marks, grey} {
			if xy, ok := of.(plotter.XYer); ok && xy.Len() > 0 {
				p.Add(of)
			}
		}
		p.Legend.Add(v.label(s), line, marks)
	}
}

// square is a heat map from rank (row) to rank (column).
type square struct {
	*Series
	of        func(figure.Point) float64
	world     int
	low, high float64
}

// darkShare is the share of the scale above which the ground is more readable on a cell than the ink.
const darkShare = 0.7

func newSquare(s *Series, of func(figure.Point) float64) *square {
	m := &square{Series: s, of: of, world: worldOf(s), low: math.Inf(1), high: math.Inf(-1)}
	for _, p := range s.Points {
		if v := of(p); p.Reason == "" && v > 0 {
			m.low, m.high = min(m.low, v), max(m.high, v)
		}
	}
	return m
}

func (m *square) Plot(c draw.Canvas, p *plot.Plot) {
	t := themes[0]
	size := c.Size()
	cell := min(size.X, size.Y) / vg.Length(m.world+1)
	words := text.Style{Font: p.X.Tick.Label.Font, XAlign: draw.XCenter, YAlign: draw.YCenter, Handler: plot.DefaultTextHandler}
	words.Font.Size = min(words.Font.Size, cell/3)
	at := func(row, column int) vg.Rectangle {
		min := vg.Point{X: c.Min.X + vg.Length(column+1)*cell, Y: c.Max.Y - vg.Length(row+2)*cell}
		return vg.Rectangle{Min: min, Max: min.Add(vg.Point{X: cell - 0.5, Y: cell - 0.5})}
	}
	write := func(r vg.Rectangle, ink, text string) {
		words.Color = colour(ink)
		c.FillText(words, r.Min.Add(r.Max).Scale(0.5), text)
	}
	for r := range m.world {
		write(at(-1, r), t.Muted, strconv.Itoa(r))
		write(at(r, -1), t.Muted, strconv.Itoa(r))
	}
	for _, p := range m.Points {
		v := m.of(p)
		if v <= 0 {
			continue
		}
		box := at(int(p.X)/m.world, int(p.X)%m.world)
		fill, ink := colour(t.Ground), t.Muted
		if p.Reason == "" {
			part := 1.0
			if m.high > m.low {
				part = (v - m.low) / (m.high - m.low)
			}
			if fill, ink = mixed(t.Heat[0], t.Heat[1], part), t.Ink; part > darkShare {
				ink = t.Ground
			}
		}
		chart.Swatch{Fill: fill, Border: colour(t.Grid)}.Draw(&c, box)
		write(box, ink, significant(v))
	}
}

// colour returns a colour of a theme.
func colour(hex string) color.Color { return mixed(hex, hex, 0) }

// faint returns the colour of the band around a line.
func faint(ink color.Color) color.Color {
	r, g, b, _ := ink.RGBA()
	return color.NRGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 40}
}

// onlyRunsDiffer reports whether series differ only in the run, which colours then tell apart.
func (v *View) onlyRunsDiffer(shown []*Series) bool {
	return len(shown) > 1 && !slices.ContainsFunc(shown, func(s *Series) bool {
		return !slices.Equal(s.Facets[facetRun+1:], shown[0].Facets[facetRun+1:])
	})
}

// mixed interpolates between two colours.
func mixed(from, to string, part float64) color.Color {
	channel := func(i int) uint8 {
		a, _ := strconv.ParseUint(from[i:i+2], 16, 8) // colours of themes always parse
		b, _ := strconv.ParseUint(to[i:i+2], 16, 8)
		return uint8(math.Round(float64(a) + (float64(b)-float64(a))*part))
	}
	return color.RGBA{channel(1), channel(3), channel(5), 0xff}
}

// label identifies a series by its facets, except the run if there is only one.
func (v *View) label(s *Series) string {
	var parts []string
	for i, k := range s.Facets {
		value := v.Facets[i].Found[k]
		n, err := strconv.Atoi(value)
		switch {
		case i == facetRun && len(v.Facets[facetRun].Found) == 1 || i == facetRepeat && value == middle || value == "":
		case i == facetRanks:
			parts = append(parts, plural.Count(n, "rank", "ranks"))
		case v.Facets[i].Number && err == nil:
			parts = append(parts, v.Facets[i].Title+" "+value)
		default:
			parts = append(parts, value)
		}
	}
	return strings.Join(parts, " ")
}
