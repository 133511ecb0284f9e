package ep

import (
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// Availability and origin of a component, as written to documents.
const (
	Measured    = "measured"
	Derived     = "derived"
	Unavailable = "unavailable"

	OriginMeasured       = "measured"
	OriginPercentileSum  = "derived-percentile-sum"
	OriginChainedMedian  = "chained-median"
	OriginChainedMiddle  = "chained-middle-mean"
	OriginChainedRankMin = "chained-cross-rank-min"
	OriginGraphReplay    = "cuda-graph-replay" // fresh entries of replayed graphs
)

// Copies that a layout sends: one for each destination rank of a token, or one for each expert.
const (
	WirePerRank       = "rank-deduplicated"
	WirePerAssignment = "per-assignment"
)

// Factors holds the twenty factors of an EP case.
type Factors struct {
	Backend           string      `json:"backend"`
	EP                int         `json:"ep"`
	Experts           int         `json:"experts"`
	GPUsPerNode       int         `json:"gpus_per_node"`
	Hidden            int         `json:"hidden"`
	Ladder            plan.Ladder `json:"ladder"` // the measured one
	Mode              string      `json:"mode"`
	Nodes             int         `json:"nodes"`
	Phase             string      `json:"phase"`
	Precision         string      `json:"precision"`
	Routing           string      `json:"routing"`
	ScaleUpDomain     int         `json:"scale_up_domain"`
	ScaleUpTransport  string      `json:"scale_up_transport"`
	ScaleOutTransport *string     `json:"scale_out_transport"`
	Scope             string      `json:"scope"`
	Suite             string      `json:"suite"`
	TopK              int         `json:"topk"`
	TopologyClass     string      `json:"topology_class"`
	Transport         string      `json:"transport"`
	Workload          string      `json:"workload"`
}

// Document answers an EP case.
type Document struct {
	result.Envelope
	Workload    Workload    `json:"workload"`
	Measurement Measurement `json:"measurement"`
}

// Workload reports which rungs were measured, and whether all ranks had the same routing trace.
type Workload struct {
	CrossRankConsistent bool  `json:"cross_rank_consistent"`
	LadderMeasured      []int `json:"ladder_measured"`
	LadderDropped       []int `json:"ladder_dropped"`
	LadderCap           *int  `json:"ladder_cap"`
	// EPLB describes the replicas of a routing over replicated experts.
	EPLB *Placement `json:"eplb,omitempty"`
}

// Placement is a placement of replicated experts. The imbalances are the load of the most loaded
// rank divided by the mean load of a rank, in the trace of the largest rung.
type Placement struct {
	Slots           int     `json:"slots"` // expert slots of all ranks; rows count load by slot
	ImbalanceBefore float64 `json:"imbalance_before"`
	ImbalanceAfter  float64 `json:"imbalance_after"`
	MappingSHA256   string  `json:"mapping_sha256"` // over the expert of each slot, int64 little-endian
}

// Measurement is the measured part of an EP document.
type Measurement struct {
	DispatchDType    string       `json:"dispatch_dtype"`
	CombineDType     string       `json:"combine_dtype" in:"combine dtype"`
	CombineSemantics string       `json:"combine_semantics" in:"combine semantics"` // activation-only
	PayloadUnit      string       `json:"payload_unit" in:"payload unit"`           // token-rank
	Rows             []Row        `json:"rows"`
	Sampling         SampleCounts `json:"sampling"`
}

// SampleCounts reports how many samples a row is based on.
type SampleCounts struct {
	Profile                 string `json:"profile"`
	IterationsPerTrial      int    `json:"iterations_per_trial"`
	Trials                  int    `json:"trials"`
	SamplesPerComponent     int    `json:"samples_per_component"`
	WarmupIterations        int    `json:"warmup_iterations"`
	ChainIterationsPerTrial int    `json:"chain_iterations_per_trial"`
	ChainTrials             int    `json:"chain_trials"`
	ChainDrop               int    `json:"chain_drop"`
}

// Component is one timed quantity, microseconds.
type Component struct {
	Availability string              `json:"availability" in:"availability"`
	Origin       *string             `json:"origin" in:"origin"`
	Percentiles  *result.Percentiles `json:"percentiles_us"`
	SampleCount  int                 `json:"sample_count"`
}

// Row is one rung of the ladder. Byte and copy counts are sums over the EP world.
type Row struct {
	TokensPerRank int        `json:"tokens_per_rank"`
	GlobalTokens  int        `json:"global_tokens"`
	Complete      bool       `json:"complete"` // false: the case ended before all samples of this row were taken
	Components    Components `json:"components"`
	// PairMiddle is the pair period with the mean of the two ranks in the middle. Older documents lack
	// it.
	PairMiddle  *Component `json:"pair_period_middle_mean_us,omitempty"`
	ChainFloor  Ops        `json:"chain_floor_us"`
	ChainHealth Health     `json:"chain_health"`
	RankMin     Fresh      `json:"cross_rank_min_us"`
	RankSpread  Component  `json:"cross_rank_spread_us"` // of roundtrip
	Correctness Check      `json:"correctness"`
	// Arithmetic is the verdict on sums that reveal the type and order of combine's accumulation.
	// Its errors are in units in the last place of bf16. Correctness and the outcome do not depend
	// on it. It is missing where the case ended early, and in older documents.
	Arithmetic *result.Arithmetic `json:"arithmetic_as_declared,omitempty"`
	// Repeatable is missing unless the case asks for it. The outcome does not depend on it.
	Repeatable *result.Repeatability `json:"repeatable,omitempty"`
	// Bytes counts each token once for each destination rank.
	Bytes Bytes `json:"byte_provenance"`
	// WireBytes counts the bytes that the received layout makes an implementation send: each token
	// once for each of its experts where LogicalCopies.Wire is per-assignment, else as Bytes. It is
	// the basis of rates. Older documents lack it.
	WireBytes     *Bytes              `json:"wire_byte_provenance,omitempty"`
	LogicalCopies Copies              `json:"logical_copies"`
	Receive       Receive             `json:"receive"`
	TokenRate     *result.Percentiles `json:"token_rate_at_latency_percentile"` // tokens/s
	RoutingStats  Routing             `json:"routing"`
	// Histograms of the pooled samples by component.
	Histograms map[string]result.Histogram `json:"histograms,omitempty"`
}

// Good reports whether the row is complete and passed its checks.
func (r *Row) Good() bool { return r.Complete && r.Correctness.Passed }

// Wire returns the bytes on which rates are based: WireBytes, or Bytes in older documents.
func (r *Row) Wire() Bytes {
	if r.WireBytes != nil {
		return *r.WireBytes
	}
	return r.Bytes
}

// Components are the timed components of a row.
type Components struct {
	Dispatch    Component `json:"dispatch"`
	Combine     Component `json:"combine"`
	Roundtrip   Component `json:"roundtrip"`
	Stage       Component `json:"stage"`
	IsolatedSum Component `json:"isolated_sum"`
	// PairPeriod is of the median rank of each pair: with an even number of ranks, the lower of the
	// two in the middle, as CollectiveX defines it.
	PairPeriod Component `json:"pair_period"`
}

// Ops holds a figure for each op of a chained pair.
type Ops struct {
	Dispatch Component `json:"dispatch"`
	Combine  Component `json:"combine"`
}

// Fresh holds a figure for each fresh-entry window.
type Fresh struct {
	Dispatch  Component `json:"dispatch"`
	Combine   Component `json:"combine"`
	Roundtrip Component `json:"roundtrip"`
}

// Health reports whether a chain was steady.
type Health struct {
	PairSpread   Component `json:"pair_spread_us"`
	InterpairGap Component `json:"interpair_gap_us"`
	SettleDrift  Component `json:"settle_drift_us"`
}

// Check is the verdict of the oracle on a row. Errors are null where there is no finite value.
type Check struct {
	Passed                bool     `json:"passed"`
	MaxRelativeError      *float64 `json:"max_relative_error"`
	PostChainPassed       bool     `json:"post_chain_state_passed"`
	ChainLastOutputPassed *bool    `json:"chain_last_output_passed"`
	ChainLastOutputError  *float64 `json:"chain_last_output_error"`
	// OraclePassed reports the moments at which every rank's oracle ran and found nothing, and
	// OracleFailed the checks that failed on any rank. Older documents lack both.
	OraclePassed *OraclePassed `json:"oracle_passed,omitempty"`
	OracleFailed *OracleFailed `json:"oracle_failed_checks,omitempty"`
	// The three fields below apply to replayed graphs only. GraphRewritten: launches over NaN
	// wrote the whole output. GraphOutputPassed: that output matches an eager pair.
	GraphRewritten    *bool    `json:"cuda_graph_output_rewritten,omitempty"`
	GraphOutputPassed *bool    `json:"cuda_graph_last_output_passed,omitempty"`
	GraphOutputError  *float64 `json:"cuda_graph_last_output_error,omitempty"`
	// Reasons name the checks that failed, from the closed list.
	Reasons result.Reasons `json:"reasons,omitempty"`
}

// OraclePassed is the oracle's verdict before all timing, on the state after the chains, and on
// everything else: the state after the fresh-entry windows, the alternating calls and all timing.
type OraclePassed struct {
	Pre     bool `json:"pre"`
	Chained bool `json:"chained"`
	Post    bool `json:"post"`
}

// OracleFailed lists the failed checks, sorted, at the moments of OraclePassed.
type OracleFailed struct {
	Pre     []string `json:"pre"`
	Chained []string `json:"chained"`
	Post    []string `json:"post"`
}

// Bytes is the logical payload of each op.
type Bytes struct {
	Dispatch  ByteCount `json:"dispatch"`
	Combine   ByteCount `json:"combine"`
	Stage     ByteCount `json:"stage"`
	Roundtrip ByteCount `json:"roundtrip"`
}

// ByteCount is logical bytes over the EP world.
type ByteCount struct {
	Activation int64 `json:"activation_data_bytes"`
	Scale      int64 `json:"scale_bytes"`
	Total      int64 `json:"total_logical_bytes"`
}

// PerGPU returns the bandwidth of one rank of world, in GB/s = 1e9 bytes per second, if all ranks
// take us microseconds; 0 without a time or ranks.
func (b ByteCount) PerGPU(us float64, world int) float64 {
	if us <= 0 || world == 0 {
		return 0
	}
	return float64(b.Total) / (us * 1e-6) / float64(world) / 1e9
}

// Copies counts logical copies. Wire is per-assignment or rank-deduplicated.
type Copies struct {
	Routed      int64  `json:"routed"`
	Assignments int64  `json:"assignments"`
	Wire        string `json:"wire" in:"wire"`
}

// Receive holds statistics over ranks of the rows that the first oracle saw.
type Receive struct {
	Min   int     `json:"min"`
	Mean  float64 `json:"mean"`
	Max   int     `json:"max"`
	Total int     `json:"total"`
}

// Routing describes a row's routing trace.
type Routing struct {
	FanoutMean               float64 `json:"fanout_mean"`
	FanoutMin                int     `json:"fanout_min"`
	FanoutMax                int     `json:"fanout_max"`
	FanoutHistogram          []int   `json:"fanout_histogram"`
	RoutedCopies             int64   `json:"routed_copies"`
	PayloadCopiesPerRank     []int64 `json:"payload_copies_per_rank"`
	PayloadRankCV            float64 `json:"payload_rank_cv"`
	ExpertAssignmentsPerRank []int64 `json:"expert_assignments_per_rank"`
	ExpertAssignmentRankCV   float64 `json:"expert_assignment_rank_cv"`
	ExpertLoadMin            int64   `json:"expert_load_min"`
	ExpertLoadMax            int64   `json:"expert_load_max"`
	ExpertLoadMean           float64 `json:"expert_load_mean"`
	ExpertLoadCV             float64 `json:"expert_load_cv"`
	HotspotRatio             float64 `json:"hotspot_ratio"`
	// MaxVio is the relative excess load of the busiest expert: (max - mean) / mean, as in Wang et
	// al. 2024, arXiv:2408.15664. Earlier documents lack it.
	MaxVio           *float64 `json:"max_vio,omitempty"`
	EmptyExpertCount int      `json:"empty_expert_count"`
	EmptyRankCount   int      `json:"empty_rank_count"`
	Locality         Locality `json:"locality"`
}

// Locality reports how far copies travel, as fractions of the routed copies.
type Locality struct {
	Placement           string  `json:"placement"`
	LocalRankFraction   float64 `json:"local_rank_fraction"`
	SameNodeFraction    float64 `json:"same_node_fraction"`
	SameScaleUpDomain   float64 `json:"same_scaleup_domain_fraction"`
	CrossNodeFraction   float64 `json:"cross_node_fraction"`
	CrossDomainFraction float64 `json:"cross_domain_fraction"`
	GPUsPerNode         int     `json:"gpus_per_node"`
	ScaleUpDomain       int     `json:"scale_up_domain"`
	Copies              int64   `json:"copies"`
}
