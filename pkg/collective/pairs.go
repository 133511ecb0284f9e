package collective

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/table"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Pairs summarizes a pairwise case: the figures of each pair of ranks, in the first timing mode that
// was measured. For a bidirectional operation, both directions of a pair are one figure.
type Pairs struct {
	family.Repeats[*Pairs] `json:"-"`

	CaseID  string `json:"case_id"`
	SKU     string `json:"sku"`
	Backend string `json:"backend"`
	World   int    `json:"world"`
	Op      string `json:"op"`
	DType   string `json:"dtype"`
	Buffers string `json:"buffers"`
	Mode    string `json:"timing"`
	// Bandwidth is in GB/s at p50 of the largest size. Latency is the median of the smallest size in
	// microseconds. Both are from rank (row) to rank (column), null if not measured.
	Bandwidth table.Square `json:"bandwidth_gbps"`
	Latency   table.Square `json:"latency_us"`
	// Median is the median bandwidth over pairs. Worst is the slowest pair if it is more than a tenth
	// below the median, else null.
	Median float64     `json:"median_gbps"`
	Worst  *table.Slow `json:"worst"`
	Key    string      `json:"comparison_key"`
}

// PairsOf returns the figures of the pairs that passed, or nil if there are none.
func PairsOf(d *Document) *Pairs {
	p := &Pairs{
		CaseID: d.Identity.CaseID, SKU: d.Identity.CaseFactors.SKU, Backend: d.Implementation.Name,
		World: d.Topology.WorldSize, Op: d.Measurement.Op, DType: d.Measurement.DType,
		Buffers: d.Measurement.Buffers, Key: d.ComparisonKey,
	}
	for _, mode := range vocab.TimingModes() {
		var rows []Row
		for _, r := range d.Measurement.Rows {
			if *r.Timing(mode) != nil && r.Check.Passed && r.IsOf(p.World) {
				rows = append(rows, r)
			}
		}
		// Each size has a row for each ordered pair, or for each unordered pair.
		if len(rows) > 0 && p.World <= 4*len(rows)/p.World {
			p.Mode = mode
			p.fill(rows, Of(&d.Identity.Case).Pairs(d.Identity.Case.World) == p.World*(p.World-1))
			return p
		}
	}
	return nil
}

func (p *Pairs) fill(rows []Row, oneWay bool) {
	sizes := make([]int64, len(rows))
	for i, r := range rows {
		sizes[i] = r.Bytes
	}
	p.Bandwidth, p.Latency = table.NewSquare(slices.Max(sizes), p.World), table.NewSquare(slices.Min(sizes), p.World)
	for _, r := range rows {
		t := *r.Timing(p.Mode)
		if r.Bytes == p.Latency.Bytes {
			p.Latency.Set(*r.Src, *r.Dst, t.Percentiles.P50, !oneWay)
		}
		if r.Bytes == p.Bandwidth.Bytes {
			p.Bandwidth.Set(*r.Src, *r.Dst, t.BusBW, !oneWay)
		}
	}
	p.Median = p.Bandwidth.Median()
	p.Settle()
}

// Settle finds the slow pair.
func (p *Pairs) Settle() { p.Worst = p.Bandwidth.Worst(p.Median) }

// pairKeys are the columns that identify pairwise cases.
var pairKeys = table.Text("SKU", "backend", "ranks", "op", "type", "buffers", "timing")

func pairSection(cases []*Pairs) table.Section {
	t := &table.Table{Columns: slices.Concat(pairKeys, table.Figures("size"), table.Headline("median GB/s"), table.Text("slow pair"))}
	for _, p := range cases {
		t.Rows = append(t.Rows, []string{
			p.SKU, p.Backend, strconv.Itoa(p.World), p.Op, p.DType, p.Buffers, words(p.Mode),
			table.Size(p.Bandwidth.Bytes), table.OrDash(p.Median) + p.Spread(func(o *Pairs) float64 { return o.Median }), p.Worst.Below(p.Median),
		})
	}
	return table.Section{
		Title: "Pairs of devices", Table: t, Keys: len(pairKeys),
		Note: "Each pair by itself, at the largest size; the slowest pair is named where it is more than a tenth below the median pair.",
	}
}

// pairSquares shows the figures of every pair, in a table for each case.
func pairSquares(cases []*Pairs) []table.Section {
	var out []table.Section
	for _, p := range cases {
		name := fmt.Sprintf("%s %s %s %s, %s", p.SKU, p.Backend, p.Op, p.DType, table.Plural(p.World, "rank"))
		out = append(out,
			table.Section{Title: fmt.Sprintf("GB/s from rank (row) to rank (column), %s: %s", table.Size(p.Bandwidth.Bytes), name), Table: p.Bandwidth.Table(), Folded: true},
			table.Section{Title: fmt.Sprintf("Latency p50 in µs from rank (row) to rank (column), %s: %s", table.Size(p.Latency.Bytes), name), Table: p.Latency.Table(), Folded: true})
	}
	return out
}
