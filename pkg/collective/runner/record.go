package runner

import (
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Kinds of records of this family, beside collective.KindSample.
const (
	kindSetup = "collective-setup"
	// kindArithmetic is a workload.ArithmeticVerdict on this rank's results.
	kindArithmetic = "collective-arithmetic"
	// kindRepeatable is the list of what this rank found of each rung; see repeated.
	kindRepeatable = "collective-repeatable"
	// kindMemory is the collective.Memory of a pass on this rank.
	kindMemory = "collective-memory"
	// kindNamed is the list of the algorithms that the library reported to this rank; see named.
	kindNamed = "collective-named"
	// kindTruncated is a truncated, for each rung and pass; the last one counts.
	kindTruncated = "collective-truncated"
)

// setup is the record that a rank emits before its first window.
type setup struct {
	Path       string                   `json:"path"`
	CheckedBy  string                   `json:"checked_by"`
	Registered bool                     `json:"registered"`
	Tolerance  int                      `json:"tolerance_ulp"`
	Modes      []string                 `json:"modes"`
	Rungs      []rungRecord             `json:"rungs"`
	Dropped    []collective.DroppedSize `json:"dropped"`
	Excluded   []collective.Exclusion   `json:"excluded"`
}

// rungRecord is a rung to be measured.
type rungRecord struct {
	Requested int64  `json:"requested"`
	Bytes     int64  `json:"bytes"`
	Count     int64  `json:"count"`
	Placement string `json:"placement"`
	Pair      Pair   `json:"pair,omitzero"`
	Slots     int    `json:"slots"`
	// Checks and Untimed are the numbers of elements that this rank compares, and of messages that it counts, in each
	// timed and each untimed window.
	Checks  int64 `json:"checks"`
	Untimed int64 `json:"untimed_checks"`
	// Truncated is the minimum number of truncated windows.
	Truncated int `json:"truncated"`
}

type window = collective.Window

// sample is the record of one window on one rank. It is emitted after the window's check.
type sample struct {
	collective.Sample
	rank.Entry
	Check *workload.Verdict `json:"check"`
}
