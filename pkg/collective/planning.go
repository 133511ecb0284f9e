package collective

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// filters select by factors that only collective cases have.
var filters = []planner.Filter{
	{Name: "op", Kind: "op", Asked: true, Usage: "only these collective operations", Input: "Collectives: operation"},
	{Name: "dtype", Kind: "dtype", Asked: true, Usage: "only these element types of collectives", Input: "Collectives: element type"},
	{Name: "redop", Kind: "redop", Asked: true, Usage: "only these reductions of collectives", Input: "Collectives: reduction"},
}

// cases requests the cases of a block, at every world that the platform has for the backend.
func cases(r *planner.Resolver, block catalog.SuiteBlock) {
	b := block.(*SuiteBlock)
	var shape Block
	if t := b.Traffic; t != nil {
		shape.Sizes, shape.Traffic, shape.TrafficName = []int64{TrafficSize(t.Bytes)}, t.Bytes, t.Name
	} else {
		shape.Sizes = b.Sizes.List()
	}
	for world, be := range r.Each(Name, b.Backends) {
		if b.Traffic == nil || world == b.Traffic.Ranks() {
			casesOf(r, b, be, world, shape)
		}
	}
}

func casesOf(r *planner.Resolver, b *SuiteBlock, be *catalog.Backend, world int, shape Block) {
	c := r.NewCase(Name, Contract, b.Sampling, be, world)
	shape.Modes = planner.Ordered(catalog.BackendOf[Backend](be).Modes, b.Modes)
	shape.Measure = catalog.SamplingOf[Sampling](r.SamplingProfile(c.Sampling)).Counts()
	for _, op := range r.Pick("op", vocab.Ops(), b.Ops) {
		shape.Op, shape.Placements = op, placements(op, b.Placements)
		none := []string{""}
		redops := r.Pick("redop", none, none)
		if vocab.Op(op).Reduces {
			redops = r.Pick("redop", vocab.RedOps(), b.RedOps)
		}
		for _, c.Precision = range r.Pick("dtype", vocab.DTypes(), b.DTypes) {
			for _, shape.RedOp = range redops {
				for _, shape.Registration = range b.Registrations {
					for _, shape.Buffers = range b.Buffers {
						requestEach(r, be, c, shape, b)
					}
				}
			}
		}
	}
}

// requestEach requests a case with each number of CTAs, and the same with each of the algorithms that its operation
// and backend have.
func requestEach(r *planner.Resolver, be *catalog.Backend, c plan.Case, shape Block, b *SuiteBlock) {
	has := catalog.BackendOf[Backend](be).Algorithms
	env := c.Env
	for _, name := range append([]string{""}, AlgorithmsOf(shape.Op, shape.Registration, planner.Ordered(has, b.Algorithms))...) {
		for _, ctas := range b.CTAs {
			block := shape
			block.Algorithm, block.CTAs = name, ctas
			c.Block, c.Env = &block, planner.With(env, block.Selecting())
			r.Request(be, &c)
		}
	}
}

// Counts returns the counts of a profile, with one operation per group call and one launch of a graph
// per window.
func (s *Sampling) Counts() Counts {
	return Counts{
		Warmup: s.Warmup, Iterations: s.Iterations, Trials: s.Trials, Aggregate: 1, Launches: 1, Checks: s.Checks,
	}
}

// placements removes in_place if the operation does not support it.
func placements(op string, want []string) []string {
	if vocab.Op(op).InPlace {
		return want
	}
	return slices.DeleteFunc(slices.Clone(want), func(p string) bool { return p == vocab.InPlace })
}

// lacks names the factor of the case that the backend does not support, or returns "".
func lacks(be *catalog.Backend, c *plan.Case) string {
	has, b := catalog.BackendOf[Backend](be), Of(c)
	wrong := cmp.Or(WrongGroups(b, c.World), WrongWorld(b.Op, b.Width(c.World)))
	switch {
	case has == nil:
		return fmt.Sprintf("backend %s has no collectives", be.Name)
	case len(b.Placements) == 0:
		return fmt.Sprintf("operation %s has no in-place form", b.Op)
	case wrong != "":
		return wrong
	case len(b.Modes) == 0:
		return fmt.Sprintf("backend %s supports none of the requested timing modes", be.Name)
	case len(planner.Ordered(has.Modes, b.Modes)) < len(b.Modes):
		return fmt.Sprintf("backend %s has only the timing modes %s", be.Name, strings.Join(has.Modes, ", "))
	case !slices.Contains(has.Ops, b.Op):
		return fmt.Sprintf("backend %s has no operation %s", be.Name, b.Op)
	case !slices.Contains(has.DTypes, c.Precision):
		return fmt.Sprintf("backend %s has no element type %s", be.Name, c.Precision)
	case b.RedOp != "" && !slices.Contains(has.RedOps, b.RedOp):
		return fmt.Sprintf("backend %s has no reduction %s", be.Name, b.RedOp)
	case !slices.Contains(has.Registrations, b.Registration):
		return fmt.Sprintf("backend %s has no registration %s", be.Name, b.Registration)
	case b.Algorithm != "" && len(AlgorithmsOf(b.Op, b.Registration, []string{b.Algorithm})) == 0:
		return fmt.Sprintf("operation %s with registration %s has no algorithm %s", b.Op, b.Registration, b.Algorithm)
	case b.Algorithm != "" && !slices.Contains(has.Algorithms, b.Algorithm):
		return fmt.Sprintf("backend %s has no algorithm %s", be.Name, b.Algorithm)
	case b.CTAs > 0 && len(AlgorithmsOf(b.Op, b.Registration, has.Algorithms)) == 0:
		return fmt.Sprintf("backend %s does not let %s choose its number of CTAs", be.Name, b.Op)
	case has.Ungrouped && b.Measure.Aggregate > 1:
		return fmt.Sprintf("backend %s has no group calls of several operations, but -m requests %d", be.Name, b.Measure.Aggregate)
	}
	return ""
}

// Seconds estimates the duration of a case, assuming that every operation moves its size twice.
func Seconds(c *plan.Case, pace catalog.Pace) float64 {
	b, t := Of(c), Of(c).Measure
	ops := float64(len(b.Placements) * len(b.Modes) * t.Trials * (t.Warmup + t.Iterations*t.Aggregate*t.Launches))
	pairs := max(1, b.Pairs(c.World))
	if t.Checks > DefaultChecks { // fewer are within the error of the estimate
		ops += float64(len(b.Placements) * len(b.Modes) * max(MinChecks, t.Checks/pairs))
	}
	ops += float64(len(b.Placements) * t.Repeatable)
	var micros float64
	for _, size := range b.Sizes {
		micros += ops * (pace.Micros + 2*float64(size)/(pace.GBps*1e3))
	}
	return float64(pairs) * (micros / 1e6)
}
