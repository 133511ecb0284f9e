// Package bench is what the commands of `cxrun bench` share: groups of flags, sizes, thresholds,
// the head of their JSON, and how they end. It runs nothing.
package bench

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Name replaces the names of a suite and of a sampling profile in documents: the case itself has the
// numbers, which a user gave.
const Name = "bench"

// HostBackend needs no device.
const HostBackend = "host"

// Auto is the value of flags that lets the machine decide.
const Auto = "auto"

// Backends lists the values of --backend for a family: auto, then the backends that support it.
func Backends(cat *catalog.Catalog, family plan.Family) []string {
	names := []string{Auto}
	for i := range cat.Backends {
		if b := &cat.Backends[i]; b.Blocks[string(family)] != nil {
			names = append(names, b.Name)
		}
	}
	return names
}

// Others returns the end of a message that be lacks something. It names the backends that have it, and
// is empty if there are none. If backends on the devices of be have it, it names only these.
func Others(cat *catalog.Catalog, be *catalog.Backend, has func(*catalog.Backend) bool) string {
	var near, all []string
	for i := range cat.Backends {
		o := &cat.Backends[i]
		if !has(o) {
			continue
		}
		all = append(all, o.Name)
		if slices.ContainsFunc(o.Vendors, func(v string) bool { return slices.Contains(be.Vendors, v) }) {
			near = append(near, o.Name)
		}
	}
	if len(near) > 0 {
		all = near
	}
	if len(all) == 0 {
		return ""
	}
	return "; use --backend " + strings.Join(all, " or ")
}

// otherNames maps other programs' names of element types and reductions to ours.
var otherNames = map[string]string{
	"bf16": "bfloat16", "fp16": "half", "f16": "half", "float16": "half", "fp32": "float", "f32": "float", "float32": "float",
	"fp64": "double", "f64": "double", "float64": "double", "e4m3": "f8e4m3", "fp8e4m3": "f8e4m3", "e5m2": "f8e5m2", "fp8e5m2": "f8e5m2",
	"add": "sum", "plus": "sum", "mul": "prod", "product": "prod", "mean": "avg", "average": "avg",
}

// Known refuses a name that is not one of names.
func Known(what, got string, names []string) error {
	if slices.Contains(names, got) {
		return nil
	}
	if other := otherNames[strings.ToLower(got)]; slices.Contains(names, other) {
		return cli.UsageError("unknown %s %q; here it is %q", what, got, other)
	}
	return cli.UsageError("unknown %s %q%s", what, got, vocab.Hint(got, names))
}

// Word is a value of a flag, and the valid ones.
type Word struct {
	What, Got string
	Names     []string
}

// AllKnown is Known for each of the words.
func AllKnown(words ...Word) error {
	for _, w := range words {
		if err := Known(w.What, w.Got, w.Names); err != nil {
			return err
		}
	}
	return nil
}

// Profile returns the sample counts of type S in a profile; cases names the family in messages.
func Profile[S any](cat *catalog.Catalog, name, cases string) (*S, error) {
	if err := Known("sampling profile", name, cat.Words("sampling")); err != nil {
		return nil, err
	}
	counts := catalog.SamplingOf[S](cat.SamplingProfile(name))
	if counts == nil {
		return nil, cli.UsageError("--sampling %s: the profile has no sample counts of %s", name, cases)
	}
	return counts, nil
}

// maxSizes is the maximum number of sizes of a measurement. More are probably a typing error.
const maxSizes = 4096

// ParseSize reads a size in bytes: a number, which may have a fraction, and an optional unit. As in nccl-tests,
// all units are binary: M, MB and MiB are 2²⁰ bytes.
func ParseSize(s string) (int64, error) {
	number, unit := strings.TrimSpace(s), 1.0
	if m := sizeUnit.FindStringSubmatch(number); m != nil {
		number = strings.TrimSpace(strings.TrimSuffix(number, m[0]))
		unit = math.Pow(1024, float64(strings.Index("KMG", strings.ToUpper(m[1]))+1))
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(v) || v < 0 || v*unit > catalog.MaxBytes {
		return 0, fmt.Errorf("invalid size %q: want bytes, or a number with K, M or G (powers of 1024, also as MB or MiB), such as 8, 1.5K, 32M or 4G", s)
	}
	return int64(v * unit), nil
}

var sizeUnit = regexp.MustCompile(`(?i)([KMG])(?:i?B)?$`)

// Spelled writes a size as ParseSize reads it, in the largest unit that divides it.
func Spelled(bytes int64) string {
	unit := 0
	for bytes > 0 && bytes%1024 == 0 && unit < 3 {
		bytes /= 1024
		unit++
	}
	return strconv.FormatInt(bytes, 10) + []string{"", "K", "M", "G"}[unit]
}

// Micros formats microseconds in at most seven characters, below 10 s.
func Micros(us float64) string {
	digits := 0
	switch {
	case us < 9999.995:
		digits = 2
	case us < 99999.95:
		digits = 1
	}
	return strconv.FormatFloat(us, 'f', digits, 64)
}

// Rate formats a rate with two decimals or, below 1, with three significant digits.
func Rate(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 1e-4:
		return strconv.FormatFloat(v, 'e', 2, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2-int(math.Floor(math.Log10(v))), 64)
	}
}

// List joins values by commas, as flags read them.
func List[T any](values []T) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprint(v)
	}
	return strings.Join(words, ",")
}

// Repeats reports whether a list contains duplicates.
func Repeats(words []string) bool {
	return len(slices.Compact(slices.Sorted(slices.Values(words)))) < len(words)
}

// Ascending reports whether there are numbers, all positive and each above the previous one.
func Ascending(numbers []int) bool {
	return len(numbers) > 0 && numbers[0] > 0 && slices.IsSorted(numbers) && len(slices.Compact(slices.Clone(numbers))) == len(numbers)
}

// CheckOf returns the last column of a row: the result of its check.
func CheckOf(passed, complete bool) string {
	switch {
	case !passed:
		return "FAILED"
	case !complete:
		return "INCOMPLETE"
	default:
		return "OK"
	}
}

// ladder returns nccl-tests' sizes from first to last. Each is factor times the previous one if factor
// is above 1, and step above it otherwise. The first is at least least.
func ladder(least, first, last, step, factor int64) ([]int64, error) {
	switch {
	case first < least:
		return nil, cli.UsageError("-b %d: want at least one byte", first)
	case first > last:
		return nil, cli.UsageError("-b %s is above -e %s: give the last size with -e", Spelled(first), Spelled(last))
	case factor < 1:
		return nil, cli.UsageError("-f %d: want a factor of at least 2, or 1 to add -i instead", factor)
	case factor == 1 && step < 1 && first < last:
		return nil, cli.UsageError("-i %d: want at least one byte", step)
	}
	var sizes []int64
	for n := first; n <= last; {
		if sizes = append(sizes, n); len(sizes) > maxSizes {
			return nil, cli.UsageError("-b %s -e %s come to more than %d sizes: use a larger step -i, or a factor -f", Spelled(first), Spelled(last), maxSizes)
		}
		if factor > 1 {
			n *= factor
		} else {
			n += max(step, 1)
		}
	}
	return sizes, nil
}
