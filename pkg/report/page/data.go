package page

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot/vg"

	"github.com/collectivex/collectivex/pkg/figure"

	"github.com/collectivex/collectivex/pkg/result"
)

// quantile is a percentile of the latency that the page can show.
type quantile struct {
	Name string                           `json:"name"`
	of   func(result.Percentiles) float64 // 0 where it is not published
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

// MaxBytes is what the file should not exceed.
const MaxBytes = 10e6

// fewer are the quantiles of the page, and those that remain where the file would exceed
// MaxBytes. No rung is ever left out.
var fewer = [][]quantile{quantiles, {quantiles[0], quantiles[1], quantiles[3]}, {quantiles[0], quantiles[3]}}

// data returns the figures as the page's script reads them: gzipped JSON in base64, and the
// quantiles in it.
func (p *Page) data(limit int) (text []byte, kept []quantile, err error) {
	for _, kept = range fewer {
		var b bytes.Buffer
		encoder := base64.NewEncoder(base64.StdEncoding, &b)
		if err := p.compress(encoder, kept); err != nil {
			return nil, nil, err
		}
		if err := encoder.Close(); err != nil {
			return nil, nil, err
		}
		if text = b.Bytes(); len(text) <= limit {
			break
		}
	}
	return text, kept, nil
}

func (p *Page) compress(w io.Writer, kept []quantile) error {
	z := gzip.NewWriter(w)
	if err := p.encode(z, kept); err != nil {
		return err
	}
	return z.Close()
}

// head is the part of the data that is not series.
type head struct {
	Quantiles []quantile    `json:"quantiles"`
	Themes    []theme       `json:"themes"`
	Markers   []marker      `json:"markers"`
	Dashes    [][]vg.Length `json:"dashes"`
	Mixed     []string      `json:"mixed"`
	Cases     [][]any       `json:"cases"`   // run, id, key, status, reason, origin, time
	Origins   [][][]any     `json:"origins"` // name, value
	Views     []viewHead    `json:"views"`
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
// [[first byte, last byte, µs of the first, µs of the last, text]…]].
func (p *Page) encode(w io.Writer, kept []quantile) error {
	h := head{Quantiles: kept, Themes: themes, Markers: markers, Dashes: dashes, Mixed: mixedFacts, Cases: [][]any{}, Origins: [][][]any{}, Views: []viewHead{}}
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
	e := encoder{w: w, text: text[:len(text)-1], at: map[string]int{}, kept: kept}
	e.add(`,"series":[`)
	for i := range p.Views {
		e.comma(i)
		e.add("[")
		for k := range p.Views[i].Series {
			e.comma(k)
			e.series(&p.Views[i], &p.Views[i].Series[k])
			if err := e.flush(); err != nil {
				return err
			}
		}
		e.add("]")
	}
	e.add(`],"lists":[`)
	for i, list := range e.lists {
		e.comma(i)
		e.add(list)
	}
	e.add("]}")
	_, err = w.Write(e.text)
	return err
}

// encoder writes series.
type encoder struct {
	w     io.Writer
	text  []byte
	lists []string
	at    map[string]int
	kept  []quantile
}

func (e *encoder) flush() error {
	if len(e.text) < 1<<16 {
		return nil
	}
	_, err := e.w.Write(e.text)
	e.text = e.text[:0]
	return err
}

func (e *encoder) add(s string) { e.text = append(e.text, s...) }

func (e *encoder) comma(i int) {
	if i > 0 {
		e.text = append(e.text, ',')
	}
}

func (e *encoder) int(n int) { e.text = strconv.AppendInt(e.text, int64(n), 10) }

// digits is the significant digits of a latency: an error of at most 0.05 %.
const digits = 4

func (e *encoder) series(v *View, s *Series) {
	e.add("[")
	e.int(s.Case)
	e.add(",[")
	for i, f := range s.Facets {
		e.comma(i)
		e.int(f)
	}
	e.add("],")
	e.int(s.Look)
	e.add(",")
	e.json(s.Basis)
	e.add(",")
	e.shared(len(s.Points), func(to []byte, i int) []byte { return strconv.AppendInt(to, s.Points[i].X, 10) })
	e.add(",[")
	for r := range v.Rates {
		e.comma(r)
		e.shared(len(s.Points), func(to []byte, i int) []byte {
			return number(to, s.Points[i].Work[r], digits+2)
		})
	}
	e.add("],[")
	for q := range e.kept {
		e.comma(q)
		e.text = list(e.text, len(s.Points), func(to []byte, i int) []byte {
			return number(to, e.kept[q].of(s.Points[i].Time), digits)
		})
	}
	e.add("],")
	e.shared(len(s.Points), func(to []byte, i int) []byte { return strconv.AppendInt(to, int64(s.Points[i].Samples), 10) })
	e.add(",[")
	first := true
	for i := range s.Points {
		if reason := s.Points[i].Reason; reason != "" {
			if !first {
				e.add(",")
			}
			first = false
			e.add("[")
			e.int(i)
			e.add(",")
			e.json(reason)
			e.add("]")
		}
	}
	e.add("]")
	if len(s.Fits) > 0 {
		e.add(",")
		e.json(s.Fits)
	}
	e.add("]")
}

// shared adds the index of a list that many series have.
func (e *encoder) shared(n int, of func(to []byte, i int) []byte) {
	text := list(nil, n, of)
	k, ok := e.at[string(text)]
	if !ok {
		k = len(e.lists)
		e.at[string(text)] = k
		e.lists = append(e.lists, string(text))
	}
	e.int(k)
}

func list(to []byte, n int, of func(to []byte, i int) []byte) []byte {
	to = append(to, '[')
	for i := range n {
		if i > 0 {
			to = append(to, ',')
		}
		to = of(to, i)
	}
	return append(to, ']')
}

// number appends v with that many digits; null, which is not shown, if it is not finite.
func number(to []byte, v float64, digits int) []byte {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return append(to, "null"...)
	}
	return strconv.AppendFloat(to, v, 'g', digits, 64)
}

// json adds v, which has nothing that JSON cannot have.
func (e *encoder) json(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	e.text = append(e.text, text...)
}
