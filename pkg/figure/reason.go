package figure

import "github.com/collectivex/collectivex/pkg/result"

// ReasonOf says why a row does not count.
func ReasonOf(complete, passed bool, reasons result.Reasons) string {
	switch {
	case !passed && len(reasons) > 0:
		return "invalid: " + reasons.String()
	case !passed:
		return "invalid: failed its checks"
	case !complete:
		return "incomplete: the case ended before all samples were taken"
	default:
		return ""
	}
}

// RowReasons returns why each of n rows does not count. Where all are right by themselves, it is
// why their case does not.
func RowReasons(head *result.Envelope, n int, of func(i int) string) []string {
	reasons := make([]string, n)
	right := true
	for i := range reasons {
		reasons[i] = of(i)
		right = right && reasons[i] == ""
	}
	if right && head.Outcome.Status == result.Invalid {
		for i := range reasons {
			reasons[i] = "invalid: " + head.Outcome.Reasons.String()
		}
	}
	return reasons
}

// Verified is ReasonOf for a row whose check says in detail what was wrong.
func Verified(complete, passed bool, detail string) string {
	if !passed {
		return "invalid: " + detail
	}
	return ReasonOf(complete, true, nil)
}

// MicrosecondsOf returns what a burst has of percentiles; unit is its unit in microseconds.
func MicrosecondsOf(b result.Burst, unit float64) result.Percentiles {
	p := result.Percentiles{P50: b.P50 * unit}
	if b.P95 > 0 {
		p95 := b.P95 * unit
		p.P95 = &p95
	}
	return p
}
