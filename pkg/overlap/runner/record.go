package runner

import (
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Kinds of records of this family.
const (
	kindSetup  = "overlap-setup"
	kindSample = "overlap-sample"
)

// setup is the record that a rank emits before its first window.
type setup struct {
	Compute         string `json:"compute"` // one of overlap.Computes
	Path            string `json:"communication_path"`
	CheckedBy       string `json:"checked_by"`
	SharedProcessor bool   `json:"shared_processor"`
	// Program describes the verified communication steps. It is missing if operations of a library
	// communicate.
	Program *result.Program `json:"program,omitempty"`
}

// turn identifies a window. All ranks have the same windows in the same order.
type turn struct {
	Row       int    `json:"row"`
	Iteration int    `json:"iteration"`
	Contender string `json:"contender"`
	// Repeat counts the repetitions of an iteration in which a clock was capped; see rank.Session.Trials.
	Repeat int `json:"repeat,omitempty"`
}

// sample is the record of one window on one rank. It is emitted after the window's checks. Times are
// microseconds.
type sample struct {
	turn
	US float64 `json:"us"` // from the gate to the end of both sides
	// Compute and Communication are from the gate to the end of each side, 0 for a side that the
	// contender does not have.
	Compute       float64 `json:"compute_us"`
	Communication float64 `json:"communication_us"`
	// ComputeCovered is the part of Compute in which the communication was active.
	// CommunicationCovered is the reverse.
	ComputeCovered       float64 `json:"compute_covered_us"`
	CommunicationCovered float64 `json:"communication_covered_us"`
	rank.Entry
	// Products and Communicated are missing if the contender does not have the side.
	Products     *workload.Verdict `json:"products,omitempty"`
	Communicated *workload.Verdict `json:"communicated,omitempty"`
}
