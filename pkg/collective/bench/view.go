package bench

import (
	"fmt"
	"strings"

	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
)

// View selects the figures of a row that the columns show.
type View struct {
	Mode         string // timing mode
	Across       across
	CPUTime      bool
	PerIteration bool // add columns
	Percentiles  bool // add columns
	Timestamps   bool // add a column
	Memory       bool // add a line
	Messages     int  // of an operation, whose rate has a column; 0: no column
}

// across selects how the times of the ranks are reduced, with the numbers of nccl-tests' -a.
type across int

func (a across) String() string { return []string{"rank 0", "mean", "min", "max"}[a] }

// Figures holds the figures that nccl-tests prints for a size and placement.
type Figures struct {
	TimeUS float64 `json:"time_us"`
	AlgBW  float64 `json:"algbw_gbps"`
	BusBW  float64 `json:"busbw_gbps"`
	Rate   float64 `json:"messages_per_second,omitempty"` // of a pair of ranks, by kernels of -D
}

// Figures returns the figures of a row, and false if it was not timed. Bandwidths are based on the
// completion time even if the time column shows host time, as in nccl-tests.
func (v View) Figures(row *collective.Row) (Figures, bool) {
	t := *row.Timing(v.Mode)
	if t == nil {
		return Figures{}, false
	}
	us := t.Percentiles.P50
	switch v.Across {
	case 0:
		us = t.RankP50[0]
	case 1:
		us = t.RankMean
	case 2:
		us = t.RankMin
	}
	f := Figures{TimeUS: us, AlgBW: t.AlgBW * t.Percentiles.P50 / us, BusBW: t.BusBW * t.Percentiles.P50 / us, Rate: float64(v.Messages) / us * 1e6}
	if v.CPUTime {
		f.TimeUS = t.Enqueue
	}
	return f, true
}

// extras returns the values of the extra columns of a placement; nil for a percentile of too few samples.
func (v View) extras(row *collective.Row) []*float64 {
	var out []*float64
	if t := row.PerIteration; v.PerIteration && t != nil {
		p := t.Percentiles.Of(t.SampleCount)
		out = append(out, &t.Min, &p.P50, p.P99, &t.Max)
	}
	if t := *row.Timing(v.Mode); v.Percentiles && t != nil {
		p := t.Percentiles.Of(t.SampleCount)
		out = append(out, &p.P50, p.P90, p.P95, p.P99, &t.Min, &t.Max)
	}
	return out
}

// extraNames returns the headings of the extra columns.
func (v View) extraNames() []string {
	var out []string
	if v.PerIteration {
		out = append(out, "i_min", "i_p50", "i_p99", "i_max")
	}
	if v.Percentiles {
		out = append(out, "p50", "p90", "p95", "p99", "min", "max")
	}
	return out
}

// violations returns a line for each threshold that a document violates.
func violations(limits bench.Limits, v View, d *collective.Document) []string {
	var rows []bench.Measured
	for i := range d.Measurement.Rows {
		row := &d.Measurement.Rows[i]
		if f, timed := v.Figures(row); timed {
			rows = append(rows, bench.Measured{Name: fmt.Sprintf("%d bytes %s", row.Requested, at(row)), Bytes: row.Requested, GBps: f.BusBW, Micros: f.TimeUS})
		}
	}
	return limits.Broken(where(d), rows)
}

// unrepeatable returns a line for each row whose results differ.
func unrepeatable(d *collective.Document) (lines []string) {
	for i := range d.Measurement.Rows {
		row := &d.Measurement.Rows[i]
		if text := bench.Differing(row.Repeatable, "operations"); text != "" {
			lines = append(lines, fmt.Sprintf("%s %d bytes %s: %s", where(d), row.Requested, at(row), text))
		}
	}
	return lines
}

// where returns the name of the case.
func where(d *collective.Document) string {
	m := d.Measurement
	parts := []string{m.Op, m.DType}
	if m.RedOp != "" {
		parts = append(parts, m.RedOp)
	}
	if m.Root > 0 {
		parts = append(parts, fmt.Sprintf("root %d", m.Root))
	}
	if name := variant(d); name != "" {
		parts = append(parts, name)
	}
	return strings.Join(parts, " ")
}

// at returns the placement and the ranks, which distinguish a row from others of its size.
func at(row *collective.Row) string {
	if row.Group == nil && (row.Src == nil || row.Dst == nil) {
		return row.Placement
	}
	return row.Placement + " " + members(row)
}
