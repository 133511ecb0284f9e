package collective

import (
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Kinds of records of this family.
const (
	kindSetup  = "collective-setup"
	kindSample = "collective-sample"
	// kindArithmetic is a workload.ArithmeticVerdict: of results on this rank.
	kindArithmetic = "collective-arithmetic"
)

// setup is what a rank knows before its first window.
type setup struct {
	Path       string               `json:"path"`
	CheckedBy  string               `json:"checked_by"`
	Registered bool                 `json:"registered"`
	Tolerance  int                  `json:"tolerance_ulp"`
	Modes      []string             `json:"modes"`
	Rungs      []rungRecord         `json:"rungs"`
	Dropped    []result.DroppedSize `json:"dropped"`
	Excluded   []result.Exclusion   `json:"excluded"`
}

// rungRecord is a rung that will be measured.
type rungRecord struct {
	Requested int64  `json:"requested"`
	Bytes     int64  `json:"bytes"`
	Count     int64  `json:"count"`
	Placement string `json:"placement"`
	Pair      Pair   `json:"pair,omitzero"`
	Slots     int    `json:"slots"`
	// Checks is the elements that this rank compares in each timed window, and
	// Untimed those in each untimed one.
	Checks  int64 `json:"checks"`
	Untimed int64 `json:"untimed_checks"`
}

// window names one window; all ranks have the same ones in the same order. The
// untimed one follows the last trial and has the number of trials for its own.
type window struct {
	Requested int64  `json:"requested"`
	Placement string `json:"placement"`
	Pair      Pair   `json:"pair,omitzero"`
	Mode      string `json:"mode"`
	Trial     int    `json:"trial"`
}

// sample is what one rank saw in one window, appended when its check has run.
type sample struct {
	window
	// US is microseconds per operation: one for every iteration (blocking,
	// per_iteration), else one for the window; none of an idle rank.
	US []float64 `json:"us"`
	// Enqueue is microseconds of the window until its last operation was enqueued,
	// divided by its operations; 0 where the window waits in between.
	Enqueue float64 `json:"enqueue_us,omitempty"`
	rank.Entry
	Check *workload.Verdict `json:"check"`
}
