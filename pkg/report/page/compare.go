package page

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sanitize"
)

// Change is a series of a later run beside the same series of the first run: equal in SKU,
// comparison key and facets. Ratios are later over first, of the median latency of the
// rungs that count in both.
type Change struct {
	Run, First           string
	View                 string
	Label                string
	Libraries            string // as they differ; empty if they do not
	Rungs                int
	Median, Lowest, Most float64
	Samples              string
}

// Unlike is a case of a later run that the first run has under the same id and another
// comparison key.
type Unlike struct {
	Run, ID string
	Factors string // the ones that differ
}

// maxChanges bounds the table of changes. The ones with the largest effect stay.
const maxChanges = 2000

// match names a series of any run: what must be equal before two are compared.
type match struct{ sku, key, view, facets string }

func (b *builder) compare() {
	if len(b.Runs) < 2 {
		return
	}
	for v := range b.Views {
		b.compareView(&b.Page.Views[v])
	}
	slices.SortStableFunc(b.Changes, func(x, y Change) int {
		return cmp.Compare(math.Abs(math.Log(y.Median)), math.Abs(math.Log(x.Median)))
	})
	first := map[string]*Case{}
	for i := range b.Cases {
		c := &b.Cases[i]
		switch old := first[c.ID]; {
		case c.Run == 0:
			first[c.ID] = c
		case old != nil && old.Key != c.Key:
			b.Unlike = append(b.Unlike, Unlike{Run: b.Runs[c.Run].ID, ID: c.ID, Factors: differing(old, c)})
		}
	}
}

func (b *builder) compareView(v *View) {
	first := map[match][]*Series{} // repeats of a case have one key: they are matched in their order
	for i := range v.Series {
		s := &v.Series[i]
		c := &b.Cases[s.Case]
		m := match{c.SKU, c.Key, s.View, strings.Join(s.Series.Facets, "\x00")}
		if c.Run == 0 {
			first[m] = append(first[m], s)
		}
	}
	taken := map[string]int{}
	for i := range v.Series {
		s := &v.Series[i]
		c := &b.Cases[s.Case]
		if c.Run == 0 {
			continue
		}
		if b.judged[series{c.Run, c.Key}] {
			continue
		}
		m := match{c.SKU, c.Key, s.View, strings.Join(s.Series.Facets, "\x00")}
		n := fmt.Sprint(c.Run, m)
		k := taken[n]
		taken[n]++
		if k >= len(first[m]) {
			continue
		}
		if change, ok := b.change(v, first[m][k], s); ok {
			b.Changes = append(b.Changes, change)
		}
	}
}

func (b *builder) change(v *View, old, s *Series) (Change, bool) {
	type rung struct {
		x     int64
		slots int
	}
	before := map[rung]float64{}
	least, most := math.MaxInt, 0
	for _, p := range old.Points {
		if p.Reason == "" && p.Time.P50 > 0 {
			before[rung{p.X, p.Slots}] = p.Time.P50
			least, most = min(least, p.Samples), max(most, p.Samples)
		}
	}
	var ratios []float64
	for _, p := range s.Points {
		if old := before[rung{p.X, p.Slots}]; old > 0 && p.Reason == "" && p.Time.P50 > 0 {
			ratios = append(ratios, p.Time.P50/old)
			least, most = min(least, p.Samples), max(most, p.Samples)
		}
	}
	if len(ratios) == 0 {
		return Change{}, false
	}
	slices.Sort(ratios)
	n := len(ratios)
	c, oldCase := &b.Cases[s.Case], &b.Cases[old.Case]
	change := Change{
		Run: b.Runs[c.Run].ID, First: b.Runs[oldCase.Run].ID, View: v.Title, Label: v.label(s), Rungs: n,
		Median: (ratios[n/2] + ratios[(n-1)/2]) / 2, Lowest: ratios[0], Most: ratios[n-1],
		Samples: fmt.Sprintf("%d to %d samples of a rung, one run a side", least, most),
	}
	if v.Time != "" {
		change.Samples = v.Time + ", no samples"
	}
	if x, y := b.Origins[oldCase.Origin].fact("library version"), b.Origins[c.Origin].fact("library version"); x != y {
		change.Libraries = x + " → " + y
	}
	return change, true
}

// label names a series by its facets but the run.
func (v *View) label(s *Series) string {
	var parts []string
	for i, k := range s.Facets {
		value := v.Facets[i].Found[k]
		n, err := strconv.Atoi(value)
		switch {
		case i == facetRun || value == "":
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

func (o Origin) fact(name string) string {
	for _, f := range o.Facts {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// differing names the factors that differ between two cases.
func differing(a, b *Case) string {
	x, errX := result.ComparisonFactors(a.planned, a.environment)
	y, errY := result.ComparisonFactors(b.planned, b.environment)
	if errX != nil || errY != nil {
		return "unknown"
	}
	all := maps.Clone(x)
	maps.Copy(all, y)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if x[name] != y[name] {
			out = append(out, fmt.Sprintf("%s (%s → %s)", name, cmp.Or(x[name], "none"), cmp.Or(y[name], "none")))
		}
	}
	return sanitize.Line(strings.Join(out, ", "))
}
