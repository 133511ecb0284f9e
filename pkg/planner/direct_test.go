package planner_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
)

var twoGPUs = planner.Machine{CPU: "amd64", GPUs: &planner.GPUs{Vendor: "nvidia", Product: "h200", Arch: "sm90", Transport: "nvlink", Count: 2, Backends: []string{"nccl", "mscclpp", "ipc", "host"}}}

func direct(backend string, world int) planner.Direct {
	return planner.Direct{
		Suite: "bench", Backend: backend, World: world, Repeats: 1,
		Cases: []plan.Case{{
			Family: collective.Name, Precision: "float", Sampling: "bench", Contract: collective.Contract,
			Block: &collective.Block{
				Op: "all_reduce", RedOp: "sum", Sizes: []int64{8}, Placements: []string{"out_of_place"}, Modes: []string{"pipelined"},
				Buffers: "shifted", Registration: "none",
				Measure: collective.Counts{Warmup: 1, Iterations: 20, Trials: 1, Aggregate: 1, Launches: 1},
			},
		}},
	}
}

// A case by hand stands where the same case of a suite stands.
func TestDirectPlacesACaseAsASuiteDoes(t *testing.T) {
	cat := plantest.Shipped()
	for _, tt := range []struct {
		backend, sku string
	}{{"host", "local"}, {"nccl", "local-h200"}} {
		m, err := direct(tt.backend, 2).Resolve(cat, twoGPUs)
		require.NoError(t, err)
		require.Len(t, m.Include, 1)
		require.Equal(t, []string{m.RequestedOther[0].Case.CaseID}, m.Include[0].CaseIDs)
		got := m.RequestedOther[0].Case

		swept, err := planner.Resolve(cat, planner.Filters{Only: planner.Only{"sku": {tt.sku}, "backend": {tt.backend}, "op": {"all_reduce"}, "world": {"2"}}}, twoGPUs)
		require.NoError(t, err)
		want := swept.RequestedOther[0].Case
		require.Equal(t, swept.Include[0].ID, m.Include[0].ID)
		want.CaseID, want.Suite, want.Sampling, want.Precision, want.Block = got.CaseID, got.Suite, got.Sampling, got.Precision, collective.Of(&got)
		require.Equal(t, want, got)
	}
}

// Equal machines that measure together are the nodes of a case.
func TestDirectOnSeveralMachines(t *testing.T) {
	for _, backend := range []string{"host", "nccl"} {
		here := twoGPUs
		here.Nodes = 2
		m, err := direct(backend, 4).Resolve(plantest.Shipped(), here)
		require.NoError(t, err)
		c := m.RequestedOther[0].Case
		require.Equal(t, []int{4, 2, 2, 2}, []int{c.World, c.Nodes, c.RanksPerNode, c.ScaleUpDomain})
		require.Equal(t, "scale-out", c.Scope)
		require.Equal(t, 2, m.Include[0].Nodes)
	}
	here := twoGPUs
	gpus := *here.GPUs
	gpus.Product = "gb200"
	here.Nodes, here.GPUs = 2, &gpus
	m, err := direct("nccl", 4).Resolve(plantest.Shipped(), here)
	require.NoError(t, err)
	c := m.RequestedOther[0].Case
	require.Equal(t, []any{72, "scale-up", "mnnvl", "gb200-nvl72-mnnvl"}, []any{c.ScaleUpDomain, c.Scope, c.ScaleUpTransport, c.TopologyClass})

	here = twoGPUs
	here.Nodes = 2
	_, err = direct("nccl", 6).Resolve(plantest.Shipped(), here)
	require.ErrorIs(t, err, planner.ErrCannot)
}

func TestDirectIDsTellCasesApart(t *testing.T) {
	d := direct("host", 3)
	d.Repeats = 2
	rooted := d.Cases[0]
	block := *collective.Of(&rooted)
	block.Op, block.RedOp, block.Root = "broadcast", "", 2
	rooted.Block = &block
	d.Cases = append(d.Cases, rooted)
	m, err := d.Resolve(plantest.Shipped(), planner.Machine{})
	require.NoError(t, err)
	require.Equal(t, []string{
		"local-host-all-reduce-float-sum-w3-shifted", "local-host-all-reduce-float-sum-w3-shifted-r2",
		"local-host-broadcast-float-root2-w3-shifted", "local-host-broadcast-float-root2-w3-shifted-r2",
	}, m.Include[0].CaseIDs)
	require.Equal(t, 1, m.RequestedOther[0].Case.Nodes)
}

func TestDirectTakesEnvironmentAndBudget(t *testing.T) {
	d := direct("nccl", 2)
	d.Cases[0].Env, d.Budget = map[string]string{"NCCL_CTA_POLICY": "2"}, 7
	m, err := d.Resolve(plantest.Shipped(), twoGPUs)
	require.NoError(t, err)
	require.Equal(t, "2", m.RequestedOther[0].Case.Env["NCCL_CTA_POLICY"])
	require.Equal(t, 7, m.RequestedOther[0].BudgetSeconds)
}

func TestDirectRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*planner.Direct)
		cannot bool
		want   string
	}{
		{"backend", func(d *planner.Direct) { d.Backend = "ncll" }, false, `unknown backend "ncll"; did you mean "nccl"?`},
		{"no such devices", func(d *planner.Direct) { d.Backend = "rccl" }, true, "no device of this machine runs backend rccl"},
		{"more ranks than devices", func(d *planner.Direct) { d.World = 3 }, true, "3 ranks, each with a device of its own, and this machine has 2"},
		{"timing mode", func(d *planner.Direct) { d.Backend, collective.Of(&d.Cases[0]).Modes = "host", []string{"graph"} }, true, "backend host has only the timing modes pipelined, blocking, per_iteration"},
		{"registration", func(d *planner.Direct) { d.Backend, collective.Of(&d.Cases[0]).Registration = "host", "local" }, true, "backend host has no registration local"},
		{"groups", func(d *planner.Direct) {
			d.Backend, collective.Of(&d.Cases[0]).Measure.Aggregate = "mscclpp", 2
		}, true, "backend mscclpp has no group calls of several operations, but -m requests 2"},
		{"groups of messages", func(d *planner.Direct) {
			b := collective.Of(&d.Cases[0])
			d.Backend, b.Op, b.RedOp, b.Measure.Aggregate = "ipc", "p2p", "", 2
		}, true, "backend ipc has no group calls of several operations, but -m requests 2"},
		{"no collectives", func(d *planner.Direct) { d.Backend = "deepep-v2" }, true, "no device of this machine runs backend deepep-v2"},
		{"repeats", func(d *planner.Direct) { d.Repeats = math.MaxInt }, false, "the plan has more than "},
		{"EP", func(d *planner.Direct) { d.Cases[0] = plan.Case{Family: ep.Name, Block: &ep.Block{}} }, true, "backend nccl has no dispatch and combine"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := direct("nccl", 2)
			tt.change(&d)
			_, err := d.Resolve(plantest.Shipped(), twoGPUs)
			require.ErrorContains(t, err, tt.want)
			if tt.cannot {
				require.ErrorIs(t, err, planner.ErrCannot)
			} else {
				require.NotErrorIs(t, err, planner.ErrCannot)
			}
		})
	}
}
