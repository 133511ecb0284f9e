package page

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/chart"
	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/result"
)

// quantile is a percentile of the latency that the page can show.
type quantile struct {
	Name string                           `json:"name"`
	of   func(result.Percentiles) float64 // 0 if it is not published
}

var quantiles = []quantile{
	{"p50", func(p result.Percentiles) float64 { return p.P50 }},
	{"p90", func(p result.Percentiles) float64 { return tail(p.P90) }},
	{"p95", func(p result.Percentiles) float64 { return tail(p.P95) }},
	{"p99", func(p result.Percentiles) float64 { return tail(p.P99) }},
}

func tail(us *float64) float64 {
	if us == nil {
		return 0
	}
	return *us
}

// MaxBytes is the target maximum size of the file.
const MaxBytes = 10e6

// fewer lists the quantiles of the page, and smaller sets for when the file would exceed MaxBytes. No rung
// is ever omitted.
var fewer = [][]quantile{quantiles, {quantiles[0], quantiles[1], quantiles[3]}, {quantiles[0], quantiles[3]}}

// data returns the figures in the format of the page's script, gzipped JSON in base64, and the quantiles
// that it contains.
func (p *Page) data(limit int) (text []byte, kept []quantile, err error) {
	for _, kept = range fewer {
		var b bytes.Buffer
		encoder := base64.NewEncoder(base64.StdEncoding, &b)
		z := gzip.NewWriter(encoder)
		if err := errors.Join(p.encode(z, kept), z.Close(), encoder.Close()); err != nil {
			return nil, nil, err
		}
		if text = b.Bytes(); len(text) <= limit {
			break
		}
	}
	return text, kept, nil
}

// head is the data other than series.
type head struct {
	Quantiles []quantile     `json:"quantiles"`
	Themes    []theme        `json:"themes"`
	Markers   []chart.Marker `json:"markers"`
	Dashes    []string       `json:"dashes"`
	Mixed     []string       `json:"mixed"`
	Cases     [][]any        `json:"cases"`   // run, id, key, status, reason, origin, time
	Origins   [][][]any      `json:"origins"` // name, value
	Views     []viewHead     `json:"views"`
}

// viewHead is a View without its series.
type viewHead struct {
	figure.View
	Facets []facetHead `json:"facets"`
}

type facetHead struct {
	Title  string   `json:"title"`
	One    bool     `json:"one"`
	Number bool     `json:"number"`
	Found  []string `json:"found"`
}

// encode writes one JSON object: the head's members, the lists that series share (x and
// work), and for each view its series as
// [case, [facets], look, basis, x, [work], [[quantile]…], samples, [[point, reason]…],
// [[first byte, last byte, µs of the first, µs of the last, text]…], [lowest], [highest], repeats].
// The last four are optional: the fits, and for medians of repeats the spread of each time.
func (p *Page) encode(w io.Writer, kept []quantile) error {
	h := head{Quantiles: kept, Themes: themes, Markers: chart.Markers, Dashes: dashes, Mixed: mixedFacts, Cases: [][]any{}, Origins: [][][]any{}, Views: []viewHead{}}
	for _, c := range p.Cases {
		h.Cases = append(h.Cases, []any{c.Run, c.ID, c.Key, c.Status, c.Reason, c.Origin, c.At})
	}
	for _, o := range p.Origins {
		facts := [][]any{}
		for _, f := range o.Facts {
			facts = append(facts, []any{f.Name, f.Value})
		}
		h.Origins = append(h.Origins, facts)
	}
	for _, v := range p.Views {
		vh := viewHead{View: v.View}
		for _, f := range v.Facets {
			vh.Facets = append(vh.Facets, facetHead{f.Title, f.One, f.Number, f.Found})
		}
		h.Views = append(h.Views, vh)
	}
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w) // records the first error
	out.Write(text[:len(text)-1])
	e := encoder{at: map[string]int{}, kept: kept}
	comma := func(i int) string { return ","[:min(i, 1)] } // before all but the first
	out.WriteString(`,"series":[`)
	for i := range p.Views {
		out.WriteString(comma(i) + "[")
		for k := range p.Views[i].Series {
			text, err := json.Marshal(e.series(&p.Views[i], &p.Views[i].Series[k]))
			if err != nil {
				return err
			}
			out.WriteString(comma(k))
			out.Write(text)
		}
		out.WriteString("]")
	}
	fmt.Fprintf(out, `],"lists":[%s]}`, strings.Join(e.lists, ","))
	return out.Flush()
}

// encoder encodes series.
type encoder struct {
	lists []string
	at    map[string]int // lists by their text
	kept  []quantile
}

// digits is the number of significant digits of a latency: an error of at most 0.05 %.
const digits = 4

func (e *encoder) series(v *View, s *Series) []any {
	work, times, bad := make([]int, len(v.Rates)), make([]json.RawMessage, len(e.kept)), [][]any{}
	for r := range work {
		work[r] = e.shared(list(s.Points, func(p *figure.Point) float64 { return p.Work[r] }, digits+2))
	}
	for q := range times {
		times[q] = list(s.Points, func(p *figure.Point) float64 { return e.kept[q].of(p.Time) }, digits)
	}
	for i := range s.Points {
		if reason := s.Points[i].Reason; reason != "" {
			bad = append(bad, []any{i, reason})
		}
	}
	whole := -1 // all digits
	out := []any{
		s.Case, s.Facets, s.Look, s.Basis, e.shared(list(s.Points, func(p *figure.Point) float64 { return float64(p.X) }, whole)), work, times,
		e.shared(list(s.Points, func(p *figure.Point) float64 { return float64(p.Samples) }, whole)), bad,
	}
	if len(s.Fits) > 0 || s.Spreads != nil {
		out = append(out, append([]Fit{}, s.Fits...))
	}
	if s.Spreads != nil {
		of := func(value func(figure.Spread) float64) json.RawMessage {
			i := -1
			return list(s.Points, func(*figure.Point) float64 { i++; return value(s.Spreads[i]) }, digits)
		}
		out = append(out, of(func(s figure.Spread) float64 { return s.Low }), of(func(s figure.Spread) float64 { return s.High }),
			e.shared(of(func(s figure.Spread) float64 { return float64(s.N) })))
	}
	return out
}

// shared returns the index of a list that several series may share.
func (e *encoder) shared(list json.RawMessage) int {
	k, ok := e.at[string(list)]
	if !ok {
		k = len(e.lists)
		e.at[string(list)] = k
		e.lists = append(e.lists, string(list))
	}
	return k
}

// list returns a figure of each point with the given digits; null, which is not shown, if it is not finite.
func list(points []figure.Point, of func(*figure.Point) float64, digits int) json.RawMessage {
	text := []byte{'['}
	for i := range points {
		if i > 0 {
			text = append(text, ',')
		}
		switch v := of(&points[i]); {
		case math.IsInf(v, 0) || math.IsNaN(v):
			text = append(text, "null"...)
		case digits < 0:
			text = strconv.AppendFloat(text, v, 'f', -1, 64)
		default:
			text = strconv.AppendFloat(text, v, 'g', digits, 64)
		}
	}
	return append(text, ']')
}
