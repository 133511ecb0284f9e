package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

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
func (p *Page) Pictures() (out []Picture) {
	for i := range p.Views {
		out = append(out, Picture{p.Views[i].Name, p.Views[i].draw()})
	}
	return out
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

func (v *View) draw() []byte {
	_, _, of := v.metric()
	shown := slices.DeleteFunc(v.slice(), func(s *Series) bool {
		return !slices.ContainsFunc(s.Points, func(p figure.Point) bool { return of(p) > 0 && p.X >= 0 })
	})
	most := maxDrawn
	if v.Shape == figure.Grid {
		most = 1
	}
	left := len(shown) - most
	shown = shown[:min(len(shown), most)]
	names, shared := v.labels(shown)
	p := chart.New(v.head(shown) + "\n" + shared)
	if v.Shape == figure.Grid {
		for i, s := range shown {
			v.square(p, s, names[i], of)
		}
	} else {
		v.lines(p, shown, names, of)
	}
	if left > 0 {
		p.Legend = append(p.Legend, chart.Series{Label: fmt.Sprintf("%d more series not drawn", left)})
	}
	if v.Shape != figure.Grid {
		return p.SVG(chart.Height)
	}
	side := 1.0
	for _, s := range shown {
		side += float64(v.world(s))
	}
	return p.Diagram(side, side, gridHeight/side)
}

// gridHeight is the height of a heat map in pixels.
const gridHeight = 480

// lines adds a line for each series, through the rungs that count.
func (v *View) lines(p *chart.Plot, shown []*Series, names []string, of func(figure.Point) float64) {
	p.X.Log, p.X.Ticks = true, chart.Powers(v.X.Bytes)
	p.Y.Log, p.Y.Ticks = true, chart.Decades
	p.X.Label = v.X.Title
	if unit := v.X.Unit; unit != "" {
		p.X.Label += " in " + unit
	} else if v.X.Bytes && !strings.HasPrefix(v.X.Title, "bytes") {
		p.X.Label += " in bytes"
	}
	t := themes[0]
	byRun := v.onlyRunsDiffer(shown)
	for k, s := range shown {
		var good, bad, low, high []chart.Point
		for i, point := range s.Points {
			at := chart.Point{X: float64(point.X), Y: of(point)}
			switch {
			case !(at.X > 0 && at.Y > 0):
			case point.Reason != "":
				bad = append(bad, at)
			default:
				good = append(good, at)
				if s.Spreads != nil {
					a, b := point, point
					a.Time.P50, b.Time.P50 = s.Spreads[i].Low, s.Spreads[i].High
					low, high = append(low, chart.Point{X: at.X, Y: of(a)}), append(high, chart.Point{X: at.X, Y: of(b)})
				}
			}
		}
		n, look := len(t.Series), s.Look
		if byRun {
			look = s.Run
		}
		ink := t.Series[look%n]
		slices.Reverse(high)
		p.AddSeries(chart.Series{Points: append(low, high...), Line: chart.Style{Fill: ink, Opacity: 0.16}})
		line := chart.Series{
			Label: names[k], Points: good, Line: chart.Style{Stroke: ink, Width: 1.8, Dashes: dashes[s.Run%len(dashes)]},
			Mark: chart.Markers[(look%n+look/n)%len(chart.Markers)], Marks: chart.Style{Fill: ink},
		}
		p.AddSeries(line)
		p.AddSeries(chart.Series{Points: bad, Mark: chart.Markers[0], Marks: chart.Style{Stroke: t.Muted}})
		p.Legend = append(p.Legend, line)
	}
}

// darkShare is the share of the scale above which the ground is more readable on a cell than the ink.
const darkShare = 0.7

// square adds a heat map from rank (row) to rank (column), with the ranks above and to the left. It adds its name to
// the title.
func (v *View) square(p *chart.Plot, s *Series, name string, of func(figure.Point) float64) {
	t, world, low, high := themes[0], v.world(s), math.Inf(1), math.Inf(-1)
	for _, point := range s.Points {
		if f := of(point); point.Reason == "" && f > 0 {
			low, high = min(low, f), max(high, f)
		}
	}
	cell := float64(gridHeight) / float64(world+1)
	half, edge := cell/2-0.5, t.Grid
	if cell < 6 { // edges would hide the colours
		half, edge = cell/2, ""
	}
	p.Add(func(c *chart.Canvas) {
		at := func(row, column int) chart.Point { return c.At(float64(column)+1.5, float64(world-row)-0.5) }
		write := func(at chart.Point, ink, text string) {
			if size := min(chart.Small, cell/3, 0.95*cell/chart.TextWidth(text, 1)); size >= 2 { // smaller text only makes the file larger
				c.Text(at, "middle", size, ink, text)
			}
		}
		for r := range world {
			write(at(-1, r), t.Muted, strconv.Itoa(r))
			write(at(r, -1), t.Muted, strconv.Itoa(r))
		}
		for _, point := range s.Points {
			f, centre := of(point), at(int(point.X)/world, int(point.X)%world)
			if f <= 0 {
				continue
			}
			fill, ink := t.Ground, t.Muted
			if point.Reason == "" {
				part := 1.0
				if high > low {
					part = (f - low) / (high - low)
				}
				if fill, ink = mixed(t.Heat[0], t.Heat[1], part), t.Ink; part > darkShare {
					ink = t.Ground
				}
			}
			c.Box(chart.Point{X: centre.X - half, Y: centre.Y - half}, chart.Point{X: centre.X + half, Y: centre.Y + half}, chart.Style{Fill: fill, Stroke: edge})
			write(centre, ink, significant(f))
		}
	})
	p.Title += name
	if high >= low {
		p.Legend = append(p.Legend, chart.Swatch("lowest: "+significant(low), chart.Style{Fill: t.Heat[0], Stroke: t.Grid}),
			chart.Swatch("highest: "+significant(high), chart.Style{Fill: t.Heat[1]}))
	}
}

// onlyRunsDiffer reports whether series differ only in the run, which colours then tell apart.
func (v *View) onlyRunsDiffer(shown []*Series) bool {
	return len(shown) > 1 && !slices.ContainsFunc(shown, func(s *Series) bool {
		return !slices.Equal(s.Facets[facetRun+1:], shown[0].Facets[facetRun+1:])
	})
}

// mixed interpolates between two colours.
func mixed(from, to string, part float64) string {
	channel := func(i int) uint8 {
		a, _ := strconv.ParseUint(from[i:i+2], 16, 8) // colours of themes always parse
		b, _ := strconv.ParseUint(to[i:i+2], 16, 8)
		return uint8(math.Round(float64(a) + (float64(b)-float64(a))*part))
	}
	return fmt.Sprintf("#%02x%02x%02x", channel(1), channel(3), channel(5))
}

// labels names series by the facets in which they differ. shared is what all of them have in common, without what the
// title says. A series that is alone, or that lacks the facets in which others differ, is named by what it shares.
func (v *View) labels(shown []*Series) (names []string, shared string) {
	differs := func(i int) bool {
		return slices.ContainsFunc(shown, func(s *Series) bool { return s.Facets[i] != shown[0].Facets[i] })
	}
	rest := func(i int) bool {
		return !differs(i) && !v.Facets[i].One && v.Facets[i].Found[shown[0].Facets[i]] != "none" // such as a registration
	}
	for _, s := range shown {
		names = append(names, cmp.Or(v.label(s, differs), v.label(s, rest)))
	}
	if len(shown) > 1 {
		shared = v.label(shown[0], rest)
	}
	return names, shared
}

// label names a series by the facets that has chooses, except the run if there is only one.
func (v *View) label(s *Series, has func(facet int) bool) string {
	var parts []string
	for i, k := range s.Facets {
		value := v.Facets[i].Found[k]
		n, err := strconv.Atoi(value)
		switch {
		case !has(i) || i == facetRun && len(v.Facets[facetRun].Found) == 1 || i == facetRepeat && value == middle || value == "":
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
