package simulation_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	"github.com/collectivex/collectivex/pkg/simulation"
)

func compute(t *testing.T, c plan.Case) *simulation.Document {
	t.Helper()
	d := resulttest.New(c, resulttest.Attempt()).(*simulation.Document)
	require.NoError(t, simulation.Compute(t.Context(), d))
	require.NoError(t, result.Validate(d))
	return d
}

// The all_reduces of the shipped suite take exactly what closed formulas say: with
// α = 1000 ns, β = 0.02 ns/B and γ = 0.001 ns/B, a ring takes 2(n−1)(α+cβ)+(n−1)cγ, and so on.
func TestClosedFormulas(t *testing.T) {
	want := map[string]map[int64]int64{ // picoseconds by case and size
		"local-simulator-all-reduce-ring-full-links-w8":          {1 << 20: 51_617_664},
		"local-simulator-all-reduce-rabenseifner-full-links-w8":  {1 << 20: 43_617_664},
		"local-simulator-all-reduce-doubling-full-links-w8":      {1 << 20: 69_060_288},
		"local-simulator-all-reduce-ring-full-links-w6":          {98_304: 13_358_720},
		"local-simulator-all-reduce-torus-2d-x3-full-links-w6":   {98_304: 9_358_720},
		"local-simulator-all-reduce-ring-full-full-links-w6":     {98_304: 15_321_920},
		"local-simulator-all-reduce-torus-full-x3-full-links-w6": {98_304: 9_193_152},
		"local-simulator-all-reduce-mesh-chain-x3-full-links-w6": {98_304: 18_091_392},
	}
	for _, c := range plantest.Simulations() {
		d := compute(t, c)
		require.Equal(t, "simulated", d.Simulation.Origin)
		require.Equal(t, "symbolic", d.Simulation.Verification)
		for i := range d.Simulation.Rows {
			r := &d.Simulation.Rows[i]
			if ps, ok := want[c.CaseID][r.Bytes]; ok {
				require.Equal(t, ps, r.Makespan, c.CaseID)
				delete(want[c.CaseID], r.Bytes)
			}
		}
		if len(want[c.CaseID]) == 0 {
			delete(want, c.CaseID)
		}
	}
	require.Empty(t, want, "cases or sizes that the suite lacks")
}

// All costs that a named schedule can have are parts of the critical path, whose sum is the makespan.
func TestEveryCostHasAPart(t *testing.T) {
	d := compute(t, plantest.Simulation(func(c *plan.Case) {
		b := simulation.Of(c)
		b.Algorithm, b.Width, b.Topology = "direct_one_phase", 0, "full"
		b.Op, b.Model.Model = "all_reduce", simulate.Model{
			Sharing: "fifo", Engines: 1, Latency: 100, PerByte: 0.5, Overhead: 7, ReduceByte: 0.25, Start: 11,
			MemorySetup: 3, MemoryByte: 0.125, Issue: 13,
		}
	}))
	for _, part := range d.Simulation.Rows[0].Path.Parts() {
		if part.Name != "link wait" && part.Name != "engine wait" {
			require.Positive(t, part.Picoseconds, part.Name)
		}
	}
}

// A model of measured messages gives their times: three messages one after the other.
func TestMeasuredModel(t *testing.T) {
	var pairs []simulate.Pair
	for src := range 4 {
		pairs = append(pairs, simulate.Pair{Src: src, Dst: (src + 1) % 4, Classes: []simulate.Class{{Points: []simulate.Point{{Bytes: 1024, Nanoseconds: 2500}}}}})
	}
	c := plantest.Simulation(func(c *plan.Case) {
		b := simulation.Of(c)
		c.World, c.RanksPerNode, c.GPUsPerNode, c.ScaleUpDomain = 4, 4, 4, 4
		b.Op, b.Sizes = "all_gather", []int64{4096}
		b.Model.Model = simulate.Model{Origin: "measured elsewhere", Sharing: "unloaded", Engines: 1, Pairs: pairs}
	})
	d := compute(t, c)
	require.Equal(t, int64(3*2_500_000), d.Simulation.Rows[0].Makespan)
	require.Equal(t, "measured elsewhere", d.Simulation.Model.Source)
	require.Len(t, d.Simulation.Model.SHA256, 64)
}

// A model with a memory has its reads and writes in the critical path: in each of the seven steps
// of a ring, a rank reads what it sends and writes what it receives.
func TestModelWithMemory(t *testing.T) {
	c := plantest.Simulation(func(c *plan.Case) {
		b := simulation.Of(c)
		c.World, c.RanksPerNode, c.GPUsPerNode, c.ScaleUpDomain = 8, 8, 8, 8
		b.Op, b.Algorithm, b.Topology, b.Sizes = "all_gather", "ring", "full", []int64{8 << 10}
		b.Model.Model = simulate.Model{Sharing: "unloaded", Engines: 1, Latency: 1000, MemorySetup: 100, MemoryByte: 0.5}
	})
	r := compute(t, c).Simulation.Rows[0]
	require.Equal(t, int64(7*2*(100+512)*1000), r.Path.Memory)
	require.Equal(t, r.Makespan, r.Path.Memory+r.Path.Latency)
}

// What cannot be simulated is an error that says why.
func TestRefusals(t *testing.T) {
	for want, change := range map[string]func(*simulation.Block){
		"8 ranks … 3":          func(b *simulation.Block) { b.Topology, b.Width = "torus", 3 },
		"no schedule \"rung\"": func(b *simulation.Block) { b.Algorithm = "rung" },
		"0 segments, must be":  func(b *simulation.Block) { b.Algorithm = "double_tree" },
		"1 bytes take no time": func(b *simulation.Block) {
			b.Model.Model, b.Sizes = simulate.Model{Sharing: "unloaded", PerByte: 1e-6}, []int64{1}
		},
		"bytes or more from rank": func(b *simulation.Block) { b.Model.Model = tooSmall },
	} {
		c := plantest.Simulation(func(c *plan.Case) { change(simulation.Of(c)) })
		d := resulttest.New(c, resulttest.Attempt())
		err := simulation.Compute(t.Context(), d)
		require.Error(t, err)
		wording.Has(t, err.Error(), want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, simulation.Compute(ctx, resulttest.New(plantest.Simulation(), resulttest.Attempt())), context.Canceled)
}

// tooSmall is measured times of eight ranks in a ring, of one byte.
var tooSmall = func() simulate.Model {
	m := simulate.Model{Sharing: "unloaded", Engines: 1}
	for src := range 8 {
		m.Pairs = append(m.Pairs, simulate.Pair{Src: src, Dst: (src + 1) % 8, Classes: []simulate.Class{{Points: []simulate.Point{{Bytes: 1, Nanoseconds: 1}}}}})
	}
	return m
}()
