// Package runner measures expert-parallel dispatch and combine: the contract that
// every library is measured under, the oracle that checks what it did, and the
// document that tells. One sub-package per library implements Adapter.
//
// W is the world size, T the tokens per rank, K top-k, E the experts, H the
// hidden size, G = W·T the tokens of the global batch.
package runner

import (
	"context"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
)

// Layout is what a rank receives.
type Layout string

// The layouts.
const (
	// TokenRank: one row for each token that has an expert here, with the ids and
	// weights of those experts.
	TokenRank Layout = "token-rank"
	// TokenExpert: one row for each token and expert here, grouped by expert,
	// without weights.
	TokenExpert Layout = "token-expert"
)

// Semantics is what combine computes from what the ranks return.
type Semantics string

// The semantics.
const (
	// UnweightedRankSum: the sum over ranks of one row each, which the receiving
	// rank has weighted.
	UnweightedRankSum Semantics = "unweighted-rank-sum"
	// WeightedKernelSum: the sum over the token's slots of weight times row, in
	// float32 in slot order.
	WeightedKernelSum Semantics = "weighted-kernel-sum"
)

// Reduction is the order and rounding of an UnweightedRankSum, or of a
// WeightedKernelSum that is not one sum in slot order.
type Reduction string

// The reductions.
const (
	// DomainFP32 adds the ranks of a scale-up domain, ascending, in float32,
	// rounds each domain's sum to bf16 and adds the domains in float32.
	DomainFP32 Reduction = "domain-fp32"
	// TopKSlotTree adds neighbours of the token's slots level by level and rounds
	// each sum to bf16; a rank counts in its first slot.
	TopKSlotTree Reduction = "topk-slot-tree"
	// RankFP32 adds the rows of a token's ranks in float32, in the order of its slots; a rank
	// counts in its first slot.
	RankFP32 Reduction = "rank-fp32"
	// RankPartialFP32 adds weight times row over the slots of each rank, in slot order
	// in float32, and then the sums of the ranks, ascending, in float32.
	RankPartialFP32 Reduction = "rank-partial-fp32"
)

// How an expert consumes fp8 rows.
const (
	ConsumeNative  = "native"  // as they are: the conversion stays out of the pair. Also in bf16.
	ConsumeDequant = "dequant" // converted first: the conversion belongs to the pair
)

// Description is what an adapter declares of itself for one case. All ranks
// declare the same.
type Description struct {
	Mode             string    `json:"mode"`
	KernelGeneration string    `json:"kernel_generation"`
	LibraryVersion   string    `json:"library_version,omitempty"` // empty: the library does not tell
	Receive          Layout    `json:"receive"`
	Combine          Semantics `json:"combine"`
	Reduction        Reduction `json:"combine_reduction"`
	DispatchDType    string    `json:"dispatch_dtype"` // bf16, fp8-e4m3fn, …
	FP8Consume       string    `json:"fp8_consume"`
	// FreshPair: a handle is good for one combine, and every dispatch needs its.
	FreshPair bool `json:"fresh_pair"`
	// StageWorks: stage does work on the device, beyond assigning a pointer.
	StageWorks bool `json:"stage_works"`
	// Capturable: dispatch, stage and combine can be captured into a graph; see Capturer.
	Capturable bool `json:"capturable,omitempty"`
	// Replayed: what is timed is launches of such graphs. The runner sets it.
	Replayed bool `json:"replayed,omitempty"`
	// LadderCap is the most tokens that a rank may send; 0 is no limit. Where the
	// case has one too, the smaller counts.
	LadderCap int `json:"ladder_cap"`
	// Codec is what dispatch does to a row.
	Codec Codec `json:"-"`
	// IndexType is the type of expert ids that dispatch reads: Int32 or Int64.
	IndexType numeric.Type `json:"-"`
}

// accumulation names the type and order of combine's sum.
func (d Description) accumulation() string {
	if d.Combine == WeightedKernelSum && d.Reduction != RankPartialFP32 {
		return string(WeightedKernelSum)
	}
	return string(d.Reduction)
}

// Hoisted reports whether staging is taken out of the roundtrip and the chain.
func (d Description) Hoisted() bool { return d.StageWorks && d.FP8Consume != ConsumeDequant }

// Problem is one rung of the ladder as one rank has it: device memory that the
// adapter reads and never writes. While a problem is bound, the activations may
// change between two dispatches, and under the layout contract the weights
// between two pairs; the experts stay.
type Problem struct {
	TokensPerRank int // the rung
	Tokens        int // rows that this rank sends; other ranks may send more or fewer
	Capacity      int // most rows that any rank sends
	World         int
	Hidden        int
	TopK          int
	Experts       int       // global; expert e lives on rank e div (Experts/World)
	X             accel.Ptr // bf16, [Tokens][Hidden]
	Expert        accel.Ptr // Description.IndexType, [Tokens][TopK]; −1 is no expert
	Weight        accel.Ptr // float32, [Tokens][TopK]
}

// Capacity is what the problems of a case need at most.
type Capacity struct {
	Tokens  int // that any one rank sends
	Experts int // global; with EPLB more than the case has
}

// Handle is what a dispatch leaves for its combine. It belongs to the adapter.
type Handle any

// Staged is the expert outputs that a combine takes. It belongs to the adapter
// and stays valid until the next Bind, StageRows or Stage.
type Staged any

// Rows is rows of Hidden values in device memory, at equal distances.
type Rows struct {
	Count       int
	Values      accel.Ptr // of the first row: bf16, or codes of a Codec
	Stride      int64     // bytes from the values of a row to those of the next
	Scales      accel.Ptr // of the first row, float32; 0 where the codec has none
	ScaleStride int64     // bytes from the scales of a row to those of the next
}

// Received is what a rank received. The order of rows is the adapter's own.
type Received struct {
	// Payload is where the rows stand, which are valid until the next Dispatch. Combine,
	// Stage and StageRows do not change them.
	Payload []Rows
	Codec   Codec // of Payload; the zero Codec is bf16
	// Expert holds global expert ids. Token-rank: [rows][TopK], −1 where an expert
	// is not here; token-expert: [rows].
	Expert []int32
	Weight []float32 // token-rank: [rows][TopK], beside Expert; else nil
	// Counts are the rows per local expert, as the library counted them, or RankCounts those
	// from each rank, if it counts these instead.
	Counts, RankCounts []int32
	copied             []uint16 // Payload, once it was read back
}

// rows is how many rows arrived.
func (rx *Received) rows() (n int) {
	for _, p := range rx.Payload {
		n += p.Count
	}
	return n
}

// Adapter is one library in one rank. It is opened once per group of ranks and
// used from one OS thread; all work goes to the stream it was opened with.
//
// Dispatch, Stage and Combine enqueue. They are called by all ranks in the same
// order. Where a library cannot know what arrives, its dispatch waits for the device;
// all else may do so only in the first roundtrip after a Bind.
type Adapter interface {
	// Describe declares the adapter for a case, or refuses it.
	Describe(c plan.Case) (Description, error)
	// Prepare makes the buffers of a case, collectively. ctx ends every wait of
	// the case.
	Prepare(ctx context.Context, s *rank.Session, c plan.Case, need Capacity) error
	// Bind makes p the problem of the calls that follow. It is collective,
	// untimed, and comes again before each warm-up.
	Bind(p *Problem) error
	// Dispatch sends the bound problem.
	Dispatch() (Handle, error)
	// Stage turns what arrived into what combine takes, each row as it is: the
	// stand-in for the experts.
	Stage(h Handle) (Staged, error)
	// StageRows stages other rows instead, after Inspect of the dispatch. It calls fill,
	// which writes one bf16 row for each row of Inspect, in that order, to memory that the
	// adapter gives it.
	StageRows(h Handle, fill func(to []Rows) error) (Staged, error)
	// Combine returns the sums of this rank's tokens: bf16, [Tokens][Hidden], in
	// device memory that is valid until the next Combine.
	Combine(h Handle, s Staged) (accel.Ptr, error)
	// Inspect reports what arrived, after a synchronise and before the combine. Ids,
	// weights and counts are read back to the host; the rows stay on the device.
	Inspect(h Handle) (*Received, error)
	// Err returns why operations ended that have done nothing, as those of a group that
	// a rank has left, or nil. What such operations leave is not judged.
	Err() error
	Close() error
}

// CachedDispatcher is an Adapter that can measure the cached-layout contract.
type CachedDispatcher interface {
	Adapter
	// DispatchCached sends the bound problem with the layout of an earlier
	// dispatch of it: no layout, no exchange of counts. It sends the activations as
	// they are now.
	DispatchCached(h Handle) (Handle, error)
}

// FaultInjector is an Adapter that can be made to compute another thing than it
// declares, so that tests see its checks fail.
type FaultInjector interface {
	Adapter
	// InjectFault begins a fault (FaultBF16Sum, …) before the case is prepared, or
	// ends it where kind is empty. It returns an error for a fault that does not
	// apply to d.
	InjectFault(kind string, d Description) error
}
