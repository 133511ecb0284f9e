package ep

import "github.com/collectivex/collectivex/pkg/vocab"

// Modes of EP backends.
const (
	ModeNormal     = "normal"
	ModeLowLatency = "low-latency"
)

// Modes lists the modes of EP backends.
var Modes = vocab.List("mode", ModeNormal, ModeLowLatency)

// Phases of EP cases.
const (
	PhaseDecode  = "decode"
	PhasePrefill = "prefill"
)

// Phases lists the phases of EP cases.
var Phases = vocab.List("phase", PhaseDecode, PhasePrefill)

// Precisions lists the dispatch precisions of EP cases.
var Precisions = vocab.List("precision", "bf16", "fp8")

// Timing contracts of EP cases: what the clock covers.
const (
	// ContractLayout: dispatch covers layout and communication, every call.
	ContractLayout = "layout-and-dispatch-v1"
	// ContractCachedLayout: dispatch with the layout of an earlier one, no exchange of counts.
	ContractCachedLayout = "cached-layout"
)

// Eager is the default timing mode, which cases do not name: operations are enqueued one by one.
// In mode vocab.Graph they are captured once, and the graph is replayed.
const Eager = "eager"

// TimingModes lists the timing modes of EP cases.
var TimingModes = vocab.List("EP timing mode", Eager, vocab.Graph)

// Layouts of received rows in low latency, for backends with a choice.
const (
	// ExpertMajor: a row for each token and expert, grouped by expert; combine applies the weight.
	ExpertMajor = "expert-major"
	// RankMajor: a row for each token, grouped by source rank; combine takes weighted rows.
	RankMajor = "rank-major"
	// RankMajorWindow is RankMajor with rows that senders write directly into a symmetric window of
	// the receiver, bypassing the library's own buffers.
	RankMajorWindow = "rank-major-zc"
)

// Layouts lists the layouts of EP cases.
var Layouts = vocab.List("layout", ExpertMajor, RankMajor, RankMajorWindow)

// Contracts lists the timing contracts of EP cases.
var Contracts = vocab.List("contract", ContractLayout, ContractCachedLayout)

func init() {
	vocab.Register("named EP timing mode", TimingModes()[1:]...)
	vocab.Register("availability", Measured, Derived, Unavailable)
	vocab.Register("origin", OriginMeasured, OriginPercentileSum, OriginChainedMedian, OriginChainedMiddle, OriginChainedRankMin, OriginGraphReplay)
	vocab.Register("wire", WirePerRank, WirePerAssignment)
	vocab.Register("combine dtype", "bf16")
	vocab.Register("combine semantics", "activation-only")
	vocab.Register("payload unit", "token-rank")
}
