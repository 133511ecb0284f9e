package page

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/table"
)

var (
	//go:embed page.js
	script string
	//go:embed page.css
	style string
)

// WriteHTML writes the page. Equal pages have equal bytes.
func (p *Page) WriteHTML(w io.Writer) error {
	pictures := p.Pictures()
	end := mark("</script>\n<script>{}</script>\n</body>\n</html>\n", markup(script))
	text := p.text(pictures, "")
	data, kept, err := p.data(MaxBytes - len(text) - len(end))
	if err != nil {
		return err
	}
	if left := leftOut(kept); left != "" { // a remark that is not yet on the page
		text = p.text(pictures, left)
	}
	for _, part := range [][]byte{text, data, []byte(end)} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// text returns the page up to its data. left names the quantiles that the data leaves out.
func (p *Page) text(pictures []Picture, left string) []byte {
	css := styles() + style
	w := writer{Page: p}
	w.head(css, fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; img-src blob: data:; base-uri 'none'; form-action 'none'",
		digest(script), digest(css)))
	w.glance()
	if len(p.Comparisons) > 0 {
		w.comparison()
	}
	if len(p.Trends) > 0 {
		w.trend()
	}
	for i := range p.Views {
		w.view(&p.Views[i], pictures[i].SVG)
	}
	w.runs(left)
	w.coverage()
	w.provenance()
	w.put("\n</main>\n" + `<script type="text/plain" id="data">`)
	return w.Bytes()
}

// digest returns the Content-Security-Policy source that allows text.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func styles() string {
	var b strings.Builder
	vars := func(format string, t theme) {
		colours := fmt.Sprintf("--ground: %s; --panel: %s; --ink: %s; --muted: %s; --grid: %s; --warn: %s; --focus: %s;",
			t.Ground, t.Panel, t.Ink, t.Muted, t.Grid, t.Warn, t.Series[0])
		fmt.Fprintf(&b, format, t.Name, colours)
	}
	vars("/* %s */ :root { %s }\n", themes[0])
	vars("@media (prefers-color-scheme: %s) { :root { %s } }\n", themes[1])
	for _, t := range themes { // the reader's choice has precedence over the system's
		vars(":root[data-theme=%[1]s] { color-scheme: %[1]s; %[2]s }\n", t)
	}
	return b.String()
}

// leftOut names the quantiles that did not fit.
func leftOut(kept []quantile) string {
	var out []string
	for _, q := range quantiles {
		if !slices.ContainsFunc(kept, func(k quantile) bool { return k.Name == q.Name }) {
			out = append(out, q.Name)
		}
	}
	return strings.Join(out, ", ")
}

// maxRows limits the table of all series of a view.
const maxRows = 4000

// Row is a row of a table.
type Row struct {
	Cells []any // texts, numbers and Figures
	Bad   bool  // whether something is wrong

	Low, High Figure   // of a series: the lowest latency, and the highest first rate
	Figures   []Figure // of a rung: times and rates
}

// Figure is a formatted figure of a rung, its value and its tooltip.
type Figure struct{ Text, Value, Title string }

// Columns returns the titles of the facets in which series differ, or all if the page has one series.
func (v *View) Columns() []string {
	var out []string
	for _, i := range v.telling() {
		out = append(out, v.Facets[i].Title)
	}
	return out
}

func (v *View) telling() []int {
	var out []int
	for i, f := range v.Facets {
		if i == facetRepeat {
			continue // tables have the medians
		}
		if len(f.Found) > 1 || i == facetSKU || i == facetBackend || i == facetRanks || f.One {
			out = append(out, i)
		}
	}
	return out
}

// Common names the facets that are equal in all series.
func (v *View) Common() string {
	var out []string
	telling := map[int]bool{}
	for _, i := range v.telling() {
		telling[i] = true
	}
	for i, f := range v.Facets {
		if !telling[i] && i != facetRepeat && len(f.Found) == 1 && f.Found[0] != "" {
			out = append(out, f.Title+" "+f.Found[0])
		}
	}
	return strings.Join(out, ", ")
}

// Listed returns the series in the tables of a view: all but single repeats of a case.
func (v *View) Listed() []Series {
	n := slices.IndexFunc(v.Series, func(s Series) bool { return s.Facets[facetRepeat] > 0 })
	if n < 0 {
		n = len(v.Series)
	}
	return v.Series[:n]
}

// Groups returns the rows of a view, grouped by what may be ranked.
func (p *Page) Groups(v View) [][]Row {
	v.Series = v.Listed()
	v.Series = v.Series[:min(len(v.Series), maxRows)]
	return grouped(p, &v, func(s *Series, c *Case) []Row { return []Row{row(&v, s, c)} })
}

// grouped returns the rows of all series of a view, by comparison key and kind of measurement.
func grouped(p *Page, v *View, rows func(*Series, *Case) []Row) [][]Row {
	var out [][]Row
	at := map[string]int{}
	for i := range v.Series {
		s := &v.Series[i]
		c := &p.Cases[s.Case]
		key := []byte(c.Key)
		for f, k := range s.Facets {
			if v.Facets[f].One {
				key = fmt.Appendf(key, "/%d", k)
			}
		}
		k, ok := at[string(key)]
		if !ok {
			k = len(out)
			at[string(key)], out = k, append(out, nil)
		}
		out[k] = append(out[k], rows(s, c)...)
	}
	return out
}

// Unlisted returns how many series the table of a view omits.
func (v *View) Unlisted() int { return max(0, len(v.Listed())-maxRows) }

func row(v *View, s *Series, c *Case) Row {
	r, counted := Row{Bad: c.Status != result.Success}, 0
	low, high := math.Inf(1), math.Inf(-1)
	for i, p := range s.Points {
		if p.Reason != "" {
			continue
		}
		counted++
		at := v.at(s, p.X)
		if us := p.Time.P99; us != nil {
			at += fmt.Sprintf(", p99 %s µs", significant(*us))
		}
		if v.Time == "" {
			at += ", " + plural.Count(p.Samples, "sample", "samples")
		}
		if p.Time.P50 > 0 && p.Time.P50 < low {
			low = p.Time.P50
			r.Low = Figure{significant(low) + s.spread(i), strconv.FormatFloat(low, 'g', digits, 64), at}
		}
		if len(v.Rates) > 0 && v.rate(0, p) > high {
			high = v.rate(0, p)
			r.High = Figure{significant(high) + v.spread(s, i, 0), strconv.FormatFloat(high, 'g', digits, 64), at}
		}
	}
	r.Cells = append(v.cells(s), strings.TrimSuffix(c.Status+": "+c.Reason, ": "), fmt.Sprintf("%d of %d", counted, len(s.Points)), r.Low)
	if len(v.Rates) > 0 {
		r.Cells = append(r.Cells, r.High)
	}
	r.Cells = append(r.Cells, c.Key)
	return r
}

// spread returns the text of the spread of a point's time over repeats.
func (s *Series) spread(i int) string {
	if s.Spreads == nil {
		return ""
	}
	return s.Spreads[i].String()
}

// spread returns the text of the spread over repeats of a rate of a point that follows from its time.
func (v *View) spread(s *Series, i, rate int) string {
	if s.Spreads == nil || v.Rates[rate].Given {
		return ""
	}
	of, work := s.Spreads[i], s.Points[i].Work[rate]
	return figure.Spread{Median: work / of.Median, Low: work / of.High, High: work / of.Low, N: of.N}.String()
}

func (v *View) cells(s *Series) []any {
	var out []any
	for _, i := range v.telling() {
		out = append(out, v.Facets[i].Found[s.Facets[i]])
	}
	return out
}

// at formats a rung.
func (v *View) at(s *Series, x int64) string {
	switch {
	case v.Shape == "grid":
		world := int64(v.world(s))
		return fmt.Sprintf("rank %d to rank %d", x/world, x%world)
	case v.X.Bytes:
		return table.Size(x)
	default:
		return fmt.Sprintf("%s: %d", v.X.Title, x)
	}
}

// world returns the number of ranks of a series. The points of a grid do not tell it: some pairs may lack a figure.
func (v *View) world(s *Series) int {
	world, _ := strconv.Atoi(v.Facets[facetRanks].Found[s.Facets[facetRanks]])
	return world
}

// significant prints v with four significant digits and a decimal prefix for large figures.
func significant(v float64) string {
	for _, u := range []struct {
		least, scale float64
		prefix       string
	}{{1e9, 1e9, " G"}, {1e6, 1e6, " M"}, {1e5, 1e3, " k"}} {
		if math.Abs(v) >= u.least {
			return short(v/u.scale) + u.prefix
		}
	}
	return short(v)
}

// short prints four significant digits without exponent.
func short(v float64) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return "–"
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

func (o Origin) fact(name string) string {
	for _, f := range o.Facts {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// Banner describes what a chart mixes by default.
func (p *Page) Banner(v View) []string {
	var out []string
	unlike := func(name string, of func(*Series) string) {
		values := map[string]bool{}
		for _, s := range v.slice() {
			values[cmp.Or(of(s), "not reported")] = true
		}
		if len(values) > 1 {
			out = append(out, fmt.Sprintf("This chart mixes different values of %s: %s. Do not compare across them.", name, strings.Join(slices.Sorted(maps.Keys(values)), ", ")))
		}
	}
	for _, name := range mixedFacts {
		unlike(name, func(s *Series) string { return p.Origins[p.Cases[s.Case].Origin].fact(name) })
	}
	if !v.Latency {
		unlike("byte basis", func(s *Series) string { return s.Basis })
	}
	return out
}

// maxPoints limits the tables of every rung. The chart's own table always has them.
const maxPoints = 4000

// quantiles returns the percentiles that any rung has.
func (v *View) quantiles() []quantile {
	return slices.DeleteFunc(slices.Clone(quantiles), func(q quantile) bool {
		return !slices.ContainsFunc(v.Series, func(s Series) bool {
			return slices.ContainsFunc(s.Points, func(p figure.Point) bool { return q.of(p.Time) > 0 })
		})
	})
}

// Quantiles names the times of rungs: the percentiles that any of them has.
func (v *View) Quantiles() []string {
	if v.Time != "" {
		return []string{v.Time}
	}
	var out []string
	for _, q := range v.quantiles() {
		out = append(out, q.Name)
	}
	return out
}

// Rungs returns the rungs of a view, grouped by what may be ranked, or nil if there are too many.
func (p *Page) Rungs(v View) [][]Row {
	n := 0
	v.Series = v.Listed()
	for _, s := range v.Series {
		n += len(s.Points)
	}
	if n > maxPoints {
		return nil
	}
	kept := v.quantiles()
	return grouped(p, &v, func(s *Series, _ *Case) []Row {
		var out []Row
		for i, point := range s.Points {
			r := Row{Bad: point.Reason != "", Cells: append(v.cells(s), Figure{Text: v.at(s, point.X), Value: fmt.Sprint(point.X)}, cmp.Or(point.Reason, "ok"))}
			for _, q := range kept {
				us := q.of(point.Time)
				if us <= 0 {
					us = math.NaN()
				}
				r.Figures = append(r.Figures, figureOf(us))
			}
			if s.Spreads != nil && len(kept) > 0 {
				r.Figures[0].Text += s.spread(i)
			}
			for k := range v.Rates {
				r.Figures = append(r.Figures, figureOf(v.rate(k, point)))
			}
			for _, f := range r.Figures {
				if v.Time == "" {
					f.Title = plural.Count(point.Samples, "sample", "samples")
				}
				r.Cells = append(r.Cells, f)
			}
			if v.Time == "" {
				r.Cells = append(r.Cells, point.Samples)
			}
			out = append(out, r)
		}
		return out
	})
}

// figureOf formats a figure, and a missing one (NaN) as a dash.
func figureOf(v float64) Figure {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return Figure{Text: "–"}
	}
	return Figure{Text: significant(v), Value: strconv.FormatFloat(v, 'g', digits, 64)}
}
