package runner

import (
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

// Kinds of records of this family.
const (
	kindSetup     = "transfer-setup"
	kindFirst     = "transfer-first"
	kindTrial     = "transfer-trial"
	kindCheck     = "transfer-check"
	kindSustained = "transfer-sustained"
	kindLane      = "transfer-lane" // what Engine.Lane returned after the last burst, of the ranks that post
)

// setup is what a rank knows before the first burst.
type setup struct {
	TwoSided bool             `json:"two_sided"`
	Checked  string           `json:"checked_by"`
	Pool     int64            `json:"pool_bytes"`
	Budget   int64            `json:"pool_budget"`
	Register float64          `json:"register_ms"`
	Connect  float64          `json:"connect_ms,omitempty"` // rank 1's
	Points   []transfer.Point `json:"points"`               // that are measured
	Dropped  []transfer.Point `json:"dropped"`              // for want of memory
	Merged   []int            `json:"merged"`               // descriptors by row
	Sets     []int            `json:"sets"`                 // tables by row
}

// first is the time of small transfers, in milliseconds. Both ranks have one if the library
// is two-sided.
type first struct {
	Op     string    `json:"op"`
	Bytes  int64     `json:"bytes"`
	Millis []float64 `json:"ms"`
}

// trial is what rank 1, or each rank if the library is two-sided, measured in one trial of a
// row, in milliseconds, by burst; Request by burst and request.
type trial struct {
	Row        int       `json:"row"`
	Trial      int       `json:"trial"`
	rank.Entry           // to the first burst
	Latency    []float64 `json:"latency_ms"`
	Request    []float64 `json:"request_ms"`
	Prepare    []float64 `json:"prepare_ms"`
	Post       []float64 `json:"post_ms"`
	Release    []float64 `json:"release_ms"`
}

// Places of checks that are not of a row.
const (
	rowSustained = -1
	rowReleased  = -2
	rowFirst     = -3 // and, of transfers of a block, the number before it
)

// Checks of the small transfers and of sustained bursts: of what was timed, and of one more round.
const timedChecks = 2

// firstSizes is how many sizes of small transfers are timed: 8 bytes, and a block.
const firstSizes = 2

// check is what a rank found in its pool after a burst.
type check struct {
	Row   int    `json:"row"` // or one of the places above
	Op    string `json:"op"`
	Trial int    `json:"trial"`
	Rep   int    `json:"rep"`
	pool.Finding
}

// sustained is a rank's part in the bursts that followed each other.
type sustained struct {
	Op       string  `json:"op"`
	CPU      float64 `json:"cpu_seconds"`
	InFlight int     `json:"in_flight,omitempty"` // the rest is rank 1's
	Bursts   int     `json:"bursts,omitempty"`
	Bytes    int64   `json:"bytes,omitempty"`
	Seconds  float64 `json:"seconds,omitempty"`
}
