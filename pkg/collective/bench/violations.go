package bench

import (
	"fmt"
	"strings"

	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
)

// violations returns a line for each threshold that a document breaks; a size
// without a figure breaks it.
func violations(limits bench.Limits, v View, d *collective.Document) []string {
	var out []string
	for _, x := range limits {
		measured := false
		for i := range d.Measurement.Rows {
			row := &d.Measurement.Rows[i]
			f, timed := v.Figures(row)
			if row.Requested != x.Bytes || !timed {
				continue
			}
			measured = true
			switch {
			case x.Flag == bench.MinBusBW && f.BusBW < x.Value:
				out = append(out, fmt.Sprintf("%s %s: busbw %s GB/s is below %s", x, where(d, row), bench.Shortest(f.BusBW), bench.Shortest(x.Value)))
			case x.Flag == bench.MaxTime && f.TimeUS > x.Value:
				out = append(out, fmt.Sprintf("%s %s: time %s us is above %s", x, where(d, row), bench.Shortest(f.TimeUS), bench.Shortest(x.Value)))
			}
		}
		if !measured {
			out = append(out, fmt.Sprintf("%s %s: was not measured", x, where(d, nil)))
		}
	}
	return out
}

// where names the case and, where there is one, its row.
func where(d *collective.Document, row *collective.Row) string {
	m := d.Measurement
	parts := []string{m.Op, m.DType}
	if m.RedOp != "" {
		parts = append(parts, m.RedOp)
	}
	if m.Root > 0 {
		parts = append(parts, fmt.Sprintf("root %d", m.Root))
	}
	if row != nil {
		parts = append(parts, row.Placement)
		if row.Src != nil && row.Dst != nil {
			parts = append(parts, fmt.Sprintf("rank %d to %d", *row.Src, *row.Dst))
		}
	}
	return strings.Join(parts, " ")
}
