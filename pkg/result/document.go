// Package result defines the documents of a run: their types, identity, comparison key and JSON Schema. It
// depends on no definitions, ranks or devices: each document contains the plan.Case that it answers,
// unchanged.
package result

import (
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Version is the version of every document; see plan.MatrixVersion.
const Version = plan.MatrixVersion

// Statuses of an outcome. Readers show any other status as failed.
const (
	Success     = "success"
	Invalid     = "invalid" // ran, and a check failed
	Failed      = "failed"  // did not complete: crash, hang, refusal
	Unsupported = "unsupported"
)

var statuses = []string{Success, Invalid, Failed, Unsupported}

func init() { vocab.Register("status", statuses...) }

// Document is one answer to one case: a pointer to the document type of the case's family.
type Document interface {
	// Head returns the envelope, which all record types share.
	Head() *Envelope
}

// Envelope holds the members of every document, of any family.
type Envelope struct {
	Version     int      `json:"version" in:"version"`
	RecordType  string   `json:"record_type"`
	GeneratedAt string   `json:"generated_at"` // ISO 8601, UTC
	Identity    Identity `json:"identity"`
	// ComparisonKey is equal exactly if two documents may be compared.
	ComparisonKey  string         `json:"comparison_key"`
	Implementation Implementation `json:"implementation"`
	Topology       Topology       `json:"topology"`
	Runtime        Runtime        `json:"runtime"`
	// Devices is missing if the ranks used no device but the host.
	Devices *Devices `json:"devices,omitempty"`
	// Limits are the peaks that the rows were checked against: empty if no peak is known, missing if there
	// are no rows.
	Limits     []Limit    `json:"limits,omitzero"`
	Provenance Provenance `json:"provenance"`
	// Elapsed is missing if the attempt had no machines to run on.
	Elapsed *Elapsed `json:"elapsed,omitempty"`
	// EntrySkew is missing if it is unknown or only one rank enters windows, and in older documents.
	EntrySkew *EntrySkew `json:"entry_skew,omitempty"`
	Outcome   Outcome    `json:"outcome"`
	// Digest is the last member: sha256: and the SHA-256 in hexadecimal of all bytes of the document before
	// the comma that precedes it. Documents of older versions have none.
	Digest string `json:"digest,omitempty"`
}

// Elapsed breaks down the time of an attempt.
type Elapsed struct {
	// QueueSeconds is the time that the cell waited for its machines, once for all of its cases; 0 on a
	// machine that needs no allocation.
	QueueSeconds float64 `json:"queue_seconds"`
	// RunSeconds is the time of the attempt, from its start to the writing of this document, without that
	// wait.
	RunSeconds float64 `json:"run_seconds"`
}

// EntrySkew is how far apart in time the ranks entered the timed windows: for each window from the first
// rank to the last.
type EntrySkew struct {
	Windows int     `json:"windows"` // on which the figures are based
	P50     float64 `json:"p50_us"`
	Max     float64 `json:"max_us"`
	// Bound: the figures are upper bounds, since the ranks have no common clock and each counts the time
	// since it came to their last meeting.
	Bound bool `json:"bound,omitempty"`
}

// Head implements Document.
func (e *Envelope) Head() *Envelope { return e }

// Text returns the text of a member that may be null, or "".
func Text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// LibraryVersion returns the version of the measured library: the backend's own, else kind and version of
// the collective library; empty if neither reports one.
func (e *Envelope) LibraryVersion() string {
	if v := Text(e.Implementation.LibraryVersion); v != "" {
		return v
	}
	if l := e.Runtime.CollectiveLibrary; l != nil && l.Version != nil {
		return l.Kind + " " + *l.Version
	}
	return ""
}

// Identity identifies the case that a document answers, and the attempt.
type Identity struct {
	CaseID            string            `json:"case_id"`
	AttemptOrdinal    int               `json:"attempt_ordinal"` // from 1
	Repeat            int               `json:"repeat"`          // from 1
	AllocationFactors AllocationFactors `json:"allocation_factors"`
	CaseFactors       CaseFactors       `json:"case_factors"`
	// Case is the case as planned, unchanged.
	Case plan.Case `json:"case"`
}

// AllocationFactors identify the run.
type AllocationFactors struct {
	RunID      *string `json:"run_id"`
	RunAttempt *string `json:"run_attempt"`
	SourceSHA  *string `json:"source_sha"`
	// MatrixSHA256 is the digest of the matrix file that requested the case, if there was one.
	MatrixSHA256 string `json:"matrix_sha256,omitempty"`
}

// CaseFactors are the factors for existing readers. For EP, Case is EPFactors; other families have their
// case.
type CaseFactors struct {
	SKU  string `json:"sku"`
	Case any    `json:"case"`
}

// Implementation describes what was measured.
type Implementation struct {
	Name             string  `json:"name"` // the backend
	Maturity         string  `json:"maturity"`
	KernelGeneration string  `json:"kernel_generation"`
	LibraryVersion   *string `json:"library_version"` // null without a library
	// The following six fields apply to EP only.
	CombineReduction           string `json:"combine_reduction,omitempty"`
	FP8Consume                 string `json:"fp8_consume,omitempty"`
	StageExcludedFromRoundtrip *bool  `json:"stage_excluded_from_roundtrip,omitempty"`
	ChainedPeriod              *bool  `json:"chained_period,omitempty"`
	// CUDAGraphReplay: launches of captured graphs were timed; CUDAGraphSupported: they could be. Older
	// documents lack both.
	CUDAGraphReplay    *bool `json:"cuda_graph_replay,omitempty"`
	CUDAGraphSupported *bool `json:"cuda_graph_supported,omitempty"`
	// Tuning is what a library with such choices ran with. Older documents lack it.
	Tuning *Tuning `json:"tuning,omitempty"`
	// Fabric is the lane that a transfer must use.
	Fabric string `json:"fabric,omitempty"`
}

// Tuning is what a library ran with, beside what it would have chosen.
type Tuning struct {
	SMs            int  `json:"num_sms"`
	TheoreticalSMs int  `json:"num_sms_theoretical"` // the library's choice
	QueuePairs     int  `json:"num_qps"`
	PreferOverlap  bool `json:"prefer_overlap_with_compute"`
	HandleCopy     bool `json:"do_handle_copy"`
}

// Topology describes where the case ran.
type Topology struct {
	DeviceProduct     string  `json:"device_product"`          // name the runtime reports
	GPUsPerNode       int     `json:"gpus_per_node,omitempty"` // missing on hosts
	Nodes             int     `json:"nodes"`
	Placement         string  `json:"placement"`                 // packed
	ScaleUpDomain     int     `json:"scale_up_domain,omitempty"` // missing on hosts
	ScaleUpTransport  string  `json:"scale_up_transport"`
	ScaleOutTransport *string `json:"scale_out_transport"`
	Scope             string  `json:"scope"`
	TopologyClass     string  `json:"topology_class"`
	Transport         string  `json:"transport"`
	WorldSize         int     `json:"world_size"`
	// RanksPerNode is present for transfers only.
	RanksPerNode int `json:"ranks_per_node,omitempty"`
	// Ranks lists the ranks that were restricted to some processors, and where they ran.
	Ranks []RankPlace `json:"ranks,omitempty"`
}

// RankPlace is where one rank ran.
type RankPlace struct {
	Rank     int    `json:"rank"`
	CPUs     string `json:"cpus"`                 // as the kernel lists them: 0-47,96-143
	NUMANode int    `json:"numa_node" sign:"any"` // of these CPUs; −1 if they belong to several, or it is unknown
}

// Runtime describes the software on which the case ran.
type Runtime struct {
	Vendor             string `json:"vendor" in:"vendor"` // nvidia, amd, host
	Framework          string `json:"framework"`
	AcceleratorRuntime string `json:"accelerator_runtime"`
	// CollectiveLibrary is missing if no library was loaded: on hosts, whose backend is part of the
	// program.
	CollectiveLibrary *CollectiveLibrary `json:"collective_library,omitempty"`
}

// CollectiveLibrary is the NCCL-like library; Version is null if the library does not report one.
type CollectiveLibrary struct {
	Kind    string  `json:"kind"`
	Version *string `json:"version"`
}

// Provenance is the publishable part of a document's origin.
type Provenance struct {
	Image *string `json:"image"`
	// ImageDigest is the registry's digest of the image: with enroot for the architecture, with docker and
	// podman of the index, if there is one. It is missing without a container, and if it was not
	// recorded when the image was imported.
	ImageDigest string  `json:"image_digest,omitempty"`
	SourceSHA   *string `json:"source_sha"`
	Generator   string  `json:"generator"` // program and version
	// Host is the machine's description of itself, restricted by an allow-list.
	Host map[string]string `json:"host,omitempty"`
	// Environment is the allow-listed part (NCCL_*, NVSHMEM_*, …) of the ranks' environment.
	Environment map[string]string `json:"environment,omitempty"`
	Libraries   []Library         `json:"libraries,omitempty"`
}

// Library is a library that was actually loaded.
type Library struct {
	Kind    string `json:"kind"`
	Version string `json:"version"`
	SOName  string `json:"soname,omitempty"`
	BuildID string `json:"build_id,omitempty"`
}

// Outcome is how the attempt ended. Reasons begin with a code of the closed list (see Reason); readers
// show the first.
type Outcome struct {
	Status  string  `json:"status" in:"status"`
	Reasons Reasons `json:"reasons"`
}

// Code returns the code of the first reason, or "".
func (o Outcome) Code() Code {
	if len(o.Reasons) == 0 {
		return ""
	}
	return o.Reasons[0].Code
}

// Percentiles of a set of samples, microseconds, nearest rank. The tails P90, P95 and P99 are all
// present or all null: tails of replayed graphs are not published.
type Percentiles struct {
	P50 float64  `json:"p50" sign:"any"`
	P90 *float64 `json:"p90" sign:"any"`
	P95 *float64 `json:"p95" sign:"any"`
	P99 *float64 `json:"p99" sign:"any"`
}

// PercentilesOf returns percentiles with tails.
func PercentilesOf(p50, p90, p95, p99 float64) *Percentiles {
	return &Percentiles{p50, &p90, &p95, &p99}
}

// Tailed reports whether the tails are present.
func (q Percentiles) Tailed() bool { return q.P90 != nil && q.P95 != nil && q.P99 != nil }

// Of returns the percentiles of which n samples are enough: p of at least 1/(1−p). With fewer, the nearest rank
// is that of the maximum. Documents have all percentiles, since existing readers require them.
func (q Percentiles) Of(n int) Percentiles {
	for _, tail := range []struct {
		us    **float64
		least int
	}{{&q.P90, 10}, {&q.P95, minForP95}, {&q.P99, MinForP99}} {
		if n < tail.least {
			*tail.us = nil
		}
	}
	return q
}

// The minimum numbers of samples for percentiles.
const (
	minForP95 = 20
	MinForP99 = 100
)

// Map returns the percentiles with f applied to each that is present.
func (q Percentiles) Map(f func(float64) float64) Percentiles {
	if !q.Tailed() {
		return Percentiles{P50: f(q.P50)}
	}
	return *PercentilesOf(f(q.P50), f(*q.P90), f(*q.P95), f(*q.P99))
}
