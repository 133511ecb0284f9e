package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/fit"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/table"
	"github.com/collectivex/collectivex/pkg/vocab"
)

var collectiveFamily = unmovedFamily{
	Summary: family.Summary{
		Rows: collectiveRows,
		Headline: func(doc result.Document) (string, any) {
			d := doc.(*result.CollectiveDocument)
			c := &d.Identity.Case
			if c.Collective().Pairs(c.World) == 0 {
				return collectiveList, collectiveOf(d)
			}
			if p := pairsOf(d); p != nil {
				return pairList, p
			}
			return "", nil
		},
		Lists: []string{collectiveList, pairList},
		Sections: func(h family.Headlines) family.Sections {
			cases, pairs := family.Of[*Collective](h, collectiveList), family.Of[*Pairs](h, pairList)
			return family.Sections{
				Headlines: append(collectiveSections("Collectives", cases), pairSection(pairs)),
				Details:   append(collectiveLadders("", cases), pairSquares(pairs)...),
			}
		},
	},
	Views:  collectiveViews,
	Series: collectiveSeries,
}

const (
	collectiveList = "collectives"
	pairList       = "pairs"
)

func collectiveRows(doc result.Document) (measured, asked int) {
	d := doc.(*result.CollectiveDocument)
	c := d.Identity.Case
	b := c.Collective()
	asked = (len(b.Sizes) - len(d.Workload.SizesDropped)) * len(b.Placements) * max(1, b.Pairs(c.World))
	for _, r := range d.Measurement.Rows {
		if r.Complete && r.Check.Passed {
			measured++
		}
	}
	return measured, asked
}

// Collective is the headline of one timing mode and placement of a collective
// case, and its sizes. Timing modes are never mixed.
type Collective struct {
	CaseID    string            `json:"case_id"`
	SKU       string            `json:"sku"`
	Backend   string            `json:"backend"`
	World     int               `json:"world"`
	Op        string            `json:"op"`
	DType     string            `json:"dtype"`
	RedOp     string            `json:"redop"`
	Buffers   string            `json:"buffers"`
	Mode      string            `json:"timing"`
	Placement string            `json:"placement"`
	Points    []CollectivePoint `json:"sizes"`
	Peak      int               `json:"peak"`  // index of the highest bus bandwidth
	Floor     int               `json:"floor"` // index of the lowest median latency
	// Fit is the latency and bandwidth of the sizes; null if there are too few.
	Fit *fit.Model `json:"fit"`
	Key string     `json:"comparison_key"`
}

// CollectivePoint is one size: median microseconds, bus bandwidth in GB/s.
type CollectivePoint struct {
	Requested int64   `json:"requested_bytes"`
	Bytes     int64   `json:"bytes"` // what of it was moved
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	BusBW     float64 `json:"busbw_gbps"`
}

// collectiveOf reads the headline of a document: the pipelined figures, which
// compare with nccl-tests, else the first mode there is; out of place first.
func collectiveOf(d *result.CollectiveDocument) *Collective {
	c := &Collective{
		CaseID: d.Identity.CaseID, SKU: d.Identity.CaseFactors.SKU, Backend: d.Implementation.Name,
		World: d.Topology.WorldSize, Op: d.Measurement.Op, DType: d.Measurement.DType, RedOp: d.Measurement.RedOp,
		Buffers: d.Measurement.Buffers, Key: d.ComparisonKey,
	}
	for _, placement := range vocab.Placements() {
		for _, mode := range vocab.TimingModes() {
			for _, r := range d.Measurement.Rows {
				t := *r.Timing(mode)
				if t == nil || r.Placement != placement || !r.Check.Passed {
					continue
				}
				c.Mode, c.Placement = mode, placement
				c.add(CollectivePoint{Requested: r.Requested, Bytes: r.Bytes, P50: t.Percentiles.P50, P99: p99(&t.Percentiles), BusBW: t.BusBW})
			}
			if len(c.Points) > 0 {
				c.fit()
				return c
			}
		}
	}
	return c
}

// fit fits the medians.
func (c *Collective) fit() {
	var points []fit.Point
	for _, p := range c.Points {
		points = append(points, fit.Point{Bytes: float64(p.Bytes), Us: p.P50})
	}
	c.Fit = table.Fitted(points)
}

func (c *Collective) add(p CollectivePoint) {
	c.Points = append(c.Points, p)
	i := len(c.Points) - 1
	if p.BusBW > c.Points[c.Peak].BusBW {
		c.Peak = i
	}
	if p.P50 < c.Points[c.Floor].P50 {
		c.Floor = i
	}
}

// collectiveKeys are the columns that tell collective cases apart.
var collectiveKeys = table.Text("SKU", "backend", "ranks", "op", "type", "redop", "buffers")

func (c *Collective) keys() []string {
	return []string{c.SKU, c.Backend, strconv.Itoa(c.World), c.Op, c.DType, c.RedOp, c.Buffers}
}

// collectiveSections are the peaks of cases of a kind.
func collectiveSections(kind string, cases []*Collective) []table.Section {
	var out []table.Section
	for _, g := range groups(cases) {
		t := &table.Table{Columns: slices.Concat(collectiveKeys,
			[]table.Column{{Name: "peak busbw GB/s", Right: true, Strong: true}}, table.Figures("at", "lowest µs", "at"))}
		for _, c := range g.cases {
			peak, floor := c.Points[c.Peak], c.Points[c.Floor]
			t.Rows = append(t.Rows, append(c.keys(), table.OrDash(peak.BusBW), table.Size(peak.Bytes), table.OrDash(floor.P50), table.Size(floor.Bytes)))
		}
		out = append(out, table.Section{
			Title: kind + ", " + g.title, Table: t, Keys: len(collectiveKeys),
			Note: "The highest bus bandwidth and the lowest latency of the ladder, both at p50.",
		})
	}
	return out
}

// collectiveLadders are the sizes of cases; of is put behind what a title says they show.
func collectiveLadders(of string, cases []*Collective) []table.Section {
	var out []table.Section
	laddered := slices.DeleteFunc(slices.Clone(cases), func(c *Collective) bool { return len(c.Points) < 2 })
	for _, g := range groups(laddered) {
		sizes := ladder(g.cases)
		names := make([]string, len(sizes))
		for i, b := range sizes {
			names[i] = table.Size(b)
		}
		latency := &table.Table{Columns: slices.Concat(collectiveKeys, table.Figures(names...))}
		busbw := &table.Table{Columns: latency.Columns}
		sec := table.Section{Title: "Bus bandwidth" + of + " by size in GB/s, " + g.title, Table: busbw, Keys: len(collectiveKeys), Folded: true}
		for _, c := range g.cases {
			lat, bw := c.keys(), c.keys()
			for _, b := range sizes {
				p := c.at(b)
				lat, bw = append(lat, table.OrDash(p.P50)), append(bw, table.OrDash(p.BusBW))
			}
			latency.Rows, busbw.Rows = append(latency.Rows, lat), append(busbw.Rows, bw)
			ch := table.Chart{
				Title: fmt.Sprintf("%s %s %s: %s", c.SKU, c.Backend, table.Plural(c.World, "rank"), strings.TrimSpace(c.Op+" "+c.DType+" "+c.RedOp)),
				X:     "size", Y: "busbw GB/s",
			}
			for _, p := range c.Points {
				ch.Labels, ch.Values = append(ch.Labels, table.Size(p.Requested)), append(ch.Values, p.BusBW)
			}
			sec.Charts = append(sec.Charts, ch)
		}
		out = append(out, table.Section{
			Title: "Latency p50" + of + " by size in µs, " + g.title, Table: latency, Keys: len(collectiveKeys), Folded: true,
		}, sec)
	}
	return out
}

// group is collective cases that may stand in one column: one timing mode and
// placement.
type group struct {
	title string
	cases []*Collective
}

func groups(all []*Collective) []group {
	var out []group
	for _, c := range all {
		if len(c.Points) == 0 {
			continue
		}
		title := words(c.Mode) + ", " + words(c.Placement)
		i := slices.IndexFunc(out, func(g group) bool { return g.title == title })
		if i < 0 {
			i = len(out)
			out = append(out, group{title: title})
		}
		out[i].cases = append(out[i].cases, c)
	}
	return out
}

func words(s string) string { return strings.ReplaceAll(s, "_", " ") }

// maxSizes bounds the columns of a ladder table.
const maxSizes = 8

// ladder returns at most maxSizes sizes of the cases, spread evenly from the
// smallest to the largest.
func ladder(cases []*Collective) []int64 {
	var all []int64
	for _, c := range cases {
		for _, p := range c.Points {
			all = append(all, p.Requested)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) <= maxSizes {
		return all
	}
	out := make([]int64, maxSizes)
	for i := range out {
		out[i] = all[i*(len(all)-1)/(maxSizes-1)]
	}
	return out
}

func (c *Collective) at(requested int64) CollectivePoint {
	for _, p := range c.Points {
		if p.Requested == requested {
			return p
		}
	}
	return CollectivePoint{}
}

func p99(q *result.Percentiles) float64 {
	if q == nil || q.P99 == nil {
		return 0
	}
	return *q.P99
}
