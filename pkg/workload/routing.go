package workload

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Shape holds the sizes for which a routing is drawn.
type Shape struct {
	Seed    uint64
	World   int
	Experts int // logical experts
	TopK    int
	// LargestRung is the largest number of tokens per rank in the ladder of the case. EPLB
	// plans its replicas from the trace of that rung.
	LargestRung int
	// Recorded holds the experts of a recorded routing, TopK for each token. If it is empty, the
	// name of the routing determines how experts are drawn.
	Recorded []int
}

// Routing draws traces by name:
//
//	uniform              every expert equally likely; the headline of every suite
//	zipf-mild, zipf, zipf-heavy
//	                     expert e with weight 1/(e+1)^s, s = 0.5, 1, 2
//	lognormal-vioX       the experts' weights are drawn from a lognormal distribution whose MaxVio is X
//	balanced             every expert equally often, with the maximum fan-out
//	balanced-rank-local  every expert equally often, a token's experts have consecutive ids:
//	                     fan-out 1 if top-k divides the experts of a rank
//	hotspot-single       top-k slot 0 of every token is expert 0, the other slots are uniform
//	hotspot-moving[-stepN]      the same with expert N mod E (N = 0 without a step)
//	alternating-groups[-stepN]  uniform over the first half of the experts, or the second if N is odd
//	uneven-linear        uniform; ranks send 0.5·T to 1.5·T tokens, W·T in all
//	uneven-empty-rank    uniform; the last rank sends nothing, the others also send its tokens
//	NAME-eplb            NAME over replicated experts; see eplb
//
// All random numbers come from one keyed counter. A token's row therefore depends on
// its index and not on the batch: a smaller batch is a prefix of a larger one (with the
// same offsets).
type Routing struct {
	shape  Shape
	slots  int // experts of a trace: Shape.Experts, or more with EPLB
	pick   picker
	counts func(world, tokensPerRank int) []int
	eplb   *eplb
}

// picker chooses the experts of one token.
type picker func(c *counter, token int, experts []int32)

// routings maps names without suffixes to routings.
var routings = map[string]struct {
	picker  func(s Shape, step int) picker
	counts  func(world, tokensPerRank int) []int // nil: the same number on each rank
	stepped bool                                 // the name may have the suffix -stepN
}{
	"uniform":             {picker: uniform},
	"zipf-mild":           {picker: zipf(math.Sqrt)},
	"zipf":                {picker: zipf(func(n float64) float64 { return n })},
	"zipf-heavy":          {picker: zipf(func(n float64) float64 { return n * n })},
	"balanced":            {picker: balanced},
	"balanced-rank-local": {picker: rankLocal},
	"hotspot-single":      {picker: hotspot},
	"hotspot-moving":      {picker: hotspot, stepped: true},
	"alternating-groups":  {picker: alternating, stepped: true},
	"uneven-linear":       {picker: uniform, counts: linearCounts},
	"uneven-empty-rank":   {picker: uniform, counts: emptyRankCounts},
}

const (
	eplbSuffix = "-eplb"
	stepSuffix = "-step"
)

// NewRouting returns the routing with this name for s. It is an error if the name is
// unknown or the shape cannot be routed.
func NewRouting(name string, s Shape) (*Routing, error) {
	if s.World < 1 || s.TopK < 1 || s.Experts < s.TopK || s.Experts%s.World != 0 {
		return nil, fmt.Errorf("routing %s: %d experts on %d ranks with top-k %d: experts must be a multiple of the ranks and at least top-k",
			name, s.Experts, s.World, s.TopK)
	}
	if len(s.Recorded) > 0 {
		return recorded(name, s)
	}
	base, replicated := strings.CutSuffix(name, eplbSuffix)
	r := &Routing{shape: s, slots: s.Experts, counts: evenCounts}
	if wanted, is := strings.CutPrefix(base, LognormalPrefix); is {
		var err error
		if r.pick, err = lognormal(s, wanted); err != nil {
			return nil, fmt.Errorf("routing %q: %w", name, err)
		}
	} else if err := r.named(base, name); err != nil {
		return nil, err
	}
	if replicated {
		if s.LargestRung < 1 {
			return nil, fmt.Errorf("routing %s: the ladder has no rung from which to place the replicas", name)
		}
		r.eplb = planEPLB(r.Trace(s.LargestRung))
		r.slots = len(r.eplb.logical)
	}
	return r, nil
}

// named sets what the routing of a name in routings, perhaps with a step, determines. whole is the name
// in errors.
func (r *Routing) named(base, whole string) error {
	base, number, stepped := strings.Cut(base, stepSuffix)
	step, err := strconv.Atoi(number)
	if stepped && (err != nil || step < 0) {
		return fmt.Errorf("routing %q: the step must be a whole number from 0", whole)
	}
	def, known := routings[base]
	if !known || stepped && !def.stepped {
		return fmt.Errorf("unknown routing %q", whole)
	}
	if s := r.shape; base == "alternating-groups" && s.Experts/2 < s.TopK {
		return fmt.Errorf("routing %s: top-k %d needs %d experts in each half, there are %d", whole, s.TopK, s.TopK, s.Experts/2)
	}
	r.pick = def.picker(r.shape, step)
	if def.counts != nil {
		r.counts = def.counts
	}
	return nil
}

// recorded returns the routing of s.Recorded. Weights are drawn as for any other.
func recorded(name string, s Shape) (*Routing, error) {
	if tokens := len(s.Recorded) / s.TopK; len(s.Recorded)%s.TopK != 0 || tokens < s.LargestRung*s.World {
		return nil, fmt.Errorf("routing %s: %d expert ids do not match %d tokens with top-k %d", name, len(s.Recorded), s.LargestRung*s.World, s.TopK)
	}
	for i, e := range s.Recorded {
		if row := s.Recorded[i-i%s.TopK : i]; e < 0 || e >= s.Experts || slices.Contains(row, e) {
			return nil, fmt.Errorf("routing %s: token %d cannot choose expert %d of %d after %v", name, i/s.TopK, e, s.Experts, row)
		}
	}
	pick := func(_ *counter, token int, experts []int32) {
		for slot := range experts {
			experts[slot] = int32(s.Recorded[token*s.TopK+slot])
		}
	}
	return &Routing{shape: s, slots: s.Experts, pick: pick, counts: evenCounts}, nil
}

// Experts returns the number of expert slots in every trace: the logical experts, or more
// with EPLB.
func (r *Routing) Experts() int { return r.slots }

// MaxRankTokens returns the maximum number of tokens that any rank sends in a batch of
// tokensPerRank tokens per rank.
func (r *Routing) MaxRankTokens(tokensPerRank int) int {
	return slices.Max(r.counts(r.shape.World, tokensPerRank))
}

// Trace returns the trace of a batch of tokensPerRank tokens per rank.
func (r *Routing) Trace(tokensPerRank int) *Trace {
	s := r.shape
	t := &Trace{World: s.World, TopK: s.TopK, Experts: r.slots, First: make([]int, s.World+1)}
	for rank, n := range r.counts(s.World, tokensPerRank) {
		t.First[rank+1] = t.First[rank] + n
	}
	t.Expert = make([]int32, t.Tokens()*s.TopK)
	t.Weight = make([]float32, t.Tokens()*s.TopK)
	c := newCounter(s.Seed)
	for token := range t.Tokens() {
		experts, weights := t.Row(token)
		r.pick(c, token, experts)
		if r.eplb != nil {
			r.eplb.place(token, experts)
		}
		drawWeights(c, token, weights)
	}
	return t
}

// drawWeights fills the weights of a token: raw weights from 1 to 65535, divided by their
// sum in float64.
func drawWeights(c *counter, token int, weights []float32) {
	raw := make([]float64, len(weights))
	var sum float64
	for slot := range raw {
		raw[slot] = float64(1 + c.draw(token, slot, 0, streamWeight)%65535)
		sum += raw[slot]
	}
	for slot := range raw {
		weights[slot] = float32(raw[slot] / sum)
	}
}

// firstUnused draws experts until one is not yet in used, and returns it. Draw n has attempt number n,
// from 0.
func firstUnused(c *counter, token, slot int, used []int32, choose func(draw uint64) int32) int32 {
	for attempt := 0; ; attempt++ {
		if e := choose(c.draw(token, slot, attempt, streamExpert)); !slices.Contains(used, e) {
			return e
		}
	}
}

// drawUniform fills the slots from first on with experts from low to low+n−1.
func drawUniform(c *counter, token int, experts []int32, first, low, n int) {
	for slot := first; slot < len(experts); slot++ {
		experts[slot] = firstUnused(c, token, slot, experts[:slot], func(draw uint64) int32 {
			return int32(low) + int32(draw%uint64(n))
		})
	}
}

func uniform(s Shape, _ int) picker {
	return func(c *counter, token int, experts []int32) {
		drawUniform(c, token, experts, 0, 0, s.Experts)
	}
}

// zipf gives expert e the weight floor(2^40 / power(e+1)). Weights are integers, computed
// by operations that IEEE 754 rounds the same everywhere, so that traces do not depend on
// the machine.
func zipf(power func(n float64) float64) func(s Shape, step int) picker {
	return func(s Shape, _ int) picker {
		upTo := make([]uint64, s.Experts)
		var sum uint64
		for e := range upTo {
			sum += uint64((1 << 40) / power(float64(e+1)))
			upTo[e] = sum
		}
		return weighted(upTo)
	}
}

// weighted chooses experts with integer weights; upTo has the sum of each expert's weight and of those
// before it.
func weighted(upTo []uint64) picker {
	sum := upTo[len(upTo)-1]
	choose := func(draw uint64) int32 {
		point := draw % sum
		return int32(sort.Search(len(upTo), func(e int) bool { return upTo[e] > point }))
	}
	return func(c *counter, token int, experts []int32) {
		for slot := range experts {
			experts[slot] = firstUnused(c, token, slot, experts[:slot], choose)
		}
	}
}

// balanced distributes the slots over the ranks, and moves on by one expert after each
// round over all ranks.
func balanced(s Shape, _ int) picker {
	return func(_ *counter, token int, experts []int32) {
		for slot := range experts {
			experts[slot] = int32((token + slot*(s.Experts/s.World) + slot/s.World) % s.Experts)
		}
	}
}

func rankLocal(s Shape, _ int) picker {
	return func(_ *counter, token int, experts []int32) {
		for slot := range experts {
			experts[slot] = int32((token*s.TopK + slot) % s.Experts)
		}
	}
}

func hotspot(s Shape, step int) picker {
	return func(c *counter, token int, experts []int32) {
		experts[0] = int32(step % s.Experts)
		drawUniform(c, token, experts, 1, 0, s.Experts)
	}
}

func alternating(s Shape, step int) picker {
	half := s.Experts / 2
	return func(c *counter, token int, experts []int32) {
		drawUniform(c, token, experts, 0, step%2*half, half)
	}
}

func evenCounts(world, tokensPerRank int) []int { return slices.Repeat([]int{tokensPerRank}, world) }

// linearCounts increases from T/2 on the first rank to 3T/2 on the last. The counts of opposite
// ranks add up to 2T, so that the batch has W·T tokens.
func linearCounts(world, tokensPerRank int) []int {
	counts := evenCounts(world, tokensPerRank)
	for r := range world / 2 {
		counts[r] = tokensPerRank/2 + tokensPerRank*r/(world-1)
		counts[world-1-r] = 2*tokensPerRank - counts[r]
	}
	return counts
}

// emptyRankCounts gives the last rank no tokens. The others take its tokens in turn, so
// that the batch has W·T tokens. A single rank keeps its tokens.
func emptyRankCounts(world, tokensPerRank int) []int {
	counts := evenCounts(world, tokensPerRank)
	if world == 1 {
		return counts
	}
	counts[world-1] = 0
	for i := range tokensPerRank {
		counts[i%(world-1)]++
	}
	return counts
}
