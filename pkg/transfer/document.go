package transfer

import (
	"fmt"
	"math"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// Document answers a transfer case.
type Document struct {
	result.Envelope
	Workload    Workload    `json:"workload"`
	Measurement Measurement `json:"measurement"`
}

// Workload is the requested grid.
type Workload struct {
	Preset         string      `json:"preset"` // the cache's name
	ISLLadder      plan.Ladder `json:"isl_ladder"`
	PageTokens     plan.Ladder `json:"page_tokens"`
	BatchSizes     plan.Ladder `json:"batch_sizes"`
	Ops            Words       `json:"ops"`
	Seed           uint64      `json:"seed"`
	MaxBurstTokens int         `json:"max_burst_tokens"`
	// RowBytes is the largest entry of the cache in bytes, the minimum content of a page. Older documents
	// lack it.
	RowBytes int64 `json:"row_bytes,omitempty"`
	// Dropped lists the points of the grid that exceed a limit of the case.
	Dropped []DroppedPoint `json:"dropped"`
}

// DroppedPoint is a requested point that was not measured.
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
	// Points reports, by context length, which bursts were measured and how many disjoint block tables
	// they rotated over.
	Points []Points `json:"points"`
	// PoolBudget is the maximum size of a pool on this machine, in bytes.
	PoolBudget int64 `json:"pool_budget"`
	// Lane is what moved the data, as the backend itself observed it; empty if no rank got so far.
	Lane string `json:"lane"`
	// LaneUnverified: Lane is what the library was configured for, and no counter was there to verify it.
	LaneUnverified bool `json:"lane_unverified,omitempty"`
	// Transport is the library's name for the lane, such as P2P/CUMEM, or the handle by which rank 1 opened
	// the pool of rank 0 (ipc, vmm); missing if the library does not report it. Several are joined by
	// "+".
	Transport string `json:"transport,omitempty"`
	// TwoSided: both ranks post each request, and times are the slower rank's.
	TwoSided bool `json:"two_sided,omitempty"`
	// CheckedBy is where the comparison ran: host or device.
	CheckedBy string `json:"checked_by"`
	// Setup is missing if no rank got so far.
	Setup *Setup `json:"setup,omitempty"`
	// First holds the time of small transfers, by operation and size.
	First []First `json:"first"`
	// Sustained holds the rate of back-to-back bursts, by operation.
	Sustained []Sustained `json:"sustained"`
	// Released is the verdict on the destinations after all requests were released: they were repainted,
	// and must not have changed 100 ms later.
	Released []Released `json:"released"`
	// Fit is the time of a paged burst as a function of its blocks and bytes, by operation. It is missing
	// for an operation whose rows do not determine all three parameters.
	Fit []Fit `json:"fit"`
}

// SampleCounts holds the sample counts that the case requests.
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

// Setup holds the one-time costs before the first burst.
type Setup struct {
	PoolBytes int64 `json:"pool_bytes"` // of each rank
	// RegisterMillis is the slower rank's time to make its pool accessible to the other;
	// RegisterMillisPerGiB is the same per GiB of the pool.
	RegisterMillis       float64 `json:"register_ms"`
	RegisterMillisPerGiB float64 `json:"register_ms_per_gib"`
	// ConnectMillis is rank 1's time from receiving the metadata of the other pool to the end of the first
	// transfer, of 8 bytes.
	ConnectMillis float64 `json:"connect_ms"`
}

// First is the time of a transfer that is too small for the rate to matter.
type First struct {
	Op     string       `json:"op" in:"transfer op"`
	Bytes  int64        `json:"bytes"`
	Millis result.Burst `json:"latency_ms"`
	// Verify is the verdict on the checked transfers: in older documents, the last one and one more. Still
	// older ones lack it.
	Verify *result.Verify `json:"verify,omitempty"`
}

// Sustained is the rate of back-to-back bursts of the last point.
type Sustained struct {
	Op       string  `json:"op" in:"transfer op"`
	InFlight int     `json:"in_flight"` // bursts posted but not completed
	Bursts   int     `json:"bursts"`
	Bytes    int64   `json:"bytes"` // of all bursts
	Seconds  float64 `json:"seconds"`
	GBps     float64 `json:"gbps"`
	// CPU is processor seconds per GB of both processes, and of the one that posts.
	CPU       float64 `json:"cpu_s_per_gb"`
	CPUPoster float64 `json:"cpu_s_per_gb_poster"`
	// Parts is in how many parts the bursts were posted, each up to a random point. The time between them
	// does not count. Older documents lack it.
	Parts int `json:"parts,omitempty"`
	// Verify is the verdict on the results of the last bursts of each part. Older documents have one part
	// and, if there are four checks, another round of bursts after it.
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
	GBps       float64 `json:"gbps"`
	Points     int     `json:"points"`
	MaxPercent float64 `json:"max_residual_percent"`
}

// residual returns the number of rows of the fit, and by how many percent it misses the median of one at most.
func (f Fit) residual(rows []Row) (points int, percent float64) {
	for i := range rows {
		r := &rows[i]
		if r.Op != f.Op || r.Kind != KindPaged || !r.Verify.Passed || r.Latency.P50 <= 0 {
			continue
		}
		points++
		us, predicted := r.Latency.P50*1e3, f.Alpha+f.Beta*float64(r.Descs*r.Batch)
		if f.GBps > 0 {
			predicted += float64(r.ReqBytes) * float64(r.Batch) / f.GBps / 1e3
		}
		percent = max(percent, 100*math.Abs(predicted-us)/us)
	}
	return points, percent
}

// Refuted returns why the fit does not describe its rows, or "". A fit is refuted if it misses a median by
// 10 % or more, if time does not grow with the bytes, or if its rate exceeds the peak of the link or
// network. Older documents have such fits.
func (f Fit) Refuted(limits []result.Limit) string {
	var peak float64 // 0: unknown
	for _, l := range limits {
		if l.Of != result.LimitMemory {
			peak = max(peak, l.GBps)
		}
	}
	switch {
	case f.MaxPercent >= 10:
		return fmt.Sprintf("a median is %.0f %% off", f.MaxPercent)
	case f.GBps == 0:
		return "time does not grow with the bytes"
	case peak > 0 && f.GBps > peak:
		return fmt.Sprintf("%.0f GB/s exceed the %.0f GB/s of the link", f.GBps, peak)
	}
	return ""
}

// Row is one point and operation.
type Row struct {
	Kind   string `json:"kind" in:"row kind"`
	Preset string `json:"preset"`
	ISL    int    `json:"isl"`
	// PageTokens, and PageBytes (the bytes of the largest block), are null in bulk rows.
	PageTokens *int   `json:"page_tokens"`
	PageBytes  *int64 `json:"page_bytes"`
	// RowBytes is PageBytes under the name used by newer readers. Bulk rows and older documents lack it.
	RowBytes *int64 `json:"row_bytes,omitempty"`
	Layers   int    `json:"layers"`
	// Descs is the number of blocks of one request, and DescsMerged their number after merging blocks that
	// are adjacent on both sides.
	Descs       int    `json:"descs"`
	DescsMerged int    `json:"descs_merged"`
	ReqBytes    int64  `json:"req_bytes"`
	Batch       int    `json:"batch"` // requests of the burst
	Op          string `json:"op" in:"transfer op"`
	// Latency is the time of a burst, from preparing its first request to the end of its last. Request is
	// the time of each request, from the start of the burst until a wait for it ended; waits are in the
	// order of posting.
	Latency result.Burst `json:"latency_ms"`
	Request result.Burst `json:"request_ms"`
	// Parts holds medians of the phases of a burst, each summed over its requests.
	Parts Parts `json:"parts_ms"`
	// GBps is req_bytes x batch at the median latency. Older documents round it to 0.01.
	GBps float64 `json:"gbps_p50"`
	// GBpsPrepared includes the time of preparing requests, which is part of the latency, and thus equals
	// GBps. Older documents lack it.
	GBpsPrepared float64       `json:"gbps_p50_incl_prep,omitempty"`
	Complete     bool          `json:"complete"` // false: the case ended before all samples were taken
	Verify       result.Verify `json:"verify"`
}

// Good reports whether the row is complete and passed its checks.
func (r *Row) Good() bool { return r.Complete && r.Verify.Passed }

// Rate returns req_bytes x batch at the median latency, in GB/s; 0 without a latency.
func (r *Row) Rate() float64 {
	if r.Latency.P50 <= 0 {
		return 0
	}
	return float64(r.ReqBytes) * float64(r.Batch) / r.Latency.P50 / 1e6
}

// Parts holds the times of the phases of a burst.
type Parts struct {
	Prepare float64 `json:"prepare_p50"` // preparing requests, including descriptor lists
	Post    float64 `json:"post_p50"`    // posting; a synchronous backend moves the data here
	Wait    float64 `json:"wait_p50"`
	Release float64 `json:"release_p50"` // after the clock of the burst has stopped
}

// Name describes the row, such as pull paged 128 tokens, pages of 16, batch 4.
func (r *Row) Name() string {
	text := fmt.Sprintf("%s %s %d tokens", r.Op, r.Kind, r.ISL)
	if r.PageTokens != nil {
		text += fmt.Sprintf(", pages of %d", *r.PageTokens)
	}
	return text + fmt.Sprintf(", batch %d", r.Batch)
}
