package transfer

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// Document answers a transfer case.
type Document struct {
	result.Envelope
	Workload    Workload    `json:"workload"`
	Measurement Measurement `json:"measurement"`
}

// Workload is the grid that was asked for, as existing readers know it.
type Workload struct {
	Preset         string      `json:"preset"` // the cache's name
	ISLLadder      plan.Ladder `json:"isl_ladder"`
	PageTokens     plan.Ladder `json:"page_tokens"`
	BatchSizes     plan.Ladder `json:"batch_sizes"`
	Ops            Words       `json:"ops"`
	Seed           uint64      `json:"seed"`
	MaxBurstTokens int         `json:"max_burst_tokens"`
	// RowBytes is the largest entry of the cache in bytes, which a page holds at least. Older
	// documents lack it.
	RowBytes int64 `json:"row_bytes,omitempty"`
	// Dropped lists the points of the grid that exceed a limit of the case.
	Dropped []DroppedPoint `json:"dropped"`
}

// DroppedPoint is a point that was asked for and not measured.
type DroppedPoint struct {
	ISL        int           `json:"isl"`
	PageTokens int           `json:"page_tokens"`
	Batch      int           `json:"batch"`
	Reason     result.Reason `json:"reason"` // from the closed list
}

// Measurement is the measured part of a transfer document. Times are milliseconds,
// rates GB/s = 1e9 bytes per second. All clocks are the host's, on rank 1.
type Measurement struct {
	PayloadUnit string       `json:"payload_unit" in:"payload of requests"`
	Rows        []Row        `json:"rows"`
	Sampling    SampleCounts `json:"sampling"`
	// Points says, by context length, which bursts were measured and how many disjoint
	// tables of blocks they took turns with.
	Points []Points `json:"points"`
	// PoolBudget is the most bytes that a pool could have on this machine.
	PoolBudget int64 `json:"pool_budget"`
	// Lane is what moved the data, as the backend itself observed it; empty if no rank
	// got so far.
	Lane string `json:"lane"`
	// Transport is what the library calls the lane, such as P2P/CUMEM, or the handle by which rank
	// 1 opened the pool of rank 0 (ipc, vmm); missing if it does not say. Several are joined by
	// "+".
	Transport string `json:"transport,omitempty"`
	// TwoSided says that both ranks post each request, and that a time is the slower rank's.
	TwoSided bool `json:"two_sided,omitempty"`
	// CheckedBy is where the comparison ran: host or device.
	CheckedBy string `json:"checked_by"`
	// Setup is missing if no rank got so far.
	Setup *Setup `json:"setup,omitempty"`
	// First has the time of small transfers, by operation and size.
	First []First `json:"first"`
	// Sustained has the rate of bursts that follow each other, by operation.
	Sustained []Sustained `json:"sustained"`
	// Released is the verdict on the destinations after all requests were released: they
	// were repainted, and nothing may have changed them 100 ms later.
	Released []Released `json:"released"`
	// Fit is the time of a paged burst as a function of its blocks and bytes, by operation.
	// An operation whose rows do not tell the three apart has none.
	Fit []Fit `json:"fit"`
}

// SampleCounts is the sample counts as the case asks for them.
type SampleCounts struct {
	Warmup int `json:"warmup_per_trial"`
	Reps   int `json:"reps_per_trial"`
	Trials int `json:"trials"`
}

// Points are the bursts of one context length and page size.
type Points struct {
	ISL        int   `json:"isl"`
	PageTokens int   `json:"page_tokens"`
	Batches    []int `json:"batches"`
	TableSets  []int `json:"table_sets"` // of each batch
}

// Setup is what happens once, before the first burst.
type Setup struct {
	PoolBytes int64 `json:"pool_bytes"` // of each rank
	// RegisterMillis is the slower rank's time to make its pool accessible to the other;
	// RegisterMillisPerGiB divides it by the size of the pool.
	RegisterMillis       float64 `json:"register_ms"`
	RegisterMillisPerGiB float64 `json:"register_ms_per_gib"`
	// ConnectMillis is rank 1's time from having the metadata of the other pool to the end
	// of the first transfer, of 8 bytes.
	ConnectMillis float64 `json:"connect_ms"`
}

// First is how long a transfer takes that is too small for the rate to matter.
type First struct {
	Op     string       `json:"op" in:"transfer op"`
	Bytes  int64        `json:"bytes"`
	Millis result.Burst `json:"latency_ms"`
	// Verify is the verdict on what the last transfer left, and on one more. Older documents lack
	// it.
	Verify *result.Verify `json:"verify,omitempty"`
}

// Sustained is the rate of bursts of the last point, posted one after the other.
type Sustained struct {
	Op       string  `json:"op" in:"transfer op"`
	InFlight int     `json:"in_flight"` // bursts posted and not waited for
	Bursts   int     `json:"bursts"`
	Bytes    int64   `json:"bytes"` // of all bursts
	Seconds  float64 `json:"seconds"`
	GBps     float64 `json:"gbps"`
	// CPU is processor seconds per GB of both processes, and of the one that posts.
	CPU       float64 `json:"cpu_s_per_gb"`
	CPUPoster float64 `json:"cpu_s_per_gb_poster"`
	// Verify is the verdict on what the last bursts left and, since it has four checks, on a round
	// of bursts after them.
	Verify result.Verify `json:"verify"`
}

// Released is the verdict on one destination.
type Released struct {
	Op     string        `json:"op" in:"transfer op"`
	Verify result.Verify `json:"verify"`
}

// Fit is t = alpha + beta x blocks + bytes / rate, fitted to the medians of the
// paged rows of an operation by least squares of relative errors.
type Fit struct {
	Op         string  `json:"op" in:"transfer op"`
	Alpha      float64 `json:"alpha_us"`
	Beta       float64 `json:"beta_us_per_block"`
	GBps       float64 `json:"gbps"` // 0: the bytes explain nothing
	Points     int     `json:"points"`
	MaxPercent float64 `json:"max_residual_percent"`
}

// Reliable reports whether the fit describes its rows: no median is 10 % or more off. Only then
// does Beta say what a block costs.
func (f Fit) Reliable() bool { return f.MaxPercent < 10 }

// Row is one point and operation.
type Row struct {
	Kind   string `json:"kind" in:"row kind"`
	Preset string `json:"preset"`
	ISL    int    `json:"isl"`
	// PageTokens and PageBytes, the bytes of the largest block, are null in bulk rows.
	PageTokens *int   `json:"page_tokens"`
	PageBytes  *int64 `json:"page_bytes"`
	// RowBytes is PageBytes as newer readers know it. Bulk rows and older documents lack it.
	RowBytes *int64 `json:"row_bytes,omitempty"`
	Layers   int    `json:"layers"`
	// Descs is the blocks of one request, and DescsMerged what is left of them when those
	// that follow each other on both sides are merged.
	Descs       int    `json:"descs"`
	DescsMerged int    `json:"descs_merged"`
	ReqBytes    int64  `json:"req_bytes"`
	Batch       int    `json:"batch"` // requests of the burst
	Op          string `json:"op" in:"transfer op"`
	// Latency is of a burst, from making the handle of its first request to the end of its
	// last. Request is of each request, from the start of the burst until a wait for it
	// ended; they are waited for in the order of posting.
	Latency result.Burst `json:"latency_ms"`
	Request result.Burst `json:"request_ms"`
	// Parts are medians of parts of a burst, each summed over its requests.
	Parts Parts `json:"parts_ms"`
	// GBps is req_bytes x batch at the median latency. Older documents round it to 0.01.
	GBps float64 `json:"gbps_p50"`
	// GBpsPrepared is the same with the time of making handles, which is part of the latency:
	// it is GBps. Older documents lack it.
	GBpsPrepared float64       `json:"gbps_p50_incl_prep,omitempty"`
	Complete     bool          `json:"complete"` // false: the case ended before all samples were taken
	Verify       result.Verify `json:"verify"`
}

// Good reports whether the row is complete and passed its checks.
func (r *Row) Good() bool { return r.Complete && r.Verify.Passed }

// Rate is req_bytes x batch at the median latency, in GB/s; 0 without one.
func (r *Row) Rate() float64 {
	if r.Latency.P50 <= 0 {
		return 0
	}
	return float64(r.ReqBytes) * float64(r.Batch) / r.Latency.P50 / 1e6
}

// Parts are parts of a burst.
type Parts struct {
	Prepare float64 `json:"prepare_p50"` // making handles, descriptor lists included
	Post    float64 `json:"post_p50"`    // posting; a synchronous backend moves the data here
	Wait    float64 `json:"wait_p50"`
	Release float64 `json:"release_p50"` // after the clock of the burst has stopped
}

// Name says which row it is, such as pull paged 128 tokens, pages of 16, batch 4.
func (r *Row) Name() string {
	text := fmt.Sprintf("%s %s %d tokens", r.Op, r.Kind, r.ISL)
	if r.PageTokens != nil {
		text += fmt.Sprintf(", pages of %d", *r.PageTokens)
	}
	return text + fmt.Sprintf(", batch %d", r.Batch)
}
