package bench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plural"
)

// Limits are thresholds by requested size, on the figures of the columns.
type Limits []Limit

// Limit is a threshold.
type Limit struct {
	Flag  string
	Bytes int64 // everySize for all sizes
	Value float64
}

const everySize = -1

// Flags of thresholds.
const (
	MinBusBW = "--min-busbw"
	MinGBps  = "--min-gbps"
	MaxTime  = "--max-time"
)

// examples are values of the flags, with their units.
var examples = map[string]struct{ unit, value string }{MinBusBW: {"GBPS", "40"}, MinGBps: {"GBPS", "40"}, MaxTime: {"US", "35.5"}}

// parseLimits reads SIZE=VALUE pairs. Unless sizes is nil, it must contain each size. Only --min-gbps
// accepts a value without a size, which applies to all sizes.
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
				return nil, cli.UsageError("%s %q: %s is not one of the measured sizes; see -b, -e, -f and -i", flag, pair, Limit{Bytes: bytes}.size())
			}
		}
		if slices.ContainsFunc(out, func(l Limit) bool { return l.Bytes == bytes }) {
			return nil, cli.UsageError("%s %q: duplicate threshold for %s", flag, pair, Limit{Bytes: bytes}.size())
		}
		out = append(out, Limit{flag, bytes, v})
	}
	return out, nil
}

// ParseLimits reads the pairs of the flag rateFlag and of --max-time.
func ParseLimits(rateFlag string, rates, times []string, sizes []int64) (Limits, error) {
	out, err := parseLimits(rateFlag, rates, sizes)
	if err != nil {
		return nil, err
	}
	more, err := parseLimits(MaxTime, times, sizes)
	return append(out, more...), err
}

// Within refuses a threshold for a size that is not measured. one and many name what has the sizes,
// such as burst and bursts.
func (l Limits) Within(sizes []int64, one, many string) error {
	for _, x := range l {
		if x.Bytes != everySize && !slices.Contains(sizes, x.Bytes) {
			return cli.UsageError("%s %d=%s: no %s has %s; %s have %s bytes", x.Flag, x.Bytes, Shortest(x.Value), one, x.size(), many, strings.ReplaceAll(List(sizes), ",", " or "))
		}
	}
	return nil
}

// OfAllSizes describes each threshold for all sizes, such as --min-gbps is 40.
func (l Limits) OfAllSizes() (out []string) {
	for _, x := range l {
		if x.Bytes == everySize {
			out = append(out, fmt.Sprintf("%s is %s", x.Flag, Shortest(x.Value)))
		}
	}
	return out
}

func (x Limit) size() string {
	if x.Bytes == everySize {
		return "all sizes"
	}
	return plural.Count(int(x.Bytes), "byte", "bytes")
}

// Measured is the part of a row that thresholds are compared with.
type Measured struct {
	Name         string
	Bytes        int64
	GBps, Micros float64
}

// Broken returns a line for each violation of a threshold by a row of a case. A threshold for a size
// without a row is violated too.
func (l Limits) Broken(name string, rows []Measured) []string {
	if name != "" {
		name += ", "
	}
	var out []string
	for _, x := range l {
		measured := x.Bytes == everySize
		for _, r := range rows {
			if x.Bytes != everySize && x.Bytes != r.Bytes {
				continue
			}
			measured = true
			switch {
			case x.Flag != MaxTime && r.GBps < x.Value:
				out = append(out, fmt.Sprintf("%s%s: %s GB/s, and %s is %s", name, r.Name, Rate(r.GBps), x.Flag, Shortest(x.Value)))
			case x.Flag == MaxTime && r.Micros > x.Value:
				out = append(out, fmt.Sprintf("%s%s: %s us, and %s is %s", name, r.Name, Shortest(r.Micros), x.Flag, Shortest(x.Value)))
			}
		}
		if !measured {
			out = append(out, fmt.Sprintf("%sno row of %s was measured, and %s is %s", name, x.size(), x.Flag, Shortest(x.Value)))
		}
	}
	return out
}

// Shortest formats a value with at most six digits.
func Shortest(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
