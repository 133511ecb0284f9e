package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// OverlapFamily is computation beside communication.
var OverlapFamily = Family{Name: plan.FamilyOverlap, Cases: overlapCases, Fit: overlapFit, Seconds: overlapSeconds}

// overlapCases adds the cases of each block: by world, backend, form, operation, element type
// and what computes.
func overlapCases(r *Resolver, block catalog.SuiteBlock) {
	for _, b := range *block.(*catalog.OverlapSuite) {
		for _, world := range r.Worlds(r.Platform.OverlapWorlds(b.Backends)) {
			for _, be := range r.Backends(b.Backends) {
				if slices.Contains(r.Platform.OverlapWorlds([]string{be.Name}), world) {
					overlapBackend(r, &b, be, world)
				}
			}
		}
	}
}

func overlapBackend(r *Resolver, b *catalog.OverlapBlock, be *catalog.Backend, world int) {
	c := plan.Case{Family: plan.FamilyOverlap, Sampling: cmp.Or(b.Sampling, r.Suite.Sampling), Contract: vocab.ContractOverlap}
	r.Place(&c, be, world)
	for _, form := range Ordered(vocab.OverlapForms(), b.Forms) {
		for _, how := range communications(form, b) {
			for _, c.Precision = range Ordered(vocab.DTypes(), b.DTypes) {
				for _, compute := range Ordered(vocab.Computes(), b.Computes) {
					block := Overlap(form, how.op, *r.SamplingProfile(c.Sampling).Overlap())
					block.Algorithm = how.algorithm
					block.Hidden, block.Compute, block.Sizes = int64(b.Hidden), compute, b.Sizes.List()
					if form == vocab.Beside {
						block.Products, block.Collectives = b.Products, b.Collectives
					}
					c.Block = block
					if lack := overlapFit(be, &c); lack != "" {
						r.Unsupported(&c, lack)
					} else {
						r.Runnable(be, &c)
					}
				}
			}
		}
	}
}

// communication is a collective, and the schedule that does it or nothing.
type communication struct{ op, algorithm string }

// communications lists those of a form of a block.
func communications(form string, b *catalog.OverlapBlock) (all []communication) {
	algorithms := b.Algorithms
	if form != vocab.Beside || len(algorithms) == 0 {
		algorithms = []string{""}
	}
	for _, op := range OverlapOps(form, b.Ops) {
		for _, name := range algorithms {
			all = append(all, communication{op, name})
		}
	}
	return all
}

// OverlapOps is the operations with which a form is measured, of those that are asked for: a
// linear layer gathers.
func OverlapOps(form string, asked []string) []string {
	if form == vocab.Beside {
		return Ordered(vocab.Ops(), asked)
	}
	return []string{"all_gather"}
}

// Overlap returns the block of a form, without width, sizes, counts and what computes.
func Overlap(form, op string, s catalog.OverlapSampling) *plan.Overlap {
	return &plan.Overlap{Form: form, Op: op, RedOp: ScheduleRedOp(op), Timing: plan.OverlapTiming{Warmup: s.Warmup, Iterations: s.Iterations}}
}

// overlapFit gives the schedule of a case its shape. It names what of the case the backend or
// the schedule does not have, or returns nothing.
func overlapFit(be *catalog.Backend, c *plan.Case) string {
	has, b := be.Overlap(), *c.Overlap()
	c.Block = &b
	lack := ""
	if b.Algorithm != "" {
		b.Width, b.Segments, lack = shape(b.Algorithm, b.Op, schedule.Shape{Ranks: c.World, Width: b.Width, Segments: b.Segments})
	}
	switch {
	case lack != "":
		return lack
	case has == nil:
		return fmt.Sprintf("backend %s measures no overlap", be.Name)
	case c.World < 2:
		return "one rank has nobody to communicate with: overlap needs at least 2"
	case c.Nodes > 1:
		return "overlap is measured on one node: ranks of several nodes have no common gate"
	case len(has.Ops) == 0 && b.Algorithm == "":
		return fmt.Sprintf("backend %s runs schedules alone: ask for form beside and a schedule (--schedule rotation)", be.Name)
	case b.Algorithm == "" && !slices.Contains(has.Ops, b.Op):
		return fmt.Sprintf("backend %s has no %s beside matrix products; it has %s", be.Name, b.Op, strings.Join(has.Ops, ", "))
	case !slices.Contains(has.DTypes, c.Precision):
		return fmt.Sprintf("backend %s multiplies no matrices of %s; it has %s", be.Name, c.Precision, strings.Join(has.DTypes, ", "))
	case !slices.Contains(has.Computes, b.Compute):
		return fmt.Sprintf("backend %s has no compute %s; it has %s", be.Name, b.Compute, strings.Join(has.Computes, ", "))
	}
	return OverlapRemainder(c)
}

// OverlapRemainder says which size of a linear layer does not divide among its ranks, or is
// empty.
func OverlapRemainder(c *plan.Case) string {
	b, element := c.Overlap(), elementBytes(c.Precision)
	for _, size := range b.Sizes {
		if _, ok := b.Product(size, element, c.World); !ok {
			return fmt.Sprintf("%d bytes do not divide into rows of %d elements of %s, as many for each of %d ranks, and 4 × %d columns among them", size, b.Hidden, c.Precision, c.World, b.Hidden)
		}
	}
	return ""
}

// elementBytes is the size of an element; 1 of an unknown type, which the definitions refuse.
func elementBytes(dtype string) int64 {
	t, err := numeric.ParseType(dtype)
	if err != nil {
		return 1
	}
	return int64(t.Size())
}

// overlapSeconds takes every product for one by a plain loop on a host and, on devices, by the
// kernel: libraries are faster. Each is computed once more to be checked.
func overlapSeconds(c *plan.Case, pace catalog.Pace) float64 {
	const (
		loop     = 1e9 // multiplications a second
		kernel   = 1e12
		perCheck = 2
	)
	b := c.Overlap()
	rate := loop
	if b.Compute != vocab.ComputeLoop {
		rate = kernel
	}
	windows := float64((b.Timing.Iterations + b.Timing.Warmup) * len(vocab.Contenders(b.Form)))
	seconds := 0.0
	for _, size := range b.Sizes {
		p, _ := b.Product(size, elementBytes(c.Precision), c.World)
		products := float64(max(1, b.Products)+perCheck) * float64(p.M) * float64(p.N) * float64(p.K) / rate
		moves := float64(max(1, b.Collectives)) * (pace.Micros*float64(c.World) + perCheck*float64(size)/(pace.GBps*1e3)) / 1e6
		seconds += windows * (products + moves)
	}
	return seconds
}
