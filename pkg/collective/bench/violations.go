package bench

import (
	"fmt"
	"strings"

	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
)

// violations returns a line for each threshold that a document breaks.
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

// where names the case.
func where(d *collective.Document) string {
	m := d.Measurement
	parts := []string{m.Op, m.DType}
	if m.RedOp != "" {
		parts = append(parts, m.RedOp)
	}
	if m.Root > 0 {
		parts = append(parts, fmt.Sprintf("root %d", m.Root))
	}
	return strings.Join(parts, " ")
}

// at says what tells a row from others of its size.
func at(row *collective.Row) string {
	if row.Src == nil || row.Dst == nil {
		return row.Placement
	}
	return fmt.Sprintf("%s rank %d to %d", row.Placement, *row.Src, *row.Dst)
}
