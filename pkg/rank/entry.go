package rank

import (
	"cmp"
	"slices"
	"time"

	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/result"
)

// Entry records how a rank entered a timed window.
type Entry struct {
	Began time.Time `json:"began,omitzero"` // UTC; samples of earlier versions may lack it
	// Met is the microseconds from this rank's arrival at the last meeting of all ranks to Began. It is 0 if
	// the ranks share a clock.
	Met float64 `json:"met_us,omitempty"`
}

// Enter returns an Entry for a window entered now. came is when this rank came to the last meeting, which no
// rank leaves before all have come; zero if the ranks share a clock or have not met.
func Enter(came time.Time) Entry {
	now := time.Now()
	e := Entry{Began: now.UTC()}
	if !came.IsZero() {
		e.Met = microseconds(now.Sub(came))
	}
	return e
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// EntrySkew summarizes how far apart ranks entered windows, each with the entries of the ranks that measured;
// windows with fewer entries than ranks do not count. On one node ranks share a clock. Elsewhere each rank
// entered after the last had come to the meeting, and at most its Met later: the largest Met of a window is an
// upper bound. It returns nil if no window has enough data.
func EntrySkew[K comparable](nodes, ranks int, windows map[K][]Entry) *result.EntrySkew {
	var us []float64
	for _, entries := range windows {
		missing := func(e Entry) bool { return e.Began.IsZero() || nodes > 1 && e.Met <= 0 }
		if len(entries) < max(2, ranks) || slices.ContainsFunc(entries, missing) {
			continue
		}
		us = append(us, skew(nodes, entries))
	}
	if us == nil {
		return nil
	}
	return &result.EntrySkew{Windows: len(us), P50: measure.Percentile(us, 50), Max: slices.Max(us), Bound: nodes > 1}
}

func skew(nodes int, entries []Entry) float64 {
	if nodes > 1 {
		return slices.MaxFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Met, b.Met) }).Met
	}
	byBegan := func(a, b Entry) int { return a.Began.Compare(b.Began) }
	return microseconds(slices.MaxFunc(entries, byBegan).Began.Sub(slices.MinFunc(entries, byBegan).Began))
}
