// Package runner measures expert-parallel dispatch and combine. It defines the contract under
// which every library is measured, the oracle that checks the results, and the document that
// reports them. One package per library implements Adapter.
//
// W is the world size, T the tokens per rank, K top-k, E the experts, H the
// hidden size, G = W·T the tokens of the global batch.
package runner

import (
	"context"
	"strings"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Layout is the arrangement of received rows.
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

// Semantics is how combine computes its result from the returned rows.
type Semantics string

// The semantics.
const (
	// UnweightedRankSum: the sum of one row from each rank, which that rank has already weighted.
	UnweightedRankSum Semantics = "unweighted-rank-sum"
	// WeightedKernelSum: the sum over the token's slots of weight times row, in
	// float32 in slot order.
	WeightedKernelSum Semantics = "weighted-kernel-sum"
)

// Reduction is the order and rounding of an UnweightedRankSum, or of a WeightedKernelSum that is
// not a single sum in slot order.
type Reduction string

// The reductions.
const (
	// DomainFP32 adds the ranks of a scale-up domain, ascending, in float32,
	// rounds the sum of each domain to bf16 and adds these sums in float32.
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
	ConsumeNative  = "native"  // used directly: the conversion is not part of the pair. Also for bf16.
	ConsumeDequant = "dequant" // converted first: the conversion is part of the pair
)

// Description is an adapter's declaration for one case. All ranks declare the same.
type Description struct {
	Mode             string    `json:"mode"`
	KernelGeneration string    `json:"kernel_generation"`
	LibraryVersion   string    `json:"library_version,omitempty"` // empty: the library does not report it
	Receive          Layout    `json:"receive"`
	Combine          Semantics `json:"combine"`
	Reduction        Reduction `json:"combine_reduction"`
	DispatchDType    string    `json:"dispatch_dtype"` // bf16, fp8-e4m3fn, …
	FP8Consume       string    `json:"fp8_consume"`
	// FreshPair: a handle is good for one combine, so every combine needs its own dispatch.
	FreshPair bool `json:"fresh_pair"`
	// StageWorks: stage does work on the device, beyond assigning a pointer.
	StageWorks bool `json:"stage_works"`
	// Capturable: dispatch, stage and combine can be captured into a graph; see Capturer.
	Capturable bool `json:"capturable,omitempty"`
	// Replayed: launches of such graphs are timed. The runner sets it.
	Replayed bool `json:"replayed,omitempty"`
	// Tunable: the adapter follows the Tuning of a case.
	Tunable bool `json:"tunable,omitempty"`
	// LadderCap is the maximum number of tokens that a rank may send; 0 means no limit. If the case
	// has a cap too, the smaller one applies.
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

// Hoisted reports whether staging is excluded from the roundtrip and the chain.
func (d Description) Hoisted() bool { return d.StageWorks && d.FP8Consume != ConsumeDequant }

// SetPrecision declares a dispatch of bf16, or of fp8 in the format of the device architecture arch.
// blocks selects fp8 with a scale for each block of columns instead of a plain cast. Any other precision
// is refused in the name of backend.
func (d *Description) SetPrecision(backend, precision, arch string, blocks bool) error {
	d.DispatchDType, d.FP8Consume = "bf16", ConsumeNative
	switch precision {
	case "bf16":
	case "fp8":
		d.DispatchDType, d.StageWorks, d.Codec = "fp8-e4m3fn", true, Codec{numeric.E4M3FN, blocks}
		if strings.HasPrefix(arch, "gfx942") { // its matrix cores support only this format
			d.DispatchDType, d.Codec.Format = "fp8-e4m3fnuz", numeric.E4M3FNUZ
		}
	default:
		return rank.Refused("%s dispatches bf16 and fp8, not %s", backend, precision)
	}
	return nil
}

// Problem is one rung of the ladder on one rank: device memory that the adapter reads and never
// writes. While a problem is bound, the activations may change between two dispatches, and under
// the layout contract the weights between two pairs; the experts do not change.
type Problem struct {
	TokensPerRank int // the rung
	Tokens        int // rows that this rank sends; other ranks may send more or fewer
	Capacity      int // maximum of Tokens over ranks
	World         int
	Hidden        int
	TopK          int
	Experts       int       // global; expert e lives on rank e div (Experts/World)
	X             accel.Ptr // bf16, [Tokens][Hidden]; one of Inputs
	Expert        accel.Ptr // Description.IndexType, [Tokens][TopK]; −1 is no expert
	Weight        accel.Ptr // float32, [Tokens][TopK]

	// Inputs are the buffers that X can be while the problem is bound, Input the index of X. The
	// runner changes both between two dispatches, so that timed operations do not repeat an input.
	Inputs []accel.Ptr
	Input  int
}

// choose makes an input the one that the next dispatch sends.
func (p *Problem) choose(input int) { p.X, p.Input = p.Inputs[input], input }

// Capacity holds the maxima over the problems of a case.
type Capacity struct {
	Tokens  int // of any one rank
	Experts int // of all ranks; with EPLB more than the case has
}

// Handle is what a dispatch leaves for its combine. It belongs to the adapter.
type Handle any

// Staged identifies the expert outputs that a combine reads. It belongs to the adapter and stays
// valid until the next Bind, StageRows or Stage.
type Staged any

// Rows locates rows of Hidden values in device memory, at equal distances.
type Rows struct {
	Count       int
	Values      accel.Ptr // of the first row: bf16, or codes of a Codec
	Stride      int64     // bytes from the values of one row to the values of the next
	Scales      accel.Ptr // of the first row, float32; 0 where the codec has none
	ScaleStride int64     // bytes from the scales of one row to the scales of the next
}

// Received describes what a rank received. The adapter chooses the order of rows.
type Received struct {
	// Payload locates the rows, which are valid until the next Dispatch. Combine, Stage and
	// StageRows do not change them.
	Payload []Rows
	Codec   Codec // of Payload; the zero Codec is bf16
	// Expert holds global expert ids. Token-rank: [rows][TopK], −1 where another rank hosts the
	// expert; token-expert: [rows].
	Expert []int32
	Weight []float32 // token-rank: [rows][TopK], beside Expert; else nil
	// Counts holds the library's row counts per local expert, or RankCounts its row counts per
	// source rank.
	Counts, RankCounts []int32
	copied             []uint16 // Payload on the host, once it has been read back
}

// rows returns the number of received rows.
func (rx *Received) rows() (n int) {
	for _, p := range rx.Payload {
		n += p.Count
	}
	return n
}

// Adapter is one library on one rank. It is opened once per group of ranks and used from one OS
// thread; all work goes to the stream with which it was opened.
//
// Dispatch, Stage and Combine enqueue work. All ranks call them in the same order. If a library
// must learn what arrives, its dispatch waits for the device; otherwise operations may wait only
// in the first roundtrip after a Bind.
type Adapter interface {
	// Describe returns the declaration for a case, or refuses it.
	Describe(c plan.Case) (Description, error)
	// Prepare creates the buffers of a case, collectively. ctx ends every wait of the case.
	Prepare(ctx context.Context, s *rank.Session, c plan.Case, need Capacity) error
	// Bind makes p the problem of the following calls. It is collective and untimed, and is
	// repeated before each warm-up.
	Bind(p *Problem) error
	// Dispatch sends the bound problem.
	Dispatch() (Handle, error)
	// Stage converts received rows to the input of combine, with unchanged values. It stands in
	// for the experts.
	Stage(h Handle) (Staged, error)
	// StageRows stages other rows instead, after Inspect of the dispatch. It calls fill with memory
	// for one bf16 row for each row of Inspect, in that order.
	StageRows(h Handle, fill func(to []Rows) error) (Staged, error)
	// Combine returns the sums of this rank's tokens: bf16, [Tokens][Hidden], in
	// device memory that is valid until the next Combine.
	Combine(h Handle, s Staged) (accel.Ptr, error)
	// Inspect reports what arrived, after a synchronise and before the combine. Ids, weights and
	// counts are copied to the host; the rows stay on the device.
	Inspect(h Handle) (*Received, error)
	// Err returns why operations ended without doing their work, for example because a rank has left
	// the group; nil if they did. If it is not nil, the results are not judged.
	Err() error
	Close() error
}

// Chooser is an Adapter that must learn which input the next dispatch sends, outside of Dispatch.
type Chooser interface {
	Adapter
	// Choose takes the current Input of the bound problem. It enqueues no work.
	Choose() error
}

// Tuned is an Adapter whose library has choices that documents publish.
type Tuned interface {
	Adapter
	// Tuning returns what the prepared case runs with; nil: its mode has no such choices.
	Tuning() *result.Tuning
}

// CachedDispatcher is an Adapter that can measure the cached-layout contract.
type CachedDispatcher interface {
	Adapter
	// DispatchCached sends the current activations of the bound problem with the layout of an
	// earlier dispatch: it computes no layout and exchanges no counts.
	DispatchCached(h Handle) (Handle, error)
}

// FaultInjector is an Adapter that can violate its declaration, so that tests can exercise the
// checks.
type FaultInjector interface {
	Adapter
	// InjectFault begins a fault (FaultBF16Sum, …) before the case is prepared or, of a sum, before a
	// combine, or ends it if kind is empty. It returns an error for a fault that does not apply to d.
	InjectFault(kind string, d Description) error
}
