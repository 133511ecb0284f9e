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
	endless                bool // see Head.Endless
	cases, failed, lacking int
	broken                 int // thresholds
	unrepeatable           int // results
}

// add takes the outcome of a case.
func (v *verdict) add(o result.Outcome) {
	v.cases++
	switch {
	case o.Status == result.Success, v.endless && Skipped(o):
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
