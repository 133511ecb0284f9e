package collective

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

var summary = family.Summary{
	Rows: func(d result.Document) (measured, asked int) { return Rows(d.(*Document)) },
	Headline: func(doc result.Document) (string, any) {
		d := doc.(*Document)
		c := &d.Identity.Case
		if Of(c).Pairs(c.World) == 0 {
			return list, HeadlineOf(d)
		}
		if p := PairsOf(d); p != nil {
			return pairList, p
		}
		return "", nil
	},
	Lists: []string{list, pairList},
	Sections: func(h family.Headlines) family.Sections {
		cases, pairs := family.Of[*Headline](h, list), family.Of[*Pairs](h, pairList)
		return family.Sections{
			Headlines: append(Peaks("Collectives", cases), pairSection(pairs)),
			Details:   append(Ladders("", cases), pairSquares(pairs)...),
		}
	},
}

// JSON names of the headlines in a summary.
const (
	list     = "collectives"
	pairList = "pairs"
)

// Rows counts the rows of a document that are complete and passed, and those that were requested.
func Rows(d *Document) (measured, asked int) {
	c := d.Identity.Case
	b := Of(&c)
	asked = (len(b.Sizes) - len(d.Workload.SizesDropped)) * len(b.Placements) * max(1, b.Pairs(c.World))
	return family.Count(d.Measurement.Rows, (*Row).Good), asked
}

// Headline is the headline of one timing mode and placement of a collective case, and its sizes. It
// never mixes timing modes.
type Headline struct {
	family.Repeats[*Headline] `json:"-"`

	CaseID    string  `json:"case_id"`
	SKU       string  `json:"sku"`
	Backend   string  `json:"backend"`
	World     int     `json:"world"`
	Op        string  `json:"op"`
	DType     string  `json:"dtype"`
	RedOp     string  `json:"redop"`
	Buffers   string  `json:"buffers"`
	Mode      string  `json:"timing"`
	Placement string  `json:"placement"`
	Points    []Point `json:"sizes"`
	Peak      int     `json:"peak"`  // index of the highest bus bandwidth
	Floor     int     `json:"floor"` // index of the lowest median latency
	// Fit is the latency and bandwidth of the sizes; null if there are too few.
	Fit *fit.Model `json:"fit"`
	Key string     `json:"comparison_key"`
}

// Point is one size: median microseconds, bus bandwidth in GB/s.
type Point struct {
	Requested int64   `json:"requested_bytes"`
	Bytes     int64   `json:"bytes"` // the part of the size that was moved
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us,omitempty"`
	BusBW     float64 `json:"busbw_gbps"`
}

// HeadlineOf returns the headline of a document. It prefers out-of-place figures, and pipelined
// figures, which are comparable with nccl-tests. Otherwise it takes the first mode that was measured.
func HeadlineOf(d *Document) *Headline {
	c := &Headline{
		CaseID: d.Identity.CaseID, SKU: d.Identity.CaseFactors.SKU, Backend: d.Implementation.Name,
		World: d.Topology.WorldSize, Op: named(d), DType: d.Measurement.DType, RedOp: d.Measurement.RedOp,
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
				c.add(Point{Requested: r.Requested, Bytes: r.Bytes, P50: t.Percentiles.P50, P99: p99(t), BusBW: t.BusBW})
			}
			if len(c.Points) > 0 {
				c.fit()
				return c
			}
		}
	}
	return c
}

// named returns the operation of a document, with its variant if one was asked for, and what distinguishes its windows.
func named(d *Document) string {
	name := d.Measurement.Op
	if b := Of(&d.Identity.Case); b != nil {
		if variant := b.Variant(); variant != "" {
			name += "/" + variant
		}
		name = strings.Join(append([]string{name}, b.How()...), ", ")
	}
	return name
}

// fit fits the medians.
func (c *Headline) fit() {
	var points []fit.Point
	for _, p := range c.Points {
		points = append(points, fit.Point{Bytes: float64(p.Bytes), Us: p.P50})
	}
	c.Fit = table.Fitted(points)
}

// p99 returns the 99th percentile of a timing mode, or 0 if there are too few samples.
func p99(t *Timing) float64 {
	if us := t.Percentiles.Of(t.SampleCount).P99; us != nil {
		return *us
	}
	return 0
}

func (c *Headline) add(p Point) {
	c.Points = append(c.Points, p)
	c.Settle()
}

// Settle finds the highest bandwidth and the lowest latency.
func (c *Headline) Settle() {
	c.Peak, c.Floor = 0, 0
	for i, p := range c.Points {
		if p.BusBW > c.Points[c.Peak].BusBW {
			c.Peak = i
		}
		if p.P50 < c.Points[c.Floor].P50 {
			c.Floor = i
		}
	}
}

// peak returns the highest bandwidth, or 0 without points.
func (c *Headline) peak() float64 {
	if len(c.Points) == 0 {
		return 0
	}
	return c.Points[c.Peak].BusBW
}

// keys are the columns that identify collective cases.
var keys = table.Text("SKU", "backend", "ranks", "op", "type", "redop", "buffers")

func (c *Headline) key() []string {
	return []string{c.SKU, c.Backend, strconv.Itoa(c.World), c.Op, c.DType, c.RedOp, c.Buffers}
}

// Peaks returns tables of the peak bandwidth and the lowest latency of cases. kind begins their titles.
func Peaks(kind string, cases []*Headline) []table.Section {
	var out []table.Section
	for _, g := range groups(cases) {
		t := &table.Table{Columns: slices.Concat(keys,
			table.Headline("peak busbw GB/s"), table.Figures("at", "lowest µs", "at"))}
		for _, c := range g.cases {
			peak, floor := c.Points[c.Peak], c.Points[c.Floor]
			t.Rows = append(t.Rows, append(c.key(), table.OrDash(peak.BusBW)+c.Spread((*Headline).peak), table.Size(peak.Bytes), table.OrDash(floor.P50), table.Size(floor.Bytes)))
		}
		out = append(out, table.Section{
			Title: kind + ", " + g.title, Table: t, Keys: len(keys),
			Note: "The highest bus bandwidth and the lowest latency of the ladder, both at p50.",
		})
	}
	return out
}

// Ladders returns tables and charts of the figures of cases by size. Titles have of after the name of
// the figure.
func Ladders(of string, cases []*Headline) []table.Section {
	var out []table.Section
	laddered := slices.DeleteFunc(slices.Clone(cases), func(c *Headline) bool { return len(c.Points) < 2 })
	for _, g := range groups(laddered) {
		sizes := ladder(g.cases)
		names := make([]string, len(sizes))
		for i, b := range sizes {
			names[i] = table.Size(b)
		}
		latency := &table.Table{Columns: slices.Concat(keys, table.Figures(names...))}
		busbw := &table.Table{Columns: latency.Columns}
		sec := table.Section{Title: "Bus bandwidth" + of + " by size in GB/s, " + g.title, Table: busbw, Keys: len(keys), Folded: true}
		for _, c := range g.cases {
			lat, bw := c.key(), c.key()
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
			Title: "Latency p50" + of + " by size in µs, " + g.title, Table: latency, Keys: len(keys), Folded: true,
		}, sec)
	}
	return out
}

// group holds cases whose figures are comparable: they have one timing mode and placement.
type group struct {
	title string
	cases []*Headline
}

func groups(all []*Headline) []group {
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

// maxSizes limits the columns of a ladder table.
const maxSizes = 8

// ladder returns at most maxSizes sizes of the cases, spread evenly from the
// smallest to the largest.
func ladder(cases []*Headline) []int64 {
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

func (c *Headline) at(requested int64) Point {
	for _, p := range c.Points {
		if p.Requested == requested {
			return p
		}
	}
	return Point{}
}
