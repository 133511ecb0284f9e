package copies

import (
	"fmt"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/table"
)

// list is the JSON name of the headlines in a summary.
const list = "copies"

// Headline is the headline of a copy case.
type Headline struct {
	family.Repeats[*Headline] `json:"-"`

	CaseID     string `json:"case_id"`
	SKU        string `json:"sku"`
	Backend    string `json:"backend"`
	Test       string `json:"test"`
	HostMemory string `json:"host_memory"` // empty if not used
	Submission string `json:"submission"`
	PageBytes  int64  `json:"page_bytes"` // 0: one piece per stream
	Victim     bool   `json:"victim,omitempty"`
	Layout     string `json:"layout,omitempty"`  // of the blocks of swaps
	Profile    string `json:"profile,omitempty"` // of swaps of a suite
	// Pairs has the rates of each pair of devices at the largest size, on the first number of streams, by the clock of
	// the device or, without it, of the host. Median is that of the pairs, and Worst the slowest pair if it is more than
	// a tenth below. Missing in other cases.
	Pairs  *table.Square `json:"pairs_gbps,omitempty"`
	Median float64       `json:"median_gbps,omitempty"`
	Worst  *table.Slow   `json:"worst,omitempty"`
	World  int           `json:"world,omitempty"` // of a case with several devices or pairs
	Rows   []HeadlineRow `json:"rows"`
	Key    string        `json:"comparison_key"`
}

// HeadlineRow is one row. Rates are GB/s at the median by each clock, 0 if not measured; times are microseconds per copy.
// A swap has its median as the host's time.
type HeadlineRow struct {
	Bytes        int64   `json:"bytes"`
	BlockBytes   int64   `json:"block_bytes,omitempty"` // of the blocks of a swap
	NumBlocks    int     `json:"num_blocks,omitempty"`
	P99Micros    float64 `json:"p99_us,omitempty"` // of swaps; 0 if there are too few
	Streams      int     `json:"streams"`
	Place        string  `json:"place,omitempty"` // the device or pair of a case with several
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
		Test: b.Test, HostMemory: b.HostMemory, Submission: b.Submission, PageBytes: b.PageBytes, Victim: b.Victim, Layout: b.Layout, Profile: b.Profile, Rows: []HeadlineRow{}, Key: d.ComparisonKey,
	}
	if c := &d.Identity.Case; b.Each || TestOf(b.Test).Ranks == All {
		h.World = c.World
	}
	h.pairs(d)
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
		row := HeadlineRow{Bytes: r.Bytes, Streams: r.Streams, Place: r.Place(), HostMicros: r.Host.Micros.P50, HostGBps: r.Host.GBps}
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

// SquareOf returns the rates of the pairs of a document at a size on a number of streams; nil if its case has no pairs.
func SquareOf(d *Document, bytes int64, streams int) *table.Square {
	c := &d.Identity.Case
	if b := Of(c); !b.Each || TestOf(b.Test).Ranks != 2 || TestOf(b.Test).Chase || len(b.Turns(c.World)) == 0 {
		return nil
	}
	s := table.NewSquare(bytes, c.World)
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		if r.Bytes == bytes && r.Streams == streams && r.Good() && r.Clock() != nil && r.Src != nil && r.Dst != nil {
			s.Set(*r.Src, *r.Dst, r.Clock().GBps, false)
		}
	}
	return &s
}

// pairs sets the figures of pairs.
func (c *Headline) pairs(d *Document) {
	b := Of(&d.Identity.Case)
	if len(b.Sizes) == 0 || len(b.Streams) == 0 {
		return
	}
	if c.Pairs = SquareOf(d, b.Sizes[len(b.Sizes)-1], b.Streams[0]); c.Pairs != nil {
		c.Median = c.Pairs.Median()
		c.Settle()
	}
}

// Settle finds the slow pair.
func (c *Headline) Settle() {
	if c.Pairs != nil {
		c.Worst = c.Pairs.Worst(c.Median)
	}
}

// sections returns the report sections of the headlines.
func sections(h family.Headlines) family.Sections {
	all := family.Of[*Headline](h, list)
	return family.Sections{Headlines: []table.Section{overview(all), largestSwaps(all), pairSection(all), besideVictim(all)}, Details: append([]table.Section{ladder(all), swaps(all)}, pairSquares(all)...)}
}

// keys are the columns that identify copies.
var keys = table.Text("SKU", "backend", "test", "host memory", "pieces")

func (c *Headline) key() []string {
	memory := c.HostMemory
	if memory == "" {
		memory = table.Dash
	}
	what := pieces(c.Submission, c.PageBytes, c.Victim)
	if c.Layout != "" {
		what += ", " + c.Layout
	}
	if c.Profile != "" {
		what += ", " + c.Profile
	}
	if c.World > 0 {
		what += fmt.Sprintf(", %d devices", c.World)
	}
	return []string{c.SKU, c.Backend, c.Test, memory, what}
}

// largest returns the row of the largest size on the number of streams that is fastest, of several devices the first.
func (c *Headline) largest() HeadlineRow {
	var last HeadlineRow
	for _, r := range c.Rows {
		if r.Place != c.Rows[0].Place {
			continue
		}
		if r.Bytes > last.Bytes || r.Bytes == last.Bytes && max(r.DeviceGBps, r.HostGBps) > max(last.DeviceGBps, last.HostGBps) {
			last = r
		}
	}
	return last
}

// overview shows the copies that have no table of their own.
func overview(cases []*Headline) table.Section {
	s := &table.Table{Columns: slices.Concat(keys, table.Figures("largest"), table.Headline("device GB/s"), table.Figures("host GB/s", "smallest", "device µs", "host µs"))}
	for _, c := range cases {
		if len(c.Rows) == 0 || c.Pairs != nil || c.Layout != "" {
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

// pairSection shows the cases of pairs of devices.
func pairSection(cases []*Headline) table.Section {
	t := &table.Table{Columns: slices.Concat(keys, table.Figures("size"), table.Headline("median GB/s"), table.Text("slow pair"))}
	for _, c := range cases {
		if c.Pairs != nil {
			t.Rows = append(t.Rows, append(c.key(), table.Size(c.Pairs.Bytes), table.OrDash(c.Median)+c.Spread(func(o *Headline) float64 { return o.Median }), c.Worst.Below(c.Median)))
		}
	}
	return table.Section{
		Title: "Copies between pairs of devices", Table: t, Keys: len(keys),
		Note: "Each pair by itself, at the largest size, by events of the device or, without them, by the host's clock; the slowest pair is named where it is more than a tenth below the median pair.",
	}
}

// pairSquares shows the rates of every pair, in a table for each case.
func pairSquares(cases []*Headline) (out []table.Section) {
	for _, c := range cases {
		if c.Pairs != nil {
			out = append(out, table.Section{
				Title: fmt.Sprintf("GB/s from rank (row) to rank (column), %s: %s", table.Size(c.Pairs.Bytes), strings.Join([]string{c.SKU, c.Backend, c.Test}, " ")),
				Table: c.Pairs.Table(), Folded: true,
			})
		}
	}
	return out
}

func ladder(cases []*Headline) table.Section {
	s := &table.Table{Columns: slices.Concat(keys, table.Figures("bytes", "streams"), table.Text("device"), table.Figures("device µs", "device GB/s", "host µs", "host GB/s"))}
	for _, c := range cases {
		if c.Layout != "" {
			continue
		}
		for _, r := range c.Rows {
			s.Rows = append(s.Rows, append(c.key(), table.Size(r.Bytes), fmt.Sprint(r.Streams), r.Place, table.OrDash(r.DeviceMicros), table.OrDash(r.DeviceGBps), table.OrDash(r.HostMicros), table.OrDash(r.HostGBps)))
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

// largestSwaps shows the point with the most bytes of each case of swaps.
func largestSwaps(cases []*Headline) table.Section {
	s := &table.Table{Columns: slices.Concat(keys, table.Figures("largest", "p50 µs"), table.Headline("GB/s"))}
	for _, c := range cases {
		if len(c.Rows) > 0 && c.Layout != "" {
			last := c.largest()
			s.Rows = append(s.Rows, append(c.key(), fmt.Sprintf("%d × %s", last.NumBlocks, table.Size(last.BlockBytes)), table.OrDash(last.HostMicros),
				table.OrDash(last.HostGBps)+c.Spread(func(o *Headline) float64 { return o.largest().HostGBps })))
		}
	}
	return table.Section{
		Title: "Largest swaps of blocks", Table: s, Keys: len(keys),
		Note: "The swap with the most bytes, blocks × size, of several the fastest, by the host's clock from before its first call until the stream has been waited for.",
	}
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
