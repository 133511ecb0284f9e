package overlap

import (
	"fmt"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// minWorld is the minimum world size of overlap.
const minWorld = 2

// cases requests the cases of a block.
func cases(r *planner.Resolver, block catalog.SuiteBlock) {
	b := block.(*SuiteBlock)
	for world, be := range r.Each(Name, b.Backends) {
		c := r.NewCase(Name, Contract, b.Sampling, be, world)
		for _, form := range planner.Ordered(Forms(), b.Forms) {
			for _, how := range communications(form, b) {
				for _, c.Precision = range planner.Ordered(vocab.DTypes(), b.DTypes) {
					for _, compute := range planner.Ordered(Computes(), b.Computes) {
						block := New(form, how.op, catalog.SamplingOf[Sampling](r.SamplingProfile(c.Sampling)))
						block.Algorithm = how.algorithm
						block.Hidden, block.Compute, block.Sizes = int64(b.Hidden), compute, b.Sizes.List()
						if form == Beside {
							block.Products, block.Collectives = b.Products, b.Collectives
						}
						c.Block = block
						r.Request(be, &c)
					}
				}
			}
		}
	}
}

// communication is a collective and its schedule, which is "" if the library performs it.
type communication struct{ op, algorithm string }

// communications lists the communications that a block requests for a form.
func communications(form string, b *SuiteBlock) (all []communication) {
	algorithms := b.Algorithms
	if form != Beside || len(algorithms) == 0 {
		algorithms = []string{""}
	}
	for _, op := range Ops(form, b.Ops) {
		for _, name := range algorithms {
			all = append(all, communication{op, name})
		}
	}
	return all
}

// Ops returns the operations for a form: the requested ones for form beside, all_gather for a linear layer.
func Ops(form string, asked []string) []string {
	if form == Beside {
		return planner.Ordered(vocab.Ops(), asked)
	}
	return []string{"all_gather"}
}

// New returns the block of a form. The caller sets its hidden width, sizes, counts and compute.
func New(form, op string, s *Sampling) *Block {
	return &Block{Form: form, Op: op, RedOp: schedule.RedOp(op), Timing: Timing{Warmup: s.Warmup, Iterations: s.Iterations}}
}

// fit sets the shape of a case's schedule. It names the factor of the case that the backend or the schedule does not support,
// or returns "".
func fit(be *catalog.Backend, c *plan.Case) string {
	has, b := catalog.BackendOf[Backend](be), *Of(c)
	c.Block = &b
	var noShape error
	if b.Algorithm != "" {
		var s schedule.Shape
		s, noShape = schedule.ShapeOf(b.Algorithm, schedule.Collective(b.Op), schedule.Shape{Ranks: c.World, Width: b.Width, Segments: b.Segments})
		b.Width, b.Segments = s.Width, s.Segments
	}
	switch {
	case noShape != nil:
		return noShape.Error()
	case has == nil:
		return fmt.Sprintf("backend %s does not support overlap", be.Name)
	case c.World < minWorld:
		return "overlap requires at least 2 ranks, not 1"
	case c.Nodes > 1:
		return "overlap is measured on one node only"
	case len(has.Ops) == 0 && b.Algorithm == "":
		return fmt.Sprintf("backend %s runs only schedules: use form beside with a schedule (--schedule rotation)", be.Name)
	case b.Algorithm == "" && !slices.Contains(has.Ops, b.Op):
		return fmt.Sprintf("backend %s does not support %s beside matrix products: want %s", be.Name, b.Op, strings.Join(has.Ops, ", "))
	case !slices.Contains(has.DTypes, c.Precision):
		return fmt.Sprintf("backend %s does not multiply matrices of %s: want %s", be.Name, c.Precision, strings.Join(has.DTypes, ", "))
	case Copies(b.Compute) && b.Form != Beside:
		return fmt.Sprintf("a linear layer multiplies: %s is for form %s", b.Compute, Beside)
	case !slices.Contains(has.Computes, b.Compute):
		return fmt.Sprintf("backend %s does not support compute %s: want %s", be.Name, b.Compute, strings.Join(has.Computes, ", "))
	}
	return Remainder(c)
}

// Remainder returns why a size of a linear layer cannot be divided among its ranks, or "".
func Remainder(c *plan.Case) string {
	b, element := Of(c), elementBytes(c.Precision)
	for _, size := range b.Sizes {
		if _, ok := b.Product(size, element, c.World); !ok {
			return fmt.Sprintf("%d bytes of %s cannot be divided evenly among %d ranks: the rows of %d elements and the 4 × %d columns must both be multiples of the ranks", size, c.Precision, c.World, b.Hidden, b.Hidden)
		}
	}
	return ""
}

// elementBytes returns the size of an element in bytes, or 1 for an unknown type, which the definitions refuse.
func elementBytes(dtype string) int64 {
	t, err := numeric.ParseType(dtype)
	if err != nil {
		return 1
	}
	return int64(t.Size())
}

// seconds estimates the duration of a case. It assumes the slowest means of computing products: a plain loop on a host and the
// kernel on devices. Each check computes the products once more.
func seconds(c *plan.Case, pace catalog.Pace) float64 {
	const (
		loop     = 1e9 // multiplications a second
		kernel   = 1e12
		perCheck = 2
	)
	b := Of(c)
	rate := loop
	if b.Compute != ComputeLoop {
		rate = kernel
	}
	windows := float64((b.Timing.Iterations + b.Timing.Warmup) * len(Contenders(b.Form)))
	seconds := 0.0
	for _, size := range b.Sizes {
		p, _ := b.Product(size, elementBytes(c.Precision), c.World)
		products := float64(max(1, b.Products)+perCheck) * float64(p.M) * float64(p.N) * float64(p.K) / rate
		moves := float64(max(1, b.Collectives)) * (pace.Micros*float64(c.World) + perCheck*float64(size)/(pace.GBps*1e3)) / 1e6
		seconds += windows * (products + moves)
	}
	return seconds
}
