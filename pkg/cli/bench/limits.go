package bench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/english"
	"github.com/collectivex/collectivex/pkg/result"
)

// Limits are thresholds by requested size, on the figures of the columns.
type Limits []limit

type limit struct {
	flag  string
	bytes int64 // everySize for all sizes
	value float64
}

const everySize = -1

// Flags of thresholds.
const (
	minBusBW = "--min-busbw"
	MinGBps  = "--min-gbps"
	maxTime  = "--max-time"
)

// examples are values of the flags, with their units.
var examples = map[string]struct{ unit, value string }{minBusBW: {"GBPS", "40"}, MinGBps: {"GBPS", "40"}, maxTime: {"US", "35.5"}}

// parseLimits reads SIZE=VALUE pairs; a size has to be one of sizes, if these are not nil. A value
// without a size is for all sizes, of --min-gbps only.
func parseLimits(flag string, pairs []string, sizes []int64) (Limits, error) {
	var out Limits
	for _, pair := range pairs {
		bytes := int64(everySize)
		size, value, sized := strings.Cut(pair, "=")
		if !sized && flag == MinGBps {
			value = pair
		}
		v, err := strconv.ParseFloat(value, 64)
		if v <= 0 && err == nil {
			return nil, cli.UsageError("%s %s: want a value above 0", flag, pair)
		}
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			x, plain := examples[flag], ""
			if flag == MinGBps {
				plain = x.unit + " or "
			}
			return nil, cli.UsageError("%s %q: write %sSIZE=%s, such as 1M=%s", flag, pair, plain, x.unit, x.value)
		}
		if sized {
			if bytes, err = ParseSize(size); err != nil {
				return nil, cli.UsageError("%s: %w", flag, err)
			}
			if sizes != nil && !slices.Contains(sizes, bytes) {
				return nil, cli.UsageError("%s %q: %s is not one of the measured sizes; see -b, -e, -f and -i", flag, pair, limit{bytes: bytes}.size())
			}
		}
		if slices.ContainsFunc(out, func(l limit) bool { return l.bytes == bytes }) {
			return nil, cli.UsageError("%s %q: duplicate threshold for %s", flag, pair, limit{bytes: bytes}.size())
		}
		out = append(out, limit{flag, bytes, v})
	}
	return out, nil
}

// ParseLimits reads the pairs of two flags: of rates and of times.
func ParseLimits(rateFlag string, rates, times []string, sizes []int64) (Limits, error) {
	out, err := parseLimits(rateFlag, rates, sizes)
	if err != nil {
		return nil, err
	}
	more, err := parseLimits(maxTime, times, sizes)
	return append(out, more...), err
}

// Within refuses a threshold for a size that none of what is measured has: a burst, of bursts.
func (l Limits) Within(sizes []int64, one, many string) error {
	for _, x := range l {
		if x.bytes != everySize && !slices.Contains(sizes, x.bytes) {
			return cli.UsageError("%s %d=%s: no %s has %s; %s have %s bytes", x.flag, x.bytes, shortest(x.value), one, x.size(), many, strings.ReplaceAll(List(sizes), ",", " or "))
		}
	}
	return nil
}

// OfAllSizes says each threshold for all sizes, such as --min-gbps is 40.
func (l Limits) OfAllSizes() (out []string) {
	for _, x := range l {
		if x.bytes == everySize {
			out = append(out, fmt.Sprintf("%s is %s", x.flag, shortest(x.value)))
		}
	}
	return out
}

func (x limit) size() string {
	if x.bytes == everySize {
		return "all sizes"
	}
	return english.Count(int(x.bytes), "byte", "bytes")
}

// Measured is a row as thresholds compare it.
type Measured struct {
	Name         string
	Bytes        int64
	GBps, Micros float64
}

// Broken returns a line for each threshold of a case that its rows break; a size without a row breaks
// its own.
func (l Limits) Broken(name string, rows []Measured) []string {
	if name != "" {
		name += ", "
	}
	var out []string
	for _, x := range l {
		measured := x.bytes == everySize
		for _, r := range rows {
			if x.bytes != everySize && x.bytes != r.Bytes {
				continue
			}
			measured = true
			switch {
			case x.flag == MinGBps && r.GBps < x.value:
				out = append(out, fmt.Sprintf("%s%s: %s GB/s, and --min-gbps is %s", name, r.Name, Rate(r.GBps), shortest(x.value)))
			case x.flag == maxTime && r.Micros > x.value:
				out = append(out, fmt.Sprintf("%s%s: %s us, and --max-time is %s", name, r.Name, shortest(r.Micros), shortest(x.value)))
			}
		}
		if !measured {
			out = append(out, fmt.Sprintf("%sno row of %s was measured, and %s is %s", name, x.size(), x.flag, shortest(x.value)))
		}
	}
	return out
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

func (x limit) String() string { return x.flag + " " + x.size() }

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
