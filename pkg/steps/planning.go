package steps

import (
	"fmt"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// cases requests the cases of a block.
func cases(r *planner.Resolver, block catalog.SuiteBlock) {
	b := block.(*SuiteBlock)
	for world, be := range r.Each(Name, b.Backends) {
		c := r.NewCase(Name, collective.Contract, b.Sampling, be, world)
		sampling := catalog.SamplingOf[collective.Sampling](r.SamplingProfile(c.Sampling))
		for _, name := range b.Algorithms {
			for _, c.Precision = range planner.Ordered(vocab.DTypes(), b.DTypes) {
				for _, buffers := range b.Buffers {
					c.Block = &Block{
						Op: b.Op, Algorithm: name, Width: b.Width, Segments: b.Segments, RedOp: schedule.RedOp(b.Op), Sizes: b.Sizes.List(),
						Placements: b.Placements, Modes: planner.Ordered(catalog.BackendOf[Backend](be).Modes, b.Modes), Buffers: buffers,
						Measure: sampling.Counts(),
					}
					r.Request(be, &c)
				}
			}
		}
	}
}

// fits sets the shape of the schedule. It names the factor of the case that the backend or the schedule does not support, or
// returns "".
func fits(be *catalog.Backend, c *plan.Case) string {
	has, block := catalog.BackendOf[Backend](be), *Of(c)
	c.Block = &block
	var noShape error
	if block.PlanFile == "" {
		var s schedule.Shape
		s, noShape = schedule.ShapeOf(block.Algorithm, schedule.Collective(block.Op), block.shape(c.World))
		block.Width, block.Segments = s.Width, s.Segments
	}
	switch {
	case noShape != nil:
		return noShape.Error()
	case has == nil:
		return fmt.Sprintf("backend %s does not support schedules", be.Name)
	case len(block.Modes) == 0 || len(planner.Ordered(has.Modes, block.Modes)) < len(block.Modes):
		return fmt.Sprintf("backend %s runs schedules only in the timing modes %s", be.Name, strings.Join(has.Modes, ", "))
	case !slices.Contains(has.DTypes, c.Precision):
		return fmt.Sprintf("backend %s has no element type %s", be.Name, c.Precision)
	}
	return ""
}

// seconds estimates the duration of a case. It counts every step as an operation, and assumes that the data of the busiest rank
// move twice. The longest path of a schedule has at most twice as many steps as the ranks and segments together. For a plan file,
// seconds assumes the maximum number of steps of a thread block of MSCCL.
func seconds(c *plan.Case, pace catalog.Pace) float64 {
	b := Of(c)
	measured := *c
	measured.Block = b.Measured()
	steps := 2 * (c.World + b.Segments)
	if b.PlanFile != "" {
		steps = 256
	}
	pace.Micros *= float64(steps)
	pace.GBps /= sentVectors(c)
	return collective.Seconds(&measured, pace)
}

// sentVectors returns the data that the busiest rank of a schedule sends, in multiples of the vector's size. It is at least 1, since
// an out-of-place copy moves the whole vector.
func sentVectors(c *plan.Case) float64 {
	b := Of(c)
	if b.PlanFile != "" {
		return float64(c.World) // as in a direct all_reduce
	}
	p, err := schedule.Generate(b.Algorithm, schedule.Collective(b.Op), b.shape(c.World))
	if err != nil {
		return 1 // fits refuses it
	}
	chunks, _ := p.SentBytes(int64(p.Chunks), 1)
	return max(1, float64(slices.Max(chunks))/float64(p.Chunks))
}
