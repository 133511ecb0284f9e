package copies

import (
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/table"
)

// list is the JSON name of the headlines in a summary.
const list = "copies"

// Headline is the headline of a copy case.
type Headline struct {
	family.Repeats[*Headline] `json:"-"`

	CaseID     string        `json:"case_id"`
	SKU        string        `json:"sku"`
	Backend    string        `json:"backend"`
	Test       string        `json:"test"`
	HostMemory string        `json:"host_memory"` // empty if not used
	Submission string        `json:"submission"`
	PageBytes  int64         `json:"page_bytes"` // 0: one piece per stream
	Victim     bool          `json:"victim,omitempty"`
	Layout     string        `json:"layout,omitempty"` // of the blocks of swaps
	Rows       []HeadlineRow `json:"rows"`
	Key        string        `json:"comparison_key"`
}

// HeadlineRow is one row. Rates are GB/s at the median by each clock, 0 if not measured; times are microseconds per copy.
// A swap has its median as the host's time.
type HeadlineRow struct {
	Bytes        int64   `json:"bytes"`
	BlockBytes   int64   `json:"block_bytes,omitempty"` // of the blocks of a swap
	NumBlocks    int     `json:"num_blocks,omitempty"`
	P99Micros    float64 `json:"p99_us,omitempty"` // of swaps; 0 if there are too few
	Streams      int     `json:"streams"`
	DeviceMicros float64 `json:"device_us"`
	DeviceGBps   float64 `json:"device_gbps"`
	HostMicros   float64 `json:"host_us"`
	HostGBps     float64 `json:"host_gbps"`
	// VictimSlowdown is the slowdown of a kernel beside copies, CopySlowdown of a copy beside the kernel; missing without a
	// victim, or if they did not run at the same time.
	VictimSlowdown *float64 `json:"victim_slowdown,omitempty"`
	CopySlowdown   *float64 `json:"copy_slowdown,omitempty"`
}

func headlineOf(d *Document) *Headline {
	b := Of(&d.Identity.Case)
	h := &Headline{
		CaseID: d.Identity.CaseID, SKU: d.Identity.CaseFactors.SKU, Backend: d.Implementation.Name,
		Test: b.Test, HostMemory: b.HostMemory, Submission: b.Submission, PageBytes: b.PageBytes, Victim: b.Victim, Layout: b.Layout, Rows: []HeadlineRow{}, Key: d.ComparisonKey,
	}
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		if l := r.Latency; l != nil && r.Verify.Passed {
			row := HeadlineRow{Bytes: r.Bytes, BlockBytes: r.BlockBytes, NumBlocks: r.Pieces, Streams: r.Streams, HostMicros: l.Micros.P50, HostGBps: l.GBps.P50}
			if us := l.Micros.Of(l.SampleCount).P99; us != nil {
				row.P99Micros = *us
			}
			h.Rows = append(h.Rows, row)
		}
		if !r.Verify.Passed || r.Host == nil {
			continue
		}
		row := HeadlineRow{Bytes: r.Bytes, Streams: r.Streams, HostMicros: r.Host.Micros.P50, HostGBps: r.Host.GBps}
		if r.Device != nil {
			row.DeviceMicros, row.DeviceGBps = r.Device.Micros.P50, r.Device.GBps
		}
		if r.Victim != nil {
			row.VictimSlowdown, row.CopySlowdown = r.Victim.Slowdown, r.Victim.CopySlowdown
		}
		h.Rows = append(h.Rows, row)
	}
	return h
}

// sections returns the report sections of the headlines.
func sections(h family.Headlines) family.Sections {
	all := family.Of[*Headline](h, list)
	return family.Sections{Headlines: []table.Section{overview(all), besideVictim(all)}, Details: []table.Section{ladder(all), swaps(all)}}
}

// keys are the columns that identify copies.
var keys = table.Text("SKU", "backend", "test", "host memory", "pieces")

func (c *Headline) key() []string {
	memory := c.HostMemory
	if memory == "" {
		memory = table.Dash
	}
	of := pieces(c.Submission, c.PageBytes, c.Victim)
	if c.Layout != "" {
		of += ", " + c.Layout
	}
	return []string{c.SKU, c.Backend, c.Test, memory, of}
}

// largest returns the row of the largest size on the number of streams that is fastest.
func (c *Headline) largest() HeadlineRow {
	var last HeadlineRow
	for _, r := range c.Rows {
		if r.Bytes > last.Bytes || r.Bytes == last.Bytes && max(r.DeviceGBps, r.HostGBps) > max(last.DeviceGBps, last.HostGBps) {
			last = r
		}
	}
	return last
}

func overview(cases []*Headline) table.Section {
	s := &table.Table{Columns: slices.Concat(keys, table.Figures("largest"), table.Headline("device GB/s"), table.Figures("host GB/s", "smallest", "device µs", "host µs"))}
	for _, c := range cases {
		if len(c.Rows) == 0 {
			continue
		}
		last, first := c.largest(), c.Rows[0]
		device, host := table.OrDash(last.DeviceGBps), table.OrDash(last.HostGBps)
		device += c.Spread(func(o *Headline) float64 { return o.largest().DeviceGBps })
		if last.DeviceGBps == 0 {
			host += c.Spread(func(o *Headline) float64 { return o.largest().HostGBps })
		}
		s.Rows = append(s.Rows, append(c.key(), table.Size(last.Bytes), device, host, table.Size(first.Bytes), table.OrDash(first.DeviceMicros), table.OrDash(first.HostMicros)))
	}
	return table.Section{
		Title: "Copies", Table: s, Keys: len(keys),
		Note: "Rates of the largest copy, on the number of streams that is fastest, and times of the smallest one: by events of the device behind a gate, and by the host's clock from the first call to the end of the last copy.",
	}
}

func ladder(cases []*Headline) table.Section {
	s := &table.Table{Columns: slices.Concat(keys, table.Figures("bytes", "streams", "device µs", "device GB/s", "host µs", "host GB/s"))}
	for _, c := range cases {
		if c.Layout != "" {
			continue
		}
		for _, r := range c.Rows {
			s.Rows = append(s.Rows, append(c.key(), table.Size(r.Bytes), fmt.Sprint(r.Streams), table.OrDash(r.DeviceMicros), table.OrDash(r.DeviceGBps), table.OrDash(r.HostMicros), table.OrDash(r.HostGBps)))
		}
	}
	return table.Section{Title: "Sizes of copies", Table: s, Keys: len(keys), Folded: true}
}

// swaps shows the points of swaps of blocks.
func swaps(cases []*Headline) table.Section {
	s := &table.Table{Columns: slices.Concat(keys, table.Figures("block", "blocks", "bytes", "p50 µs", "p99 µs", "GB/s"))}
	for _, c := range cases {
		for _, r := range c.Rows {
			if c.Layout != "" {
				s.Rows = append(s.Rows, append(c.key(), table.Size(r.BlockBytes), fmt.Sprint(r.NumBlocks), table.Size(r.Bytes), table.OrDash(r.HostMicros), table.OrDash(r.P99Micros), table.OrDash(r.HostGBps)))
			}
		}
	}
	return table.Section{Title: "Swaps of blocks", Table: s, Keys: len(keys), Folded: true}
}

// besideVictim shows the rows of copies beside a victim.
func besideVictim(cases []*Headline) table.Section {
	s := &table.Table{Columns: slices.Concat(keys, table.Figures("bytes", "streams"), table.Headline("victim slowdown"), table.Figures("copy slowdown"))}
	factor := func(f *float64) string {
		if f == nil {
			return table.Dash
		}
		return fmt.Sprintf("%.4f", *f)
	}
	for _, c := range cases {
		for _, r := range c.Rows {
			if c.Victim {
				s.Rows = append(s.Rows, append(c.key(), table.Size(r.Bytes), fmt.Sprint(r.Streams), factor(r.VictimSlowdown), factor(r.CopySlowdown)))
			}
		}
	}
	return table.Section{
		Title: "Copies beside a victim", Table: s, Keys: len(keys),
		Note: "What copies and a kernel that computes on all multiprocessors take from each other, by events of the device: time beside the other one by time alone. 1 is nothing. A dash: they did not run at the same time for 0.95 of it.",
	}
}
