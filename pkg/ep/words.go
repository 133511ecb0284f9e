package ep

import "github.com/collectivex/collectivex/pkg/vocab"

// Modes of EP backends.
const (
	ModeNormal     = "normal"
	ModeLowLatency = "low-latency"
)

// Modes lists the modes of EP backends.
func Modes() []string { return []string{ModeNormal, ModeLowLatency} }

// Phases of EP cases.
const (
	PhaseDecode  = "decode"
	PhasePrefill = "prefill"
)

// Phases lists the phases of EP cases.
func Phases() []string { return []string{PhaseDecode, PhasePrefill} }

// Precisions lists the dispatch precisions of EP cases.
func Precisions() []string { return []string{"bf16", "fp8"} }

// Timing contracts of EP cases: what the clock covers.
const (
	// ContractLayout: dispatch covers layout and communication, every call.
	ContractLayout = "layout-and-dispatch-v1"
	// ContractCachedLayout: dispatch with the layout of an earlier one, no exchange of counts.
	ContractCachedLayout = "cached-layout"
)

// Eager is the timing mode of EP cases that is not named in them: operations are enqueued
// one by one. In mode vocab.Graph they are captured once, and the graph is replayed.
const Eager = "eager"

// TimingModes lists the timing modes of EP cases.
func TimingModes() []string { return []string{Eager, vocab.Graph} }

// Layouts of the rows that a rank receives in low latency, of backends that have a choice.
const (
	// ExpertMajor: a row for each token and expert, by expert, which combine multiplies by
	// its weight.
	ExpertMajor = "expert-major"
	// RankMajor: a row for each token, by the rank that it comes from, which combine takes
	// weighted.
	RankMajor = "rank-major"
	// RankMajorWindow is RankMajor with rows that their senders write into a symmetric window
	// of the receiver, past the library's own buffers.
	RankMajorWindow = "rank-major-zc"
)

// Layouts lists the layouts of EP cases.
func Layouts() []string { return []string{ExpertMajor, RankMajor, RankMajorWindow} }

// Contracts lists the timing contracts of EP cases.
func Contracts() []string { return []string{ContractLayout, ContractCachedLayout} }

func init() {
	vocab.Register("mode", Modes()...)
	vocab.Register("phase", Phases()...)
	vocab.Register("precision", Precisions()...)
	vocab.Register("contract", Contracts()...)
	vocab.Register("layout", Layouts()...)
	vocab.Register("EP timing mode", TimingModes()...)
	vocab.Register("named EP timing mode", TimingModes()[1:]...)
	vocab.Register("availability", Measured, Derived, Unavailable)
	vocab.Register("origin", OriginMeasured, OriginPercentileSum, OriginChainedMedian, OriginChainedRankMin, OriginGraphReplay)
	vocab.Register("wire", WirePerRank, WirePerAssignment)
	vocab.Register("combine dtype", "bf16")
	vocab.Register("combine semantics", "activation-only")
	vocab.Register("payload unit", "token-rank")
}
