package runner

import (
	"time"

	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/rank"
)

// Kinds of records that a rank writes during an EP case. They contain only numbers and declared
// names, and may be published.
const (
	kindPlan       = "ep-plan"        // planRecord, first
	kindTuning     = "ep-tuning"      // result.Tuning, once, of libraries with such choices
	kindPoint      = "ep-point"       // pointRecord, once per rung
	kindVerdict    = ep.RecordVerdict // verdictRecord, at each moment of each rung
	kindArithmetic = "ep-arithmetic"  // arithmeticRecord, once per rung
	kindFresh      = ep.RecordFresh   // freshRecord, per trial, rung and component
	kindChain      = ep.RecordChain   // chainRecord, per chain trial and rung
	kindReplay     = "ep-replay"      // replayRecord, once per rung, of replayed graphs
	kindRepeatable = "ep-repeatable"  // repeatableRecord, once per rung, if the case asks for it
)

// planRecord declares what this rank is about to measure.
type planRecord struct {
	Description
	ValueBytes int   `json:"value_bytes"` // of a dispatched value
	ScaleBytes int   `json:"scale_bytes"` // of a dispatched row
	Measured   []int `json:"measured"`    // rungs
	Dropped    []int `json:"dropped"`     // rungs above the cap
}

// pointRecord holds values that the ranks must agree on before a rung is used.
type pointRecord struct {
	TokensPerRank int    `json:"tokens_per_rank"`
	Digest        string `json:"digest"` // of the whole routing trace, hex
}

// Moments at which the oracle judges.
const (
	whenBefore      = "before"       // before any timing
	whenChainOutput = "chain-output" // the last output of the last chain
	whenPostChain   = "post-chain"   // on the state that the last chain left
	whenAfter       = "after"        // after all timing
)

// afterWindow names the moment after the last window of a component.
func afterWindow(component string) string { return "post-" + component }

// chain is the argument of timed and point.verdict for the chains.
const chain = "chain"

// timed names the moments at random places among the timed operations of a component, or of the
// chains.
func timed(component string) string { return "timed-" + component }

// changed names the moment when, with other inputs.
func changed(when string) string { return when + "-changed" }

// alternating names the moment of a component's alternating pass.
func alternating(component string) string { return "alternating-" + component }

// alternated lists the components that have an alternating pass. A component whose calls and their
// order equal another component's needs none: stage equals the roundtrip, and so does combine if
// every combine needs its own dispatch. A replayed graph is one call.
func (d Description) alternated() []string {
	if d.Replayed {
		return []string{compRoundtrip}
	}
	if d.FreshPair {
		return []string{compRoundtrip, compDispatch}
	}
	return []string{compRoundtrip, compDispatch, compCombine}
}

// repeats reports whether all samples of a component combine one dispatch.
func (d Description) repeats(component string) bool {
	return component == compCombine && !d.FreshPair && !d.Replayed
}

// Names of the trials in rank.Session.Trials.
const (
	freshTrials = "fresh"
	chainTrials = "chain"
)

// moments lists the moments of each rung, in the order in which rows list failures.
func (d Description) moments() []string {
	all := []string{whenBefore}
	for _, c := range d.components() {
		all = append(all, timed(c), afterWindow(c), changed(afterWindow(c)))
	}
	all = append(all, timed(chain), whenChainOutput, whenPostChain, changed(whenPostChain))
	for _, c := range d.alternated() {
		all = append(all, alternating(c))
	}
	return append(all, whenAfter)
}

// verdictRecord is the oracle's verdict at one moment.
type verdictRecord struct {
	TokensPerRank int       `json:"tokens_per_rank"`
	When          string    `json:"when"`
	Began         time.Time `json:"began,omitzero"` // when the verdict was made, UTC; earlier versions lack it
	Verdict
}

// arithmeticRecord is the verdict on combine's sums of the chosen rows.
type arithmeticRecord struct {
	TokensPerRank int      `json:"tokens_per_rank"`
	Error         *float64 `json:"error"` // largest, in units in the last place of bf16; null where it is not finite
	Checked       int      `json:"checked"`
	Wrong         int      `json:"wrong"`
}

// Names of the fresh-entry components.
const (
	compRoundtrip = "roundtrip"
	compDispatch  = "dispatch"
	compCombine   = "combine"
	compStage     = "stage"
)

// components lists the fresh-entry components of an adapter, in the order in which trials rotate
// them.
func (d Description) components() []string {
	all := []string{compRoundtrip, compDispatch, compCombine}
	if d.StageWorks && !d.Replayed {
		all = append(all, compStage)
	}
	return all
}

// replayRecord is the check of one rung's graphs against an eager pair.
type replayRecord struct {
	TokensPerRank int      `json:"tokens_per_rank"`
	Rewritten     bool     `json:"rewritten"` // each judged launch wrote the whole output
	OutputPassed  bool     `json:"output_passed"`
	OutputError   *float64 `json:"output_error"` // null where it is not finite
}

// freshRecord holds the samples, in microseconds, of one component in one trial.
type freshRecord struct {
	Trial         int       `json:"trial"`
	Repeat        int       `json:"repeat,omitempty"` // of the trial; see rank.Session.Trials
	TokensPerRank int       `json:"tokens_per_rank"`
	Component     string    `json:"component"`
	rank.Entry              // to the first sample
	Microseconds  []float64 `json:"us"`
}

// chainRecord holds the samples, in microseconds, of one chain trial and the check of its last
// output, which is null where staging is hoisted.
type chainRecord struct {
	Trial         int       `json:"trial"`
	Repeat        int       `json:"repeat,omitempty"`
	TokensPerRank int       `json:"tokens_per_rank"`
	Began         time.Time `json:"began,omitzero"` // when the first of Pair began, UTC; earlier versions lack it
	Dispatch      []float64 `json:"dispatch_us"`
	Combine       []float64 `json:"combine_us"`
	Pair          []float64 `json:"pair_us"`
	StartToStart  []float64 `json:"start_to_start_us"` // one fewer
	// Enqueue is the host time of one pair of the chain: to enqueue or capture it, including any
	// wait inside a dispatch. Earlier versions lack it.
	Enqueue      float64  `json:"enqueue_us,omitempty"`
	OutputPassed *bool    `json:"output_passed"`
	OutputError  *float64 `json:"output_error"` // null also where it is not finite
}
