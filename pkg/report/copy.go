package report

import (
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

var copyFamily = Family{
	Name: plan.FamilyCopy,
	Rows: func(doc result.Document) (measured, asked int) {
		d := doc.(*result.CopyDocument)
		for i := range d.Measurement.Rows {
			if r := &d.Measurement.Rows[i]; r.Complete && r.Verify.Passed {
				measured++
			}
		}
		return measured, len(result.AskedCopies(d.Identity.Case.Copy()))
	},
	Headline: func(doc result.Document) (string, any) { return copyList, copyOf(doc.(*result.CopyDocument)) },
	Lists:    []string{copyList},
	Sections: func(h Headlines) Sections {
		cases := of[*Copy](h, copyList)
		return Sections{Headlines: []Section{copySection(cases), victimSection(cases)}, Details: []Section{copyLadder(cases)}}
	},
	Views:  copyViews,
	Series: copySeries,
}

const copyList = "copies"

// Copy is the headline of a copy case.
type Copy struct {
	CaseID     string    `json:"case_id"`
	SKU        string    `json:"sku"`
	Backend    string    `json:"backend"`
	Test       string    `json:"test"`
	HostMemory string    `json:"host_memory"` // empty without any
	Submission string    `json:"submission"`
	PageBytes  int64     `json:"page_bytes"` // 0: one piece a stream
	Victim     bool      `json:"victim,omitempty"`
	Rows       []CopyRow `json:"rows"`
	Key        string    `json:"comparison_key"`
}

// CopyRow is one row. Rates are GB/s at the median by each clock, 0 for none, times
// microseconds of a copy.
type CopyRow struct {
	Bytes        int64   `json:"bytes"`
	Streams      int     `json:"streams"`
	DeviceMicros float64 `json:"device_us"`
	DeviceGBps   float64 `json:"device_gbps"`
	HostMicros   float64 `json:"host_us"`
	HostGBps     float64 `json:"host_gbps"`
	// VictimSlowdown is that of a kernel beside copies, CopySlowdown that of a copy beside the
	// kernel; missing without a victim, or if they did not run at the same time.
	VictimSlowdown *float64 `json:"victim_slowdown,omitempty"`
	CopySlowdown   *float64 `json:"copy_slowdown,omitempty"`
}

func copyOf(d *result.CopyDocument) *Copy {
	b := d.Identity.Case.Copy()
	h := &Copy{
		CaseID: d.Identity.CaseID, SKU: d.Identity.CaseFactors.SKU, Backend: d.Implementation.Name,
		Test: b.Test, HostMemory: b.HostMemory, Submission: b.Submission, PageBytes: b.PageBytes, Victim: b.Victim, Rows: []CopyRow{}, Key: d.ComparisonKey,
	}
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		if !r.Verify.Passed || r.Host == nil {
			continue
		}
		row := CopyRow{Bytes: r.Bytes, Streams: r.Streams, HostMicros: r.Host.Micros.P50, HostGBps: r.Host.GBps}
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

// copyKeys are the columns that tell copies apart.
var copyKeys = text("SKU", "backend", "test", "host memory", "pieces")

func (c *Copy) keys() []string {
	memory := c.HostMemory
	if memory == "" {
		memory = dash
	}
	return []string{c.SKU, c.Backend, c.Test, memory, pieces(c.Submission, c.PageBytes, c.Victim)}
}

// pieces says in what pieces a copy is submitted, how, and whether a victim runs in turns with
// it.
func pieces(submission string, page int64, victim bool) string {
	if page > 0 {
		submission += " of " + size(page)
	}
	if victim {
		submission += ", victim"
	}
	return submission
}

func copySection(cases []*Copy) Section {
	s := &Table{Columns: slices.Concat(copyKeys, figure("largest"), []Column{{Name: "device GB/s", Right: true, Strong: true}}, figure("host GB/s", "smallest", "device µs", "host µs"))}
	for _, c := range cases {
		if len(c.Rows) == 0 {
			continue
		}
		last, first := c.Rows[len(c.Rows)-1], c.Rows[0]
		for _, r := range c.Rows {
			if r.Bytes == last.Bytes && max(r.DeviceGBps, r.HostGBps) > max(last.DeviceGBps, last.HostGBps) {
				last = r
			}
		}
		s.Rows = append(s.Rows, append(c.keys(), size(last.Bytes), orDash(last.DeviceGBps), orDash(last.HostGBps), size(first.Bytes), orDash(first.DeviceMicros), orDash(first.HostMicros)))
	}
	return Section{
		Title: "Copies", Table: s, Keys: len(copyKeys),
		Note: "Rates of the largest copy, on the number of streams that is fastest, and times of the smallest one: by events of the device behind a gate, and by the host's clock from the first call to the end of the last copy.",
	}
}

func copyLadder(cases []*Copy) Section {
	s := &Table{Columns: slices.Concat(copyKeys, figure("bytes", "streams", "device µs", "device GB/s", "host µs", "host GB/s"))}
	for _, c := range cases {
		for _, r := range c.Rows {
			s.Rows = append(s.Rows, append(c.keys(), size(r.Bytes), fmt.Sprint(r.Streams), orDash(r.DeviceMicros), orDash(r.DeviceGBps), orDash(r.HostMicros), orDash(r.HostGBps)))
		}
	}
	return Section{Title: "Sizes of copies", Table: s, Keys: len(copyKeys), Folded: true}
}

// victimSection has the rows of copies beside a victim.
func victimSection(cases []*Copy) Section {
	s := &Table{Columns: slices.Concat(copyKeys, figure("bytes", "streams"), []Column{{Name: "victim slowdown", Right: true, Strong: true}}, figure("copy slowdown"))}
	factor := func(f *float64) string {
		if f == nil {
			return dash
		}
		return fmt.Sprintf("%.4f", *f)
	}
	for _, c := range cases {
		for _, r := range c.Rows {
			if c.Victim {
				s.Rows = append(s.Rows, append(c.keys(), size(r.Bytes), fmt.Sprint(r.Streams), factor(r.VictimSlowdown), factor(r.CopySlowdown)))
			}
		}
	}
	return Section{
		Title: "Copies beside a victim", Table: s, Keys: len(copyKeys),
		Note: "What copies and a kernel that computes on all multiprocessors take from each other, by events of the device: time beside the other one by time alone. 1 is nothing. A dash: they did not run at the same time for 0.95 of it.",
	}
}
