package ep

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/plan"
)

// Block is the block of an expert-parallel dispatch/combine case: one mode,
// phase, precision and routing over a ladder of tokens per rank.
type Block struct {
	EPSize   int    `json:"ep"` // equals World
	Workload string `json:"workload"`
	Mode     string `json:"mode" in:"mode"`   // normal or low-latency
	Phase    string `json:"phase" in:"phase"` // decode or prefill
	Routing  string `json:"routing"`
	Hidden   int    `json:"hidden"`
	TopK     int    `json:"topk"`
	Experts  int    `json:"experts"`
	Seed     uint64 `json:"seed"`
	// RoutingExperts are the experts of a routing that was read from a file, TopK of each
	// token of the largest batch and perhaps of more; RoutingSHA256 is their digest, each as
	// int64, little-endian. See Record.
	RoutingExperts []int  `json:"routing_experts,omitempty"`
	RoutingSHA256  string `json:"routing_sha256,omitempty"`
	// Ladder lists tokens per rank, ascending, separated by spaces.
	Ladder plan.Ladder `json:"ladder"`
	// LadderCap is the maximum tokens per rank that the backend supports in this mode; larger
	// rungs are dropped at run time and recorded. Null means no cap.
	LadderCap *int   `json:"ladder_cap"`
	Timing    Timing `json:"timing"`
	// TimingMode is vocab.Graph where graphs are replayed. Empty is Eager.
	TimingMode string `json:"timing_mode,omitempty" in:"named EP timing mode"`
	// Layout is how received rows are arranged, for backends with a choice in the mode. Empty means
	// that there is no choice or, in a plan of CollectiveX, expert-major.
	Layout string `json:"layout,omitempty" in:"layout"`
	// Tuning is what the case sets in the place of the library; nil: nothing.
	Tuning *Tuning `json:"tuning,omitempty"`
	// Repeatable is how many combines of one dispatched input run for each rung, after all others, to
	// compare their results with the first one; 0: none.
	Repeatable int `json:"repeatable,omitempty"`
}

// Tuning sets what a library would choose itself. The zero value of a field leaves it to the library.
type Tuning struct {
	// SMs is the number of multiprocessors that operations use.
	SMs int `json:"num_sms,omitempty" yaml:"num_sms,optional" min:"1"`
	// NoOverlap tells the library that no computation runs beside its operations.
	NoOverlap bool `json:"no_overlap,omitempty" yaml:"no_overlap,optional"`
	// NoHandleCopy makes handles keep the caller's expert ids instead of a copy.
	NoHandleCopy bool `json:"no_handle_copy,omitempty" yaml:"no_handle_copy,optional"`
}

// Words returns the names of what is set, as in ids and kernel generations. t may be nil.
func (t *Tuning) Words() (words []string) {
	if t == nil {
		return nil
	}
	if t.SMs > 0 {
		words = append(words, "sm"+strconv.Itoa(t.SMs))
	}
	if t.NoOverlap {
		words = append(words, "nooverlap")
	}
	if t.NoHandleCopy {
		words = append(words, "nohandlecopy")
	}
	return words
}

// Timing holds the sample counts of an EP case; see methodology: fresh-entry
// windows are Trials × Iters, chained windows ChainTrials × (ChainIters − ChainDrop).
type Timing struct {
	ItersPerTrial       int `json:"iters_per_trial"`
	TrialsPerPoint      int `json:"trials_per_point"`
	WarmupItersPerTrial int `json:"warmup_iters_per_trial"`
	ChainItersPerTrial  int `json:"chain_iters_per_trial"`
	ChainTrialsPerPoint int `json:"chain_trials_per_point"`
	ChainDrop           int `json:"chain_drop"`
}

// Check returns an error unless samples of each kind are left.
func (t Timing) Check() error {
	switch {
	case min(t.ItersPerTrial, t.TrialsPerPoint, t.WarmupItersPerTrial, t.ChainItersPerTrial, t.ChainTrialsPerPoint) <= 0 || t.ChainDrop < 0:
		return fmt.Errorf("iterations, trials and warm-up must be positive: %+v", t)
	case t.ChainDrop > t.ChainItersPerTrial-2:
		return fmt.Errorf("chain_drop must leave at least 2 of the %d chained pairs", t.ChainItersPerTrial)
	}
	return nil
}

// Limits of AlternatingCalls.
const (
	maxAlternating      = 64
	minAlternating      = 8
	maxAlternatingBytes = 1 << 30
)

// AlternatingCalls returns how many consecutive calls the alternating pass of a rung compares:
// 64, or fewer (at least 8) so that their rows, sent, received and combined in bf16, take at
// most 1 GiB on a rank. It is even, so that a pass ends with the input that the contract names.
func (e *Block) AlternatingCalls(tokensPerRank int) int {
	call := 2 * int64(e.Hidden) * int64(tokensPerRank) * int64(2+min(e.TopK, e.EPSize))
	calls := int(min(maxAlternating, max(minAlternating, maxAlternatingBytes/max(1, call))))
	return calls - calls%2
}

// Seeds is the number of seeds that make different activations.
const Seeds = 257

// Limits of TimedInputs.
const (
	minTimedInputs     = 4
	maxTimedInputBytes = 4 << 20 // much less than the caches of GPUs
)

// TimedInputs returns over how many inputs, all different, the timed operations of a rung rotate: as
// many as a window or a chain has operations if these inputs take at most 4 MiB on a rank,
// otherwise fewer, but at least 4.
func (e *Block) TimedInputs(tokensPerRank int) int {
	fit := maxTimedInputBytes / max(1, 2*e.Hidden*tokensPerRank)
	return min(max(e.Timing.ItersPerTrial, e.Timing.ChainItersPerTrial), max(fit, minTimedInputs), Seeds-1)
}

// Of returns the block of an EP case, or nil for a case of another family.
func Of(c *plan.Case) *Block {
	b, _ := c.Block.(*Block)
	return b
}

// Factors implements plan.Block.
func (e *Block) Factors(c *plan.Case, to []string) []string {
	to = append(to, e.Workload, e.Mode, e.Phase, "ep"+strconv.Itoa(e.EPSize), e.Routing, c.Precision)
	if c.Contract != ContractLayout {
		to = append(to, c.Contract)
	}
	if e.Layout != "" && e.Layout != upstreamLayouts[e.Workload] {
		to = append(to, e.Layout)
	}
	if e.TimingMode != "" {
		to = append(to, e.TimingMode)
	}
	return append(to, e.Tuning.Words()...)
}

// upstreamLayouts maps the workloads of CollectiveX's own plans to the layout that its runs use
// for backends with a choice. Its case ids do not name the layout.
var upstreamLayouts = map[string]string{"deepseek-v3": ExpertMajor, "deepseek-v4-pro": RankMajor}

// upstream implements plan.Descriptor.Upstream. Upstream plans only uniform routing, the layout
// contract and its own workloads, each in one layout and untuned. Its replayed graphs are not separate cases:
// the dashboard cannot show rows without tails, and gives one label to cases that differ only in
// these factors.
func upstream(c *plan.Case) bool {
	e := Of(c)
	if e == nil || e.Routing != "uniform" || c.Contract != ContractLayout || e.TimingMode != "" || e.Tuning != nil || c.Repeat != 1 {
		return false
	}
	layout, planned := upstreamLayouts[e.Workload]
	return planned && (e.Layout == "" || e.Layout == layout)
}

// BalancedRung returns the rung, in tokens per rank, whose trace determines the placement of
// replicated experts in a *-eplb routing: the largest of the ladder. It is 0 for other cases.
func (e *Block) BalancedRung() int {
	if !strings.HasSuffix(e.Routing, "-eplb") || len(e.Ladder) == 0 {
		return 0
	}
	return e.Ladder[len(e.Ladder)-1]
}

// leastBuffered is the minimum of BufferedTokens in low-latency mode.
const leastBuffered = 256

// BufferedTokens returns the tokens per rank for which backends size the buffers of a case: the largest rung
// within the cap and, in low-latency mode, at least 256. It is 0 if the cap leaves no rung.
func (e *Block) BufferedTokens() int {
	tokens := 0
	for _, rung := range e.Ladder {
		if e.LadderCap == nil || rung <= *e.LadderCap {
			tokens = max(tokens, rung)
		}
	}
	if tokens > 0 && e.Mode == ModeLowLatency {
		return max(tokens, leastBuffered)
	}
	return tokens
}
