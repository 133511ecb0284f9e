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
	kindLane      = "transfer-lane" // result of Engine.Lane after the last burst, on posting ranks
)

// setup holds what a rank knows before the first burst.
type setup struct {
	TwoSided bool             `json:"two_sided"`
	Checked  string           `json:"checked_by"`
	Pool     int64            `json:"pool_bytes"`
	Budget   int64            `json:"pool_budget"`
	Register float64          `json:"register_ms"`
	Connect  float64          `json:"connect_ms,omitempty"` // rank 1's
	Points   []transfer.Point `json:"points"`               // to be measured
	Dropped  []transfer.Point `json:"dropped"`              // for lack of memory
	Merged   []int            `json:"merged"`               // descriptors by row
	Sets     []int            `json:"sets"`                 // tables by row
}

// first holds the times of small transfers, in milliseconds. Both ranks have one if the library is
// two-sided.
type first struct {
	Op     string    `json:"op"`
	Bytes  int64     `json:"bytes"`
	Millis []float64 `json:"ms"`
}

// trial holds the measurements of rank 1, or of each rank if the library is two-sided, in one trial of a
// row, in milliseconds, by burst; Request by burst and request.
type trial struct {
	Row        int       `json:"row"`
	rank.Trial           // see rank.Session.Trials
	rank.Entry           // to the first burst
	Latency    []float64 `json:"latency_ms"`
	Request    []float64 `json:"request_ms"`
	Prepare    []float64 `json:"prepare_ms"`
	Post       []float64 `json:"post_ms"`
	Release    []float64 `json:"release_ms"`
}

// Row numbers of checks that do not belong to a row.
const (
	rowSustained = -1
	rowReleased  = -2
	rowFirst     = -3 // for transfers of a block, one less
)

// firstSizes is how many sizes of small transfers are timed: 8 bytes, and a block.
const firstSizes = 2

// check is what a rank found in its pool after a burst.
type check struct {
	Row int    `json:"row"` // or one of the numbers above
	Op  string `json:"op"`
	rank.Trial
	Rep int `json:"rep"` // or the part of sustained bursts
	pool.Finding
}

// sustained holds a rank's measurements of the back-to-back bursts.
type sustained struct {
	Op       string  `json:"op"`
	CPU      float64 `json:"cpu_seconds"`
	Parts    int     `json:"parts"`
	InFlight int     `json:"in_flight,omitempty"` // this and the following are rank 1's
	Bursts   int     `json:"bursts,omitempty"`
	Bytes    int64   `json:"bytes,omitempty"`
	Seconds  float64 `json:"seconds,omitempty"`
}
