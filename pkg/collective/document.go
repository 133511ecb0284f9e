package collective

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Document answers a collective case.
type Document struct {
	result.Envelope
	Workload    Workload    `json:"workload"`
	Measurement Measurement `json:"measurement"`
}

// Workload reports which sizes were measured, which were not, and why.
type Workload struct {
	SizesMeasured []int64       `json:"sizes_measured"` // as requested
	SizesDropped  []DroppedSize `json:"sizes_dropped"`
	// Excluded lists requested timing modes and placements that do not exist for this op or on this
	// device.
	Excluded []Exclusion `json:"excluded"`
}

// Exclusion is a timing mode or placement that does not exist here.
type Exclusion struct {
	What   string        `json:"what"`   // graph, in_place, …
	Reason result.Reason `json:"reason"` // from the closed list
}

// DroppedSize is a requested size that was not measured.
type DroppedSize struct {
	Bytes  int64         `json:"bytes"`
	Reason result.Reason `json:"reason"` // from the closed list
}

// Measurement is the measured part of a collective document.
type Measurement struct {
	Op           string `json:"op"`
	DType        string `json:"dtype"`
	RedOp        string `json:"redop"`
	Root         int    `json:"root"`
	Buffers      string `json:"buffers"`      // cold, warm, shifted or fresh
	Registration string `json:"registration"` // as realised: none, local, symmetric
	// RegistrationHandle reports whether the library returned a handle; a
	// successful registration without one is a silent no-op.
	RegistrationHandle bool   `json:"registration_handle"`
	Path               string `json:"path"`       // entry point that ran: native, alltoall spelling, grouped-send-recv
	CheckedBy          string `json:"checked_by"` // device or host: where the comparison ran
	// Arithmetic is missing if nothing is reduced, and for integers, whose results are all compared bit
	// for bit.
	Arithmetic *result.Arithmetic `json:"arithmetic_as_declared,omitempty"`
	Rows       []Row              `json:"rows"`
	// Memory is missing on hosts, whose devices have no memory of their own.
	Memory *Memory `json:"device_memory,omitempty"`
	// FirstWindowAt is when the first timed window began on the last rank (ISO 8601, UTC); null if
	// there was none.
	FirstWindowAt   *string `json:"first_window_at"`
	Warmup          int     `json:"warmup"`
	Iterations      int     `json:"iterations"`
	Trials          int     `json:"trials"`
	SamplingProfile string  `json:"sampling_profile"`
}

// Memory is the device memory, in bytes, by which free memory decreased while a case was set up and ran: each
// the maximum over ranks, as nccl-tests' -M reports it. Other processes on the device affect it too.
type Memory struct {
	Communicators int64 `json:"communicators_bytes" sign:"any"` // while the library opened them
	Buffers       int64 `json:"buffers_bytes" sign:"any"`       // all buffers of the case, with their registration
	Operations    int64 `json:"operations_bytes" sign:"any"`    // while operations ran, such as the library's own buffers
}

// Row is one size and placement. Each timing mode has its own field and is never compared with
// another. Times are microseconds, bandwidths GB/s = 1e9 bytes per second.
type Row struct {
	// Key is equal exactly if two rows may be compared, timing mode by timing mode: the document's key
	// with size, placement, ranks and buffer slots; see RowKey. Older rows have none.
	Key string `json:"comparison_key,omitempty"`
	// Requested is the size of the case. Bytes is the part of it that was moved, nccl-tests' size
	// column: whole elements, and whole 16 bytes per rank if ranks have parts of a buffer.
	Requested int64  `json:"requested_bytes"`
	Bytes     int64  `json:"bytes"`
	Count     int64  `json:"count"` // nccl-tests' count column: elements (per rank for the gathering ops)
	Placement string `json:"placement" in:"placement"`
	// Src and Dst are the ranks of a pairwise operation; the times of its row are for these two only.
	// Other operations have neither.
	Src *int `json:"src,omitempty"`
	Dst *int `json:"dst,omitempty"`
	// Group has the ranks of the row, if the case has groups.
	Group []int `json:"group,omitempty"`
	// Slots is the number of buffers over which the operations of a window rotate; in place, the last
	// of them is for the last operation only. 1 means that one buffer is reused.
	Slots    int  `json:"buffer_slots"`
	Complete bool `json:"complete"` // false: the case ended before all samples of this row were taken
	// EndedAt is when the last timed window of the row had ended on the last rank (ISO 8601, UTC).
	EndedAt string `json:"ended_at,omitempty"`
	// Pipelined is host time of back-to-back operations divided by their number, one figure per trial,
	// maximum over ranks: comparable with nccl-tests.
	Pipelined *Timing `json:"pipelined,omitempty"`
	// Blocking is host time from one operation's enqueueing to its completion, each after a barrier of
	// all ranks, maximum over ranks per iteration.
	Blocking *Timing `json:"blocking,omitempty"`
	// PerIteration is an event pair around each operation, maximum over ranks per iteration.
	PerIteration *Timing `json:"per_iteration,omitempty"`
	// Graph is the pipelined operations captured once and replayed; the window excludes the first
	// launch, which uploads.
	Graph *Timing `json:"graph,omitempty"`
	Check Check   `json:"correctness"`
	// Algorithm is the one that the library reported, with its protocol, in an operation after the timed
	// windows; missing if it reported none.
	Algorithm string `json:"algorithm,omitempty" in:"algorithm"`
	// CTAs is the number of CTAs that the library reported with the algorithm.
	CTAs int `json:"ctas,omitempty"`
	// Repeatable is missing unless the case asks for it and the operation reduces.
	Repeatable *result.Repeatability `json:"repeatable,omitempty"`
}

// Timing returns the field of a timing mode; it holds nil if the row was not measured in that mode.
// For a mode outside vocab.TimingModes, which a case read from a file may name, it returns a new
// field that holds nil.
func (r *Row) Timing(mode string) **Timing {
	switch mode {
	case vocab.Pipelined:
		return &r.Pipelined
	case vocab.Blocking:
		return &r.Blocking
	case vocab.PerIteration:
		return &r.PerIteration
	case vocab.Graph:
		return &r.Graph
	default:
		return new(*Timing)
	}
}

// Timing holds the figures of one timing mode for a row.
type Timing struct {
	Percentiles result.Percentiles `json:"percentiles_us"`
	Min         float64            `json:"min_us"`
	Mean        float64            `json:"mean_us"`
	Max         float64            `json:"max_us"`
	SampleCount int                `json:"sample_count"`
	// RankMin and RankMean are medians over iterations of the fastest rank and of the mean rank.
	RankMin  float64 `json:"cross_rank_min_p50_us"`
	RankMean float64 `json:"cross_rank_mean_p50_us"`
	// Enqueue is host time per operation, from the start of a window until its last operation is
	// enqueued: the median over windows of the slowest rank. Modes that wait between operations
	// have none.
	Enqueue float64 `json:"enqueue_p50_us,omitempty"`
	AlgBW   float64 `json:"algbw_gbps"` // GB/s at p50
	BusBW   float64 `json:"busbw_gbps"` // GB/s at p50
	// RankP50 is each rank's own median, in rank order (for a pair: of its two ranks).
	RankP50   []float64         `json:"rank_p50_us,omitempty"`
	Histogram *result.Histogram `json:"histogram,omitempty"`
}

// Check is the verdict of the bitwise comparison of the buffers after the timed windows and the
// untimed one: results, inputs that must be unchanged, and buffers of ranks that receive nothing.
type Check struct {
	Passed  bool  `json:"passed"`
	Wrong   int64 `json:"wrong_elements"` // summed over ranks
	Checked int64 `json:"checked_elements"`
	// ToleranceULP is 0 if results are compared bit for bit.
	ToleranceULP int `json:"tolerance_ulp"`
	// Reasons lists the other failures of the row, from the closed list: implausible.
	Reasons result.Reasons `json:"reasons,omitempty"`
}

// Counted reports whether Wrong is the number of all wrong elements, or at least of some: not if a comparison is missing,
// or there was nothing to compare.
func (c *Check) Counted() bool { return c.Passed && c.Checked > 0 || c.Wrong > 0 }

// Good reports whether the row is complete and passed its checks.
func (r *Row) Good() bool { return r.Complete && r.Check.Passed }

// IsOf reports whether the row is for two ranks of world.
func (r Row) IsOf(world int) bool {
	return r.Src != nil && r.Dst != nil && *r.Src != *r.Dst && min(*r.Src, *r.Dst) >= 0 && max(*r.Src, *r.Dst) < world
}

// between names the ranks of a row that is not for all ranks.
func (r Row) between() string {
	if r.Group != nil {
		return fmt.Sprintf(", ranks %v", r.Group)
	}
	if r.Src == nil || r.Dst == nil {
		return ""
	}
	return fmt.Sprintf(", rank %d to %d", *r.Src, *r.Dst)
}
