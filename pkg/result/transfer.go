package result

import (
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/plan"
)

// TransferDocument answers a transfer case.
type TransferDocument struct {
	Envelope
	Workload    TransferWorkload    `json:"workload"`
	Measurement TransferMeasurement `json:"measurement"`
}

// TransferWorkload is the grid that was asked for, as existing readers know it.
type TransferWorkload struct {
	Preset         string      `json:"preset"` // the cache's name
	ISLLadder      plan.Ladder `json:"isl_ladder"`
	PageTokens     plan.Ladder `json:"page_tokens"`
	BatchSizes     plan.Ladder `json:"batch_sizes"`
	Ops            plan.Words  `json:"ops"`
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
	ISL        int    `json:"isl"`
	PageTokens int    `json:"page_tokens"`
	Batch      int    `json:"batch"`
	Reason     Reason `json:"reason"` // from the closed list
}

// TransferMeasurement is the measured part of a transfer document. Times are milliseconds,
// rates GB/s = 1e9 bytes per second. All clocks are the host's, on rank 1.
type TransferMeasurement struct {
	PayloadUnit string           `json:"payload_unit" in:"payload of requests"`
	Rows        []TransferRow    `json:"rows"`
	Sampling    TransferSampling `json:"sampling"`
	// Points says, by context length, which bursts were measured and how many disjoint
	// tables of blocks they took turns with.
	Points []TransferPoints `json:"points"`
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
	Setup *TransferSetup `json:"setup,omitempty"`
	// First has the time of small transfers, by operation and size.
	First []TransferFirst `json:"first"`
	// Sustained has the rate of bursts that follow each other, by operation.
	Sustained []TransferSustained `json:"sustained"`
	// Released is the verdict on the destinations after all requests were released: they
	// were repainted, and nothing may have changed them 100 ms later.
	Released []TransferReleased `json:"released"`
	// Fit is the time of a paged burst as a function of its blocks and bytes, by operation.
	// An operation whose rows do not tell the three apart has none.
	Fit []TransferFit `json:"fit"`
}

// TransferSampling is the sample counts as the case asks for them.
type TransferSampling struct {
	Warmup int `json:"warmup_per_trial"`
	Reps   int `json:"reps_per_trial"`
	Trials int `json:"trials"`
}

// TransferPoints are the bursts of one context length and page size.
type TransferPoints struct {
	ISL        int   `json:"isl"`
	PageTokens int   `json:"page_tokens"`
	Batches    []int `json:"batches"`
	TableSets  []int `json:"table_sets"` // of each batch
}

// TransferSetup is what happens once, before the first burst.
type TransferSetup struct {
	PoolBytes int64 `json:"pool_bytes"` // of each rank
	// RegisterMillis is the slower rank's time to make its pool accessible to the other;
	// RegisterMillisPerGiB divides it by the size of the pool.
	RegisterMillis       float64 `json:"register_ms"`
	RegisterMillisPerGiB float64 `json:"register_ms_per_gib"`
	// ConnectMillis is rank 1's time from having the metadata of the other pool to the end
	// of the first transfer, of 8 bytes.
	ConnectMillis float64 `json:"connect_ms"`
}

// TransferFirst is how long a transfer takes that is too small for the rate to matter.
type TransferFirst struct {
	Op     string `json:"op" in:"transfer op"`
	Bytes  int64  `json:"bytes"`
	Millis Burst  `json:"latency_ms"`
	// Verify is the verdict on what the last transfer left, and on one more. Older documents lack
	// it.
	Verify *TransferVerify `json:"verify,omitempty"`
}

// TransferSustained is the rate of bursts of the last point, posted one after the other.
type TransferSustained struct {
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
	Verify TransferVerify `json:"verify"`
}

// TransferReleased is the verdict on one destination.
type TransferReleased struct {
	Op     string         `json:"op" in:"transfer op"`
	Verify TransferVerify `json:"verify"`
}

// TransferFit is t = alpha + beta x blocks + bytes / rate, fitted to the medians of the
// paged rows of an operation by least squares of relative errors.
type TransferFit struct {
	Op         string  `json:"op" in:"transfer op"`
	Alpha      float64 `json:"alpha_us"`
	Beta       float64 `json:"beta_us_per_block"`
	GBps       float64 `json:"gbps"` // 0: the bytes explain nothing
	Points     int     `json:"points"`
	MaxPercent float64 `json:"max_residual_percent"`
}

// Reliable reports whether the fit describes its rows: no median is 10 % or more off. Only then
// does Beta say what a block costs.
func (f TransferFit) Reliable() bool { return f.MaxPercent < 10 }

// TransferRow is one point and operation.
type TransferRow struct {
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
	Latency Burst `json:"latency_ms"`
	Request Burst `json:"request_ms"`
	// Parts are medians of parts of a burst, each summed over its requests.
	Parts TransferParts `json:"parts_ms"`
	// GBps is req_bytes x batch at the median latency. Older documents round it to 0.01.
	GBps float64 `json:"gbps_p50"`
	// GBpsPrepared is the same with the time of making handles, which is part of the latency:
	// it is GBps. Older documents lack it.
	GBpsPrepared float64        `json:"gbps_p50_incl_prep,omitempty"`
	Complete     bool           `json:"complete"` // false: the case ended before all samples were taken
	Verify       TransferVerify `json:"verify"`
}

// Rate is req_bytes x batch at the median latency, in GB/s; 0 without one.
func (r *TransferRow) Rate() float64 {
	if r.Latency.P50 <= 0 {
		return 0
	}
	return float64(r.ReqBytes) * float64(r.Batch) / r.Latency.P50 / 1e6
}

// TransferParts are parts of a burst.
type TransferParts struct {
	Prepare float64 `json:"prepare_p50"` // making handles, descriptor lists included
	Post    float64 `json:"post_p50"`    // posting; a synchronous backend moves the data here
	Wait    float64 `json:"wait_p50"`
	Release float64 `json:"release_p50"` // after the clock of the burst has stopped
}

// Burst describes samples as existing readers expect: p50 is sorted[n/2], p95
// sorted[min(n-1, int(0.95 n))].
type Burst struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	Min float64 `json:"min"`
	Max float64 `json:"max"`
	N   int     `json:"n"`
}

// NewBurst describes samples in milliseconds; there must be some.
func NewBurst(samples []float64) Burst {
	s := slices.Sorted(slices.Values(samples))
	n := len(s)
	return Burst{P50: s[n/2], P95: s[min(n-1, int(0.95*float64(n)))], Min: s[0], Max: s[n-1], N: n}
}

// TransferVerify is the verdict on the words that checked bursts left in both pools: each
// word names the pool, the burst and the place that it comes from.
type TransferVerify struct {
	Passed bool `json:"passed"`
	// Detail says in one line what was checked, or the class and place of the first wrong
	// word.
	Detail  string        `json:"detail"`
	Checks  int           `json:"checks"` // of a pool after a burst
	Checked int64         `json:"checked_words"`
	Wrong   TransferWrong `json:"wrong_words"`
}

// TransferWrong counts wrong words by what is wrong with them.
type TransferWrong struct {
	NotWritten int64 `json:"not_written"` // still what the destination was painted with
	Stale      int64 `json:"stale"`       // from an earlier burst
	Misplaced  int64 `json:"misplaced"`   // from another place of the source
	Torn       int64 `json:"torn"`        // of a block of which other words arrived
	Late       int64 `json:"late"`        // changed after the notification, or after the release
	Guard      int64 `json:"guard"`       // of the destination, outside of all blocks of the burst
	Source     int64 `json:"source"`      // of the source, which must not change
	Corrupted  int64 `json:"corrupted"`   // names no place that it can come from
}

// Classes lists the classes with their counts, in the order in which a verdict names
// them.
func (w *TransferWrong) Classes() []WrongClass {
	return []WrongClass{
		{"torn", &w.Torn},
		{"stale", &w.Stale},
		{"misplaced", &w.Misplaced},
		{"not written", &w.NotWritten},
		{"corrupted", &w.Corrupted},
		{"guard", &w.Guard},
		{"source", &w.Source},
		{"late", &w.Late},
	}
}

// WrongClass is a class of wrong words.
type WrongClass struct {
	Name  string
	Count *int64
}

// Add adds the counts of o.
func (w *TransferWrong) Add(o TransferWrong) {
	from := o.Classes()
	for i, to := range w.Classes() {
		*to.Count += *from[i].Count
	}
}

// Total sums the classes.
func (w TransferWrong) Total() (n int64) {
	for _, c := range w.Classes() {
		n += *c.Count
	}
	return n
}

// Name says which row it is, such as pull paged 128 tokens, pages of 16, batch 4.
func (r *TransferRow) Name() string {
	text := fmt.Sprintf("%s %s %d tokens", r.Op, r.Kind, r.ISL)
	if r.PageTokens != nil {
		text += fmt.Sprintf(", pages of %d", *r.PageTokens)
	}
	return text + fmt.Sprintf(", batch %d", r.Batch)
}
