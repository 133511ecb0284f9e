package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// ScheduleFamily is the collectives as explicit steps.
var ScheduleFamily = Family{
	Name:  plan.FamilySchedule,
	Cases: scheduleCases, Fit: scheduleFit, Seconds: scheduleSeconds,
}

// scheduleCases adds the cases of each block: by world, backend, schedule, element type and
// buffers.
func scheduleCases(r *Resolver, block catalog.SuiteBlock) {
	for _, b := range *block.(*catalog.ScheduleSuite) {
		for _, world := range r.Worlds(r.Platform.ScheduleWorlds(b.Backends)) {
			for _, be := range r.Backends(b.Backends) {
				if slices.Contains(r.Platform.ScheduleWorlds([]string{be.Name}), world) {
					scheduleBackend(r, &b, be, world)
				}
			}
		}
	}
}

func scheduleBackend(r *Resolver, b *catalog.ScheduleBlock, be *catalog.Backend, world int) {
	c := plan.Case{Family: plan.FamilySchedule, Sampling: cmp.Or(b.Sampling, r.Suite.Sampling), Contract: vocab.ContractOp}
	r.Place(&c, be, world)
	sampling := r.SamplingProfile(c.Sampling).Collective()
	for _, name := range b.Algorithms {
		for _, c.Precision = range Ordered(vocab.DTypes(), b.DTypes) {
			for _, buffers := range b.Buffers {
				c.Block = &plan.Schedule{
					Op: b.Op, Algorithm: name, Width: b.Width, Segments: b.Segments, RedOp: ScheduleRedOp(b.Op), Sizes: b.Sizes.List(),
					Placements: b.Placements, Modes: Ordered(be.Schedule().Modes, b.Modes), Buffers: buffers,
					Measure: collectiveTiming(sampling),
				}
				if lack := scheduleFit(be, &c); lack != "" {
					r.Unsupported(&c, lack)
				} else {
					r.Runnable(be, &c)
				}
			}
		}
	}
}

// ScheduleRedOp is the reduction of the programs of a collective; empty if it has none.
func ScheduleRedOp(op string) string {
	if vocab.Op(op).Reduces {
		return "sum"
	}
	return ""
}

// NoShape says why a schedule has no program of a shape, or is empty. No machine and
// no backend can change that.
func NoShape(algorithm, op string, s schedule.Shape) string {
	_, _, lack := shape(algorithm, op, s)
	return lack
}

// shape returns the width and the segments of a schedule; see schedule.ShapeOf. It says why the
// schedule has no such shape, or nothing.
func shape(algorithm, op string, s schedule.Shape) (width, segments int, lack string) {
	s, err := schedule.ShapeOf(algorithm, schedule.Collective(op), s)
	if err != nil {
		lack = err.Error()
	}
	return s.Width, s.Segments, lack
}

// scheduleFit gives the schedule its shape. It names what of the case the backend or the
// schedule does not have, or returns nothing.
func scheduleFit(be *catalog.Backend, c *plan.Case) string {
	has, block := be.Schedule(), *c.Schedule()
	c.Block = &block
	var lack string
	if block.PlanFile == "" {
		block.Width, block.Segments, lack = shape(block.Algorithm, block.Op, schedule.Shape{Ranks: c.World, Width: block.Width, Segments: block.Segments})
	}
	switch {
	case lack != "":
		return lack
	case has == nil:
		return fmt.Sprintf("backend %s runs no schedules", be.Name)
	case len(block.Modes) == 0 || len(Ordered(has.Modes, block.Modes)) < len(block.Modes):
		return fmt.Sprintf("backend %s runs schedules only in the timing modes %s", be.Name, strings.Join(has.Modes, ", "))
	case !slices.Contains(has.DTypes, c.Precision):
		return fmt.Sprintf("backend %s has no element type %s", be.Name, c.Precision)
	}
	return ""
}

// scheduleSeconds takes every step for an operation, and what the busiest rank sends to move
// twice. No schedule has more steps on its longest path than twice its ranks and segments; of a
// plan, they are taken for as many as a thread block of MSCCL may have.
func scheduleSeconds(c *plan.Case, pace catalog.Pace) float64 {
	b := c.Schedule()
	measured := *c
	measured.Block = b.Measured()
	steps := 2 * (c.World + b.Segments)
	if b.PlanFile != "" {
		steps = 256
	}
	pace.Micros *= float64(steps)
	pace.GBps /= sentVectors(c)
	return collectiveSeconds(&measured, pace)
}

// sentVectors is how often the busiest rank of a schedule sends as much as the whole vector, and
// at least 1: a copy out of place moves as much.
func sentVectors(c *plan.Case) float64 {
	b := c.Schedule()
	if b.PlanFile != "" {
		return float64(c.World) // to every other rank, as in a direct all_reduce
	}
	p, err := schedule.Generate(b.Algorithm, schedule.Collective(b.Op), schedule.Shape{Ranks: c.World, Width: b.Width, Segments: b.Segments})
	if err != nil {
		return 1 // scheduleFit refuses it
	}
	chunks, _ := p.SentBytes(int64(p.Chunks), 1)
	return max(1, float64(slices.Max(chunks))/float64(p.Chunks))
}
