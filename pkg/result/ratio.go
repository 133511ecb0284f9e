package result

import "math"

// MinCoverage is the minimum fraction of a side's time in which the other side must be active for a
// slowdown to be meaningful.
const MinCoverage = 0.95

// Ratio returns a / b.
func Ratio(a, b float64) *float64 { return new(a / b) }

// Near compares figures within the precision of the decimal notation of documents.
func Near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a)) }

// BothNear compares figures that may be missing.
func BothNear(a, b *float64) bool { return (a == nil) == (b == nil) && (a == nil || Near(*a, *b)) }
