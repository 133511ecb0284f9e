package bench

import (
	"errors"
	"fmt"
	"strings"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/result"
)

// verdict counts how the cases of a measurement ended.
type verdict struct {
	lenient                bool // see Head.Lenient
	cases, failed, lacking int
	broken                 int // thresholds
	unrepeatable           int // results
}

// add takes the outcome of a case.
func (v *verdict) add(o result.Outcome) {
	v.cases++
	switch {
	case o.Status == result.Success:
	case Lacking(o):
		v.lacking++
	default:
		v.failed++
	}
}

// err returns the error with which the program ends, or nil. regressed is the number of sizes that are slower than in a
// baseline.
func (v *verdict) err(regressed int) error {
	switch {
	case v.failed > 0:
		return fmt.Errorf("%d of %s failed", v.failed, plural.Count(v.cases, "case", "cases"))
	case v.lacking > 0 && (!v.lenient || v.lacking == v.cases):
		return cli.EnvironmentError("%d of %s cannot be measured here", v.lacking, plural.Count(v.cases, "case", "cases"))
	}
	var wrong []string
	if n := v.broken + regressed; n > 0 {
		wrong = append(wrong, plural.Count(n, "figure missed its threshold", "figures missed their threshold"))
	}
	if n := v.unrepeatable; n > 0 {
		wrong = append(wrong, plural.Count(n, "result is not repeatable", "results are not repeatable"))
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, ", "))
	}
	return nil
}

// MaxRepeats is the maximum number of operations on one input.
const MaxRepeats = 1_000_000

// CheckRepeats returns a usage error for an unsupported number of operations on one input.
func CheckRepeats(n int) error {
	if n < 0 || n == 1 || n > MaxRepeats {
		return cli.UsageError("--repeatable: want 2 to %d operations, or 0", MaxRepeats)
	}
	return nil
}

// Differing returns how the results of operations on one input differ, or "" if they do not; v may be nil.
// operations says in the plural what they are.
func Differing(v *result.Repeatability, operations string) string {
	if v == nil || v.First == nil {
		return ""
	}
	element := fmt.Sprintf("element %d", v.First.Element)
	if t := v.First.Token; t != nil {
		element += fmt.Sprintf(" of token %d", *t)
	}
	return fmt.Sprintf("%s (%s) of %d %s on one input differ from the first result; the first is bit %d of %s, on rank %d in repeat %d",
		plural.Count(int(v.Elements), "element", "elements"), plural.Count(int(v.Bits), "bit", "bits"), v.Operations, operations,
		v.First.Bit, element, v.First.Rank, v.First.Operation)
}

// Lacking reports whether a case failed only because this machine or the library does not support
// it.
func Lacking(o result.Outcome) bool {
	return o.Status == result.Failed && o.Reasons.Only(
		result.ReasonNoLibrary, result.ReasonNoSymbol, result.ReasonRefused, result.ReasonEnvironment,
		result.ReasonMemoryForSize, result.ReasonSizeTooSmall,
	)
}

// Skipped reports whether a case did not start or did not end for a reason that is
// unrelated to it.
func Skipped(o result.Outcome) bool {
	return o.Status == result.Failed && o.Reasons.Only(result.ReasonSkipped)
}
