package planner

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// collectiveBlock adds the cases of one block on one platform: by world, backend,
// operation, element type, reduction, registration and buffers, at every world
// that the platform has for the backend.
func (r *resolver) collectiveBlock(p *catalog.Platform, s *catalog.Suite, b *catalog.CollectiveBlock) {
	var shape plan.Collective
	traffic := b.Traffic
	if traffic != nil {
		shape.Sizes, shape.Traffic, shape.TrafficName = []int64{plan.TrafficSize(traffic.Bytes)}, traffic.Bytes, traffic.Name
	} else {
		shape.Sizes = b.Sizes.List()
	}
	worlds := p.CollectiveWorlds(b.Backends)
	if len(worlds) == 0 {
		return
	}
	// Room for all that may come: a list that grows is copied again and again.
	most := len(worlds) * len(b.Ops) * len(b.DTypes) * max(1, len(b.RedOps)) * len(b.Registrations) * len(b.Buffers) * s.Repeats
	r.other = slices.Grow(r.other, min(most, mostCases(r.filters)))
	for _, world := range worlds {
		if !keeps(r.filters.Worlds, world) || traffic != nil && traffic.Ranks() != world {
			continue
		}
		for i := range r.cat.Backends {
			be := &r.cat.Backends[i]
			if !slices.Contains(b.Backends, be.Name) || !keeps(r.filters.Backends, be.Name) {
				continue
			}
			if slices.Contains(p.CollectiveWorlds([]string{be.Name}), world) {
				r.collectiveBackend(p, s, b, be, world, shape)
			}
		}
	}
}

func (r *resolver) collectiveBackend(p *catalog.Platform, s *catalog.Suite, b *catalog.CollectiveBlock, be *catalog.Backend, world int, shape plan.Collective) {
	c := r.common(p, s, be, world)
	c.Family, c.Sampling, c.Contract = plan.FamilyCollective, cmp.Or(b.Sampling, s.Sampling), plan.ContractOp
	sampling := r.cat.SamplingProfile(c.Sampling).Collective()
	shape.Modes = ordered(be.Collective().Modes, b.Modes)
	shape.Measure = plan.CollectiveTiming{
		Warmup: sampling.Warmup, Iterations: sampling.Iterations, Trials: sampling.Trials, Aggregate: 1, Launches: 1,
	}
	for _, op := range ordered(vocab.Ops(), b.Ops) {
		if !keeps(r.filters.Ops, op) {
			continue
		}
		shape.Op, shape.Placements = op, placements(op, b.Placements)
		redops := []string{""}
		if vocab.Reduces(op) {
			redops = ordered(vocab.RedOps(), b.RedOps)
		}
		for _, dtype := range ordered(vocab.DTypes(), b.DTypes) {
			for _, redop := range redops {
				if !keeps(r.filters.DTypes, dtype) || !keeps(r.filters.RedOps, redop) {
					continue
				}
				c.Precision, shape.RedOp = dtype, redop
				r.collectiveCases(p, s, b, be, c, shape)
			}
		}
	}
}

// collectiveCases adds the cases that differ in registration and buffers alone.
// What the backend cannot do is unsupported.
func (r *resolver) collectiveCases(p *catalog.Platform, s *catalog.Suite, b *catalog.CollectiveBlock, be *catalog.Backend, c plan.Case, shape plan.Collective) {
	for _, registration := range b.Registrations {
		for _, buffers := range b.Buffers {
			block := shape
			block.Registration, block.Buffers = registration, buffers
			c.Block = &block
			c.CaseID = c.ID()
			if lack := lacks(be, &c); lack != "" {
				r.unsupported(c, lack)
			} else {
				r.runnable(p, be, c, s.Repeats)
			}
		}
	}
}

// placements leaves in_place out where the operation has no such form.
func placements(op string, want []string) []string {
	if vocab.HasInPlace(op) {
		return want
	}
	return slices.DeleteFunc(slices.Clone(want), func(p string) bool { return p == vocab.InPlace })
}

// lacks names what of the case the backend does not have, or is empty.
func lacks(be *catalog.Backend, c *plan.Case) string {
	has := be.Collective()
	switch {
	case has == nil:
		return fmt.Sprintf("backend %s has no collectives", be.Name)
	case len(c.Collective().Placements) == 0:
		return fmt.Sprintf("operation %s has no in-place form", c.Collective().Op)
	case c.Collective().Op == "hypercube" && bits.OnesCount(uint(c.World)) != 1:
		return fmt.Sprintf("operation hypercube needs a power of two of ranks, not %d", c.World)
	case vocab.Pairwise(c.Collective().Op) && c.World < 2:
		return fmt.Sprintf("operation %s needs two ranks", c.Collective().Op)
	case len(c.Collective().Modes) == 0:
		return fmt.Sprintf("backend %s has none of the timing modes", be.Name)
	case len(ordered(has.Modes, c.Collective().Modes)) < len(c.Collective().Modes):
		return fmt.Sprintf("backend %s has only the timing modes %s", be.Name, strings.Join(has.Modes, ", "))
	case !slices.Contains(has.Ops, c.Collective().Op):
		return fmt.Sprintf("backend %s has no operation %s", be.Name, c.Collective().Op)
	case !slices.Contains(has.DTypes, c.Precision):
		return fmt.Sprintf("backend %s has no element type %s", be.Name, c.Precision)
	case c.Collective().RedOp != "" && !slices.Contains(has.RedOps, c.Collective().RedOp):
		return fmt.Sprintf("backend %s has no reduction %s", be.Name, c.Collective().RedOp)
	case !slices.Contains(has.Registrations, c.Collective().Registration):
		return fmt.Sprintf("backend %s has no registration %s", be.Name, c.Collective().Registration)
	}
	return ""
}
