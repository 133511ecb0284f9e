package simulation_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/simulation"
)

// Simulations are planned on the local platform with any number of ranks, and nothing of the
// platform is in them. What the schedule, the topology or the platform does not have is
// unsupported, with the reason.
func TestPlan(t *testing.T) {
	cat := plantest.Shipped()
	cat.Suite("schedule-simulated").Blocks["simulation"] = []catalog.SuiteBlock{&simulation.SuiteBlock{
		Backends: []string{"simulator"}, Op: "all_reduce", Algorithms: []string{"ring", "swing", "torus_2d"}, Ranks: []int{6, 2000}, Width: 3,
		Topologies: []string{"ring", "torus"}, Models: []simulation.SuiteModel{{Name: "links", Sharing: "fifo", Latency: 1}},
		Sizes: catalog.Sizes{From: 8, To: 8, Factor: 2},
	}}
	only := planner.Filters{Only: planner.Only{planner.FilterSuite: {"schedule-simulated"}}}
	m, err := planner.Resolve(cat, only, planner.Machine{})
	require.NoError(t, err)
	got := map[string]string{}
	for q := range m.Requested() {
		_, detail := q.Why()
		got[q.Case.CaseID] = detail
		require.Equal(t, "simulated", simulation.Of(&q.Case).Origin)
		require.Empty(t, q.Case.Env)
		require.True(t, q.Case.Placed())
		require.Equal(t, []any{1, "simulated", "simulated", "scale-up"}, []any{q.Case.Nodes, q.Case.TopologyClass, q.Case.Transport, q.Case.Scope})
	}
	why := func(name string, s schedule.Shape) string { // in the words of package schedule
		a, err := schedule.Find(name, schedule.AllReduce)
		require.NoError(t, err)
		require.Error(t, a.Allows(s))
		return a.Allows(s).Error()
	}
	const many = "programs of at most 1024 ranks are simulated here"
	odd, far := why("swing", schedule.Shape{Ranks: 6}), why("swing", schedule.Shape{Ranks: 2000})
	rows := why("torus_2d", schedule.Shape{Ranks: 2000, Width: 3})
	require.Equal(t, map[string]string{
		"local-simulator-all-reduce-ring-ring-links-w6":            "",
		"local-simulator-all-reduce-ring-torus-x3-links-w6":        "",
		"local-simulator-all-reduce-torus-2d-x3-ring-links-w6":     "",
		"local-simulator-all-reduce-torus-2d-torus-x3-links-w6":    "",
		"local-simulator-all-reduce-swing-ring-links-w6":           odd,
		"local-simulator-all-reduce-swing-torus-x3-links-w6":       odd,
		"local-simulator-all-reduce-ring-ring-links-w2000":         many,
		"local-simulator-all-reduce-ring-torus-x3-links-w2000":     strings.Replace(rows, "torus_2d all_reduce", "topology torus", 1),
		"local-simulator-all-reduce-swing-ring-links-w2000":        far,
		"local-simulator-all-reduce-swing-torus-x3-links-w2000":    far,
		"local-simulator-all-reduce-torus-2d-x3-ring-links-w2000":  rows,
		"local-simulator-all-reduce-torus-2d-torus-x3-links-w2000": rows,
	}, got)
	require.Len(t, m.Include, 1)
	require.Equal(t, "local-simulator-simulation-n1", m.Include[0].ID)
	require.Len(t, m.Include[0].CaseIDs, 4)

	gpus, err := planner.Resolve(cat, only, planner.Machine{GPUs: &planner.GPUs{Vendor: "nvidia", Product: "h200", Arch: "sm90", Transport: "nvlink", Count: 8, Backends: []string{"nccl", "simulator"}}})
	require.NoError(t, err)
	require.Equal(t, m.RequestedOther, gpus.RequestedOther, "GPUs take no part")
}
