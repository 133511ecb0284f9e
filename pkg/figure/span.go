package figure

import "time"

// Span is what a trace shows: a timed window of one rank or, without times, one of its checks.
type Span struct {
	Track string // of the rank: a component, a timing mode, Checks
	Name  string
	Names []string // of each of Us, if they are not all Name
	// Began is when the window began; zero if that was not recorded. Spans without it are
	// laid out in the order of their records, and their iterations begin on all ranks at
	// once, as they did after a barrier.
	Began time.Time
	Us    []float64 // what was measured, one after the other
	// Offsets are where each of Us begins, in microseconds from the first on; nil if each
	// begins where the one before it ended.
	Offsets []float64
	Args    map[string]any
}

// Checks is the track of checks.
const Checks = "checks"

// Verdict says in a word how a check ended.
func Verdict(passed bool) string {
	if passed {
		return "passed"
	}
	return "failed"
}
