package planner

import (
	"cmp"
	"fmt"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// SimulationFamily is schedules whose time a model predicts.
var SimulationFamily = Family{
	Name:  plan.FamilySimulation,
	Cases: simulationCases, Place: simulationPlace, Fit: simulationFit, Seconds: simulationSeconds,
}

// simulationCases adds the cases of each block: by world, backend, schedule, topology and
// model.
func simulationCases(r *Resolver, block catalog.SuiteBlock) {
	for _, b := range *block.(*catalog.SimulationSuite) {
		for _, world := range r.Worlds(b.Worlds) {
			for _, be := range r.Backends(b.Backends) {
				if support := r.Platform.Support(be.Name).Simulation(); support != nil {
					simulationBackend(r, &b, be, world, support.Lack(world))
				}
			}
		}
	}
}

func simulationBackend(r *Resolver, b *catalog.SimulationBlock, be *catalog.Backend, world int, lack string) {
	c := plan.Case{Family: plan.FamilySimulation, Contract: vocab.ContractMakespan}
	r.Place(&c, be, world)
	c.Env = nil // for ranks, of which there are none
	for _, name := range b.Algorithms {
		for _, topology := range b.Topologies {
			for i := range b.Models {
				c.Block = &plan.Simulation{
					Origin: vocab.Simulated, Op: b.Op, Algorithm: name, Width: b.Width, Segments: b.Segments,
					Topology: topology, Model: plan.SimulationModel{Name: b.Models[i].Name, Model: b.Models[i].Costs()}, Sizes: b.Sizes.List(),
				}
				if lack := cmp.Or(simulationFit(be, &c), lack); lack != "" {
					r.Unsupported(&c, lack)
				} else {
					r.Runnable(be, &c)
				}
			}
		}
	}
}

// simulationPlace puts the ranks of the model nowhere: nothing about the machine that
// simulates them is part of the case.
func simulationPlace(_ *catalog.Platform, c *plan.Case) {
	c.Nodes, c.RanksPerNode, c.GPUsPerNode, c.ScaleUpDomain = 1, c.World, c.World, c.World
	c.Scope, c.ScaleOutTransport = vocab.ScopeUp, nil
	c.ScaleUpTransport, c.Transport, c.TopologyClass = vocab.Simulated, vocab.Simulated, vocab.Simulated
}

// simulationFit gives the schedule and the topology their shape. It returns why the backend, the
// schedule or the topology cannot have the case, or an empty string.
func simulationFit(be *catalog.Backend, c *plan.Case) string {
	block := *c.Simulation()
	c.Block = &block
	asked := cmp.Or(block.Width, c.World)
	var lack string
	block.Width, block.Segments, lack = shape(block.Algorithm, block.Op, schedule.Shape{Ranks: c.World, Width: block.Width, Segments: block.Segments})
	if simulate.HasRows(block.Topology) {
		block.Width = asked
	}
	_, err := simulate.NewTopology(block.Topology, c.World, asked)
	switch {
	case lack != "":
		return lack
	case err != nil:
		return err.Error()
	case be.Simulation() == nil:
		return fmt.Sprintf("backend %s simulates nothing", be.Name)
	}
	return ""
}

// simulationSeconds takes every message for 20 µs a link, of which no schedule has more than
// this, and the longest way on a ring is half of it.
func simulationSeconds(c *plan.Case, _ catalog.Pace) float64 {
	const perLink = 20e-6
	b := c.Simulation()
	messages := 2 * c.World * (c.World + 2*b.Segments)
	links := 1
	if b.Topology != "full" {
		links = 2 + c.World/2
	}
	return perLink * float64(messages*links*len(b.Sizes))
}
