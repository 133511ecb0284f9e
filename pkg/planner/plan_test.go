package planner_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
)

func allIDs(m *plan.Matrix) []string {
	return append(plantest.IDs(m.RequestedCases), plantest.IDs(m.RequestedOther)...)
}

func TestResolveSmoke(t *testing.T) {
	m := plantest.Resolve(plantest.Shipped(), planner.Filters{Only: planner.Only{"suite": {"smoke"}}})
	require.Empty(t, m.RequestedCases, "tiny is no workload of CollectiveX")
	require.Equal(t, []string{
		"local-host-tiny-normal-decode-ep2-uniform-bf16",
		"local-host-tiny-normal-decode-ep4-uniform-bf16",
		"local-host-all-reduce-float-sum-w2-warm",
		"local-host-all-reduce-float-sum-w4-warm",
		"local-host-alltoallv-skewed-4-float-w4-warm",
		"local-host-p2p-float-w2-warm",
		"local-host-p2p-float-w4-warm",
		"local-host-kv-tiny-shm-xfer-ep2-paged-bf16",
	}, plantest.IDs(m.RequestedOther))
	cell, err := m.Cell("local-host-bf16-n1")
	require.NoError(t, err)
	require.Equal(t, "ubuntu-latest", cell.Runner)
	cases, err := m.Cases(cell)
	require.NoError(t, err)
	require.Len(t, cases, 2)
	require.Equal(t, plan.Ladder{1, 8, 32, 128}, ep.Of(&cases[0].Case).Ladder)
	require.Nil(t, collective.Of(&cases[0].Case))
}

// A case that hangs takes its budget, and the cases after it still have the time
// that they are estimated at.
func TestAHungCaseLeavesTheOthersTheirTime(t *testing.T) {
	const overhead = 15 // minutes of a job that no case has
	m := plantest.Resolve(plantest.Shipped(), planner.Filters{})
	require.NotEmpty(t, m.Include)
	budgets := map[string]int{}
	for q := range m.Requested() {
		budgets[q.Case.CaseID] = q.BudgetSeconds
	}
	for _, c := range m.Include {
		var longest, estimates int
		for _, id := range c.CaseIDs {
			longest = max(longest, budgets[id])
			estimates += (budgets[id] - 60) / 10 // the budget is ten times the estimate and a minute
		}
		require.LessOrEqual(t, longest+estimates-(longest-60)/10, 60*(c.Minutes-overhead), c.ID)
	}
}

func TestMachineStandsForLocal(t *testing.T) {
	cat := plantest.Shipped()
	gpus := planner.GPUs{
		Vendor: "nvidia", Product: "h200", Arch: "sm90", Transport: "nvlink", Count: 4,
		Backends: []string{"nccl", "rccl", "a2a"},
	}
	m, err := planner.Resolve(cat, planner.Filters{Only: planner.Only{"suite": {"smoke"}}}, planner.Machine{CPU: "arm64", GPUs: &gpus})
	require.NoError(t, err)
	require.Equal(t, []string{
		"local-host-tiny-normal-decode-ep2-uniform-bf16", "local-host-tiny-normal-decode-ep4-uniform-bf16",
		"local-host-all-reduce-float-sum-w2-warm",
		"local-host-all-reduce-float-sum-w4-warm",
		"local-host-alltoallv-skewed-4-float-w4-warm",
		"local-host-p2p-float-w2-warm",
		"local-host-p2p-float-w4-warm",
		"local-host-kv-tiny-shm-xfer-ep2-paged-bf16",
		"local-h200-nccl-all-reduce-float-sum-w2-warm",
		"local-h200-nccl-all-reduce-float-sum-w4-warm",
		"local-h200-nccl-alltoallv-skewed-4-float-w4-warm",
		"local-h200-nccl-p2p-float-w2-warm",
		"local-h200-nccl-p2p-float-w4-warm",
	}, plantest.IDs(m.RequestedOther))
	require.Equal(t, []string{
		"local-h200-a2a-deepseek-v3-normal-decode-ep2-uniform-bf16", "local-h200-a2a-deepseek-v3-low-latency-decode-ep2-uniform-bf16",
		"local-h200-a2a-deepseek-v3-normal-decode-ep4-uniform-bf16", "local-h200-a2a-deepseek-v3-low-latency-decode-ep4-uniform-bf16",
	}, plantest.IDs(m.RequestedCases), "nothing at EP8: the machine has four devices")
	require.Equal(t, []string{"local", "local-h200"}, planner.Machine{GPUs: &gpus}.SKUs(cat))
	cell, err := m.Cell("local-h200-nccl-collective-n1")
	require.NoError(t, err)
	require.Equal(t, "arm64", cell.Arch)
	require.Equal(t, "sm_90", cell.DeviceArch)
	require.Equal(t, "h200-nvlink-island", plantest.Find(m, "local-h200-nccl-all-reduce-float-sum-w2-warm").TopologyClass)

	eight := gpus
	eight.Count = 8
	m, err = planner.Resolve(cat, planner.Filters{Only: planner.Only{"suite": {"ep-reference"}, "sku": {"local-h200"}}}, planner.Machine{CPU: "amd64", GPUs: &eight})
	require.NoError(t, err)
	require.Equal(t, "local-h200-a2a-deepseek-v3-normal-decode-ep8-uniform-bf16", m.RequestedCases[0].Case.CaseID)
	for q := range m.Requested() {
		require.Equal(t, plan.Runnable, q.Disposition, "EP16 is not asked of eight devices")
	}

	one := gpus
	one.Count = 1
	m, err = planner.Resolve(cat, planner.Filters{Only: planner.Only{"suite": {"collectives-core"}, "sku": {"local-h200"}, "op": {"all_gather"}}}, planner.Machine{GPUs: &one})
	require.NoError(t, err)
	require.Equal(t, []string{"local-h200-nccl-all-gather-float-w1-cold"}, plantest.IDs(m.RequestedOther))

	_, err = planner.Resolve(cat, planner.Filters{Only: planner.Only{"sku": {"local-h200"}}}, planner.Machine{})
	require.ErrorContains(t, err, `unknown sku "local-h200"`)
}

// TestLibrariesOfTheHost: a library that the host of the machine at hand has takes part over the
// lanes of hosts, in its own cells, and does not change the other cases.
func TestLibrariesOfTheHost(t *testing.T) {
	cat := plantest.Shipped()
	plans := func(suite string, backends ...string) []string {
		m, err := planner.Resolve(cat, planner.Filters{Only: planner.Only{"suite": {suite}, "sku": {"local"}}}, planner.Machine{Backends: backends})
		require.NoError(t, err)
		require.Empty(t, m.RequestedCases)
		for q := range m.Requested() {
			require.Equal(t, plan.Runnable, q.Disposition)
		}
		return plantest.IDs(m.RequestedOther)
	}
	const tiny = "local-nixl-kv-tiny-tcp-xfer-ep2-paged-bf16"
	alone := plans("smoke")
	require.NotContains(t, alone, tiny)
	require.ElementsMatch(t, append(alone, tiny), plans("smoke", "nixl", "mooncake", "host", "nccl-kv"), "host is listed, and nccl-kv has no lane of hosts")

	more := plans("kv-transfer", "nixl", "mooncake")
	for _, id := range plans("kv-transfer") {
		i := slices.Index(more, id)
		require.NotEqual(t, -1, i, id)
		more = slices.Delete(more, i, i+1)
	}
	require.ElementsMatch(t, []string{
		"local-nixl-kv-mla-vm-xfer-ep2-paged-bf16", "local-nixl-kv-mla-tcp-xfer-ep2-paged-bf16",
		"local-nixl-kv-gqa-vm-xfer-ep2-paged-bf16", "local-nixl-kv-gqa-tcp-xfer-ep2-paged-bf16",
		"local-nixl-kv-tiny-vm-xfer-ep2-paged-bf16", tiny,
		"local-mooncake-kv-mla-tcp-xfer-ep2-paged-bf16", "local-mooncake-kv-gqa-tcp-xfer-ep2-paged-bf16", "local-mooncake-kv-tiny-tcp-xfer-ep2-paged-bf16",
	}, more)
}

// TestSmokeIsAStart: on a machine of eight GPUs whose link has the pace of PCIe, the suite
// of a bare sweep is estimated at less than ten minutes.
func TestSmokeIsAStart(t *testing.T) {
	m, err := planner.Resolve(plantest.Shipped(), planner.Filters{Only: planner.Only{"suite": {"smoke"}}}, planner.Machine{CPU: "amd64", GPUs: &planner.GPUs{
		Vendor: "nvidia", Product: "h200", Arch: "sm90", Transport: "nvlink", Count: 8, Backends: []string{"nccl", "mscclpp", "a2a"},
	}})
	require.NoError(t, err)
	seconds, largest := 0, map[string]int64{}
	for q := range m.Requested() {
		seconds += (q.BudgetSeconds - 60) / 10 // the budget is ten times the estimate and a minute
		if c := collective.Of(&q.Case); c != nil && q.Case.SKU == "local-h200" {
			largest[c.Op] = max(largest[c.Op], slices.Max(c.Sizes))
		}
	}
	require.Less(t, seconds, 600)
	require.Equal(t, int64(1<<30), largest["all_reduce"])
	require.Equal(t, int64(128<<20), largest["p2p"])
}

// A case that is named passes with all its repeats, and alone.
func TestCasesByID(t *testing.T) {
	cat := plantest.Shipped()
	for i := range cat.Suites {
		cat.Suites[i].Repeats = 2
	}
	only := planner.Only{planner.FilterSuite: {"smoke"}, planner.FilterSKU: {"local"}}
	all := plantest.Resolve(cat, planner.Filters{Only: only})
	id := all.RequestedOther[0].Case.CaseID
	m := plantest.Resolve(cat, planner.Filters{Only: only, Cases: []string{id}})
	require.Equal(t, []string{id, id + "-r2"}, allIDs(m))
	require.Len(t, m.Include, 1)
	require.Equal(t, []string{id, id + "-r2"}, m.Include[0].CaseIDs)
	_, err := planner.Resolve(cat, planner.Filters{Only: only, Cases: []string{id, "nosuch"}}, planner.Machine{})
	require.EqualError(t, err, `case "nosuch" is not in the plan, as narrowed by the other filters`)
}
