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

// setup is what a rank knows before the first row.
type setup struct {
	Compute         string `json:"compute"` // what computes; see overlap.Computes
	Path            string `json:"communication_path"`
	CheckedBy       string `json:"checked_by"`
	SharedProcessor bool   `json:"shared_processor"`
	// Program is what was verified before it communicated; missing where a library's
	// operations do.
	Program *result.Program `json:"program,omitempty"`
}

// turn names a window; all ranks have the same ones in the same order.
type turn struct {
	Row       int    `json:"row"`
	Iteration int    `json:"iteration"`
	Contender string `json:"contender"`
}

// sample is what one rank saw in one window, appended when its checks have run. Times are
// microseconds.
type sample struct {
	turn
	US float64 `json:"us"` // from the gate to the end of both sides
	// Compute and Communication are from the gate to the end of each side, 0 for a side that the
	// contender does not have.
	Compute       float64 `json:"compute_us"`
	Communication float64 `json:"communication_us"`
	// ComputeCovered is how much of Compute the communication was active, and
	// CommunicationCovered the reverse.
	ComputeCovered       float64 `json:"compute_covered_us"`
	CommunicationCovered float64 `json:"communication_covered_us"`
	rank.Entry
	// Products and Communicated are missing where the contender has no such side.
	Products     *workload.Verdict `json:"products,omitempty"`
	Communicated *workload.Verdict `json:"communicated,omitempty"`
}
