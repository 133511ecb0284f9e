package transfer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/table"
)

// list is the JSON name of the headlines in a summary.
const list = "transfers"

// Headline is the headline of a transfer case.
type Headline struct {
	family.Repeats[*Headline] `json:"-"`

	CaseID      string       `json:"case_id"`
	SKU         string       `json:"sku"`
	Backend     string       `json:"backend"`
	Lane        string       `json:"lane"`
	Unverified  bool         `json:"lane_unverified,omitempty"` // see Measurement.LaneUnverified
	Handle      string       `json:"handle,omitempty"`          // requested by the case
	Cache       string       `json:"cache"`
	Arrangement string       `json:"arrangement"`
	Register    float64      `json:"register_ms_per_gib"`
	Connect     float64      `json:"connect_ms"`
	Ops         []HeadlineOp `json:"ops"`
	// Dropped are the requested points that were not measured.
	Dropped []DroppedPoint `json:"dropped,omitempty"`
	Key     string         `json:"comparison_key"`
}

// HeadlineOp holds the figures of an operation. Rates are GB/s, times milliseconds.
type HeadlineOp struct {
	Op        string          `json:"op"`
	Bulk      float64         `json:"bulk_gbps"`    // of the largest request as one block
	Paged     float64         `json:"paged_gbps"`   // of the fastest paged burst
	First     float64         `json:"first_ms"`     // 8 bytes, median
	PerBlock  float64         `json:"us_per_block"` // 0 without a reliable fit
	Sustained float64         `json:"sustained_gbps"`
	CPU       float64         `json:"cpu_s_per_gb"`
	Bursts    []HeadlineBurst `json:"bursts"`
}

// HeadlineBurst is one row.
type HeadlineBurst struct {
	Name  string  `json:"name"`
	Descs int     `json:"descs"` // of a request
	Bytes int64   `json:"bytes"` // of the burst
	P50   float64 `json:"p50_ms"`
	P95   float64 `json:"p95_ms,omitempty"`
	GBps  float64 `json:"gbps"`
}

func headlineOf(d *Document) *Headline {
	t, m := Of(&d.Identity.Case), &d.Measurement
	h := &Headline{
		CaseID: d.Identity.CaseID, SKU: d.Identity.CaseFactors.SKU, Backend: d.Implementation.Name,
		Lane: t.Mode, Unverified: m.LaneUnverified, Handle: t.Handle, Cache: t.Workload, Arrangement: t.Routing, Key: d.ComparisonKey,
		Dropped: d.Workload.Dropped,
	}
	if m.Setup != nil {
		h.Register, h.Connect = m.Setup.RegisterMillisPerGiB, m.Setup.ConnectMillis
	}
	for _, op := range t.Ops {
		o := HeadlineOp{Op: op}
		for i := range m.Rows {
			r := &m.Rows[i]
			if r.Op != op || !r.Verify.Passed {
				continue
			}
			if r.Kind == KindBulk {
				o.Bulk = r.Rate()
			} else {
				o.Paged = max(o.Paged, r.Rate())
			}
			o.Bursts = append(o.Bursts, HeadlineBurst{r.Name(), r.Descs, r.ReqBytes * int64(r.Batch), r.Latency.P50, r.Latency.Tail(), r.Rate()})
		}
		for _, f := range m.First {
			if f.Op == op && f.Bytes == 8 {
				o.First = f.Millis.P50
			}
		}
		for _, f := range m.Fit {
			if f.Op == op && f.Refuted(d.Limits) == "" {
				o.PerBlock = f.Beta
			}
		}
		for _, s := range m.Sustained {
			if s.Op == op {
				o.Sustained, o.CPU = s.GBps, s.CPU
			}
		}
		h.Ops = append(h.Ops, o)
	}
	return h
}

// sections returns the report sections of the headlines.
func sections(h family.Headlines) family.Sections {
	all := family.Of[*Headline](h, list)
	return family.Sections{Headlines: []table.Section{overview(all)}, Details: []table.Section{ladder(all)}}
}

// laneBy formats a lane, and the handle that a case requests, for tables and charts.
func laneBy(lane, handle string) string {
	if handle == "" {
		return lane
	}
	return lane + " (" + handle + ")"
}

// keys are the columns that identify transfers.
var keys = table.Text("SKU", "backend", "lane", "cache", "arrangement", "op")

func (t *Headline) key(op string) []string {
	lane := laneBy(t.Lane, t.Handle)
	if t.Unverified {
		lane += ", not verified"
	}
	return []string{t.SKU, t.Backend, lane, t.Cache, t.Arrangement, op}
}

func overview(cases []*Headline) table.Section {
	s := &table.Table{Columns: slices.Concat(keys, table.Figures("bulk GB/s"), table.Headline("paged GB/s"),
		table.Figures("sustained GB/s", "CPU s/GB", "8 B µs", "µs/block", "register ms/GiB", "connect ms"), table.Text("not measured"))}
	for _, c := range cases {
		for i, o := range c.Ops {
			paged := table.OrDash(o.Paged) + c.Spread(func(h *Headline) float64 { return h.Ops[i].Paged })
			s.Rows = append(s.Rows, append(c.key(o.Op), table.OrDash(o.Bulk), paged, table.OrDash(o.Sustained), table.OrDash(o.CPU),
				table.OrDash(o.First*1e3), table.OrDash(o.PerBlock), table.OrDash(c.Register), table.OrDash(c.Connect), droppedPoints(c.Dropped)))
		}
	}
	return table.Section{
		Title: "Transfers", Table: s, Keys: len(keys),
		Note: "Rates at p50: one block of the largest request, the fastest burst of pages, and bursts that follow each other with the processor time of both ranks. " +
			"µs/block is missing where the fit is off by 10 % or more for a row.",
	}
}

func ladder(cases []*Headline) table.Section {
	s := &table.Table{Columns: slices.Concat(keys, table.Text("burst"), table.Figures("blocks of a request", "bytes", "p50 ms", "p95 ms", "GB/s"))}
	for _, c := range cases {
		for _, o := range c.Ops {
			for _, b := range o.Bursts {
				s.Rows = append(s.Rows, append(c.key(o.Op), b.Name, fmt.Sprint(b.Descs), table.Size(b.Bytes), table.OrDash(b.P50), table.OrDash(b.P95), table.OrDash(b.GBps)))
			}
		}
	}
	return table.Section{Title: "Bursts of transfers", Table: s, Keys: len(keys), Folded: true}
}

// droppedPoints counts the points that were not measured, by reason.
func droppedPoints(points []DroppedPoint) string {
	counts := map[result.Code]int{}
	for _, p := range points {
		counts[p.Reason.Code]++
	}
	var texts []string
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		texts = append(texts, fmt.Sprintf("%s (%s)", table.Plural(counts[code], "point"), code))
	}
	return strings.Join(texts, ", ")
}
