package simulation

import (
	"cmp"
	"fmt"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// cases requests a case for each world, backend, schedule, topology and model of a suite's block.
func cases(r *planner.Resolver, block catalog.SuiteBlock) {
	b := block.(*SuiteBlock)
	for _, world := range r.Worlds(b.Ranks) {
		for _, be := range r.Backends(b.Backends) {
			if support := catalog.SupportOf[Support](r.Platform.Support(be.Name)); support != nil {
				backendCases(r, b, be, world, support.Lack(world))
			}
		}
	}
}

// backendCases requests the cases of one backend and world. lack is why the platform does not support the world, or "".
func backendCases(r *planner.Resolver, b *SuiteBlock, be *catalog.Backend, world int, lack string) {
	c := plan.Case{Family: Name, Contract: Contract}
	r.Place(&c, be, world)
	c.Env = nil // no ranks need it
	for _, name := range b.Algorithms {
		for _, topology := range b.Topologies {
			for i := range b.Models {
				c.Block = &Block{
					Origin: Simulated, Op: b.Op, Algorithm: name, Width: b.Width, Segments: b.Segments,
					Topology: topology, Model: Model{Name: b.Models[i].Name, Model: b.Models[i].Costs()}, Sizes: b.Sizes.List(),
				}
				r.Request(be, &c, lack)
			}
		}
	}
}

// place gives all cases the same placement of ranks: a case does not depend on the machine that simulates it.
func place(_ *catalog.Platform, c *plan.Case) {
	c.Nodes, c.RanksPerNode, c.GPUsPerNode, c.ScaleUpDomain = 1, c.World, c.World, c.World
	c.Scope, c.ScaleOutTransport = vocab.ScopeUp, nil
	c.ScaleUpTransport, c.Transport, c.TopologyClass = Simulated, Simulated, Simulated
}

// fit sets the shape of the schedule and the topology. It returns why the backend, the schedule or the topology does not support the
// case, or "".
func fit(be *catalog.Backend, c *plan.Case) string {
	block := *Of(c)
	c.Block = &block
	asked := cmp.Or(block.Width, c.World)
	shape, noShape := schedule.ShapeOf(block.Algorithm, schedule.Collective(block.Op), schedule.Shape{Ranks: c.World, Width: block.Width, Segments: block.Segments})
	block.Width, block.Segments = shape.Width, shape.Segments
	if simulate.HasRows(block.Topology) {
		block.Width = asked
	}
	_, err := simulate.NewTopology(block.Topology, c.World, asked)
	switch {
	case noShape != nil:
		return noShape.Error()
	case err != nil:
		return err.Error()
	case catalog.BackendOf[Backend](be) == nil:
		return fmt.Sprintf("backend %s simulates nothing", be.Name)
	}
	return ""
}

// seconds assumes 20 µs for each message and link, with an upper bound for the messages of a schedule, and half a ring as the longest
// path.
func seconds(c *plan.Case, _ catalog.Pace) float64 {
	const perLink = 20e-6
	b := Of(c)
	messages := 2 * c.World * (c.World + 2*b.Segments)
	links := 1
	if b.Topology != "full" {
		links = 2 + c.World/2
	}
	return perLink * float64(messages*links*len(b.Sizes))
}
