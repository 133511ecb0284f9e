package bench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/result"
)

// Limits are thresholds by requested size, on the figures of the columns.
type Limits []limit

type limit struct {
	flag  string // --min-busbw or --max-time
	bytes int64
	value float64
}

const (
	minBusBW = "--min-busbw"
	maxTime  = "--max-time"
)

// refuseRate refuses a threshold of --min-gbps that no rate can be compared with.
func refuseRate(gbps float64) error {
	if !(gbps >= 0) || math.IsInf(gbps, 0) {
		return cli.UsageError("--min-gbps %v: want GB/s, 0 or more, such as 40", gbps)
	}
	return nil
}

// parseLimits reads SIZE=VALUE pairs; a size has to be one that is measured.
func parseLimits(busbw, time []string, sizes []int64) (Limits, error) {
	var out Limits
	add := func(flag, unit string, pairs []string) error {
		for _, pair := range pairs {
			size, value, found := strings.Cut(pair, "=")
			v, err := strconv.ParseFloat(value, 64)
			if !found || err != nil || !(v > 0) || math.IsInf(v, 0) {
				return cli.UsageError("%s %q: write SIZE=%s, such as 1M=%s", flag, pair, unit, map[string]string{minBusBW: "40", maxTime: "35.5"}[flag])
			}
			bytes, err := ParseSize(size)
			if err != nil {
				return cli.UsageError("%s: %w", flag, err)
			}
			if !slices.Contains(sizes, bytes) {
				return cli.UsageError("%s %q: %d bytes is not one of the measured sizes; see -b, -e, -f and -i", flag, pair, bytes)
			}
			if slices.ContainsFunc(out, func(l limit) bool { return l.flag == flag && l.bytes == bytes }) {
				return cli.UsageError("%s %q: duplicate threshold for %d bytes", flag, pair, bytes)
			}
			out = append(out, limit{flag, bytes, v})
		}
		return nil
	}
	if err := add(minBusBW, "GBPS", busbw); err != nil {
		return nil, err
	}
	return out, add(maxTime, "US", time)
}

// Violations returns a line for each threshold that a document breaks; a size
// without a figure breaks it.
func (l Limits) Violations(v View, d *result.CollectiveDocument) []string {
	var out []string
	for _, x := range l {
		measured := false
		for i := range d.Measurement.Rows {
			row := &d.Measurement.Rows[i]
			f, timed := v.Figures(row)
			if row.Requested != x.bytes || !timed {
				continue
			}
			measured = true
			switch {
			case x.flag == minBusBW && f.BusBW < x.value:
				out = append(out, fmt.Sprintf("%s %s: busbw %s GB/s is below %s", x, where(d, row), shortest(f.BusBW), shortest(x.value)))
			case x.flag == maxTime && f.TimeUS > x.value:
				out = append(out, fmt.Sprintf("%s %s: time %s us is above %s", x, where(d, row), shortest(f.TimeUS), shortest(x.value)))
			}
		}
		if !measured {
			out = append(out, fmt.Sprintf("%s %s: was not measured", x, where(d, nil)))
		}
	}
	return out
}

func (x limit) String() string { return fmt.Sprintf("%s %d bytes", x.flag, x.bytes) }

// where names the case and, where there is one, its row.
func where(d *result.CollectiveDocument, row *result.CollectiveRow) string {
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

func shortest(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
