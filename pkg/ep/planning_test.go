package ep_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/golden"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// TestParity holds ep-core to the plan that CollectiveX made of the same
// definitions: its cases, their ids and order, its cells and their order. The
// golden was compared with the output of CollectiveX's own generator at
// revision 843c6254, field by field.
func TestParity(t *testing.T) {
	m := plantest.Resolve(plantest.Shipped(), planner.Filters{Only: planner.Only{"suite": {"ep-core"}}})
	golden.Equal(t, "testdata/ep-core.txt", listing(m))
	m.Generator = plan.Generator{Program: "cxgen", Version: "0", Format: plan.Format}
	sum := sha256.New()
	require.NoError(t, m.Write(sum))
	golden.Equal(t, "testdata/ep-core.sha256", hex.EncodeToString(sum.Sum(nil))+"\n") // of the whole matrix
	require.Len(t, m.Include, 88)
	count := map[string]int{}
	points, above := 0, 0
	for _, q := range m.RequestedCases {
		count[q.Disposition]++
		if q.Disposition == plan.Unsupported {
			require.Equal(t, planner.ReasonPlatform, *q.Reason)
			require.Nil(t, q.Detail)
			continue
		}
		require.Nil(t, q.Reason)
		for _, tokens := range ep.Of(&q.Case).Ladder {
			points++
			if ep.Of(&q.Case).LadderCap != nil && tokens > *ep.Of(&q.Case).LadderCap {
				above++
			}
		}
	}
	require.Equal(t, map[string]int{plan.Runnable: 142, plan.Unsupported: 26}, count)
	require.Equal(t, 1096, points)
	require.Equal(t, 40, above, "points that low latency's caps drop at run time")
	require.Empty(t, m.RequestedOther)
}

// TestParityV4 holds ep-core-v4-2026-09 to the cells that CollectiveX lists since its nccl-ep
// v0.2, at revision 2439a605. The counts were computed from its rules, since no output of
// its generator is known.
func TestParityV4(t *testing.T) {
	m := plantest.Resolve(plantest.Shipped(), planner.Filters{Only: planner.Only{"suite": {"ep-core-v4-2026-09"}}})
	golden.Equal(t, "testdata/ep-core-v4.txt", listing(m))
	require.Len(t, m.Include, 100)
	count := map[string]int{}
	for _, q := range m.RequestedCases {
		count[q.Disposition]++
	}
	require.Equal(t, map[string]int{plan.Runnable: 158, plan.Unsupported: 10}, count)
	require.Empty(t, m.RequestedOther)

	c := plantest.Find(m, "h100-dgxc-nccl-ep-deepseek-v4-pro-normal-decode-ep16-uniform-bf16")
	require.Equal(t, []int{7168, 6, 384, 67}, []int{ep.Of(&c).Hidden, ep.Of(&c).TopK, ep.Of(&c).Experts, int(ep.Of(&c).Seed)})
	require.Equal(t, plan.Ladder{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}, ep.Of(&c).Ladder)
	uncapped := plantest.Find(m, "b200-nscale-nccl-ep-deepseek-v4-pro-low-latency-decode-ep16-uniform-fp8")
	require.Nil(t, ep.Of(&uncapped).LadderCap, "nccl-ep v0.2 has no cap")
}

// TestCapabilities: the same backend on the same platform is planned as the set says
// that the suite picks.
func TestCapabilities(t *testing.T) {
	m := plantest.Resolve(plantest.Shipped(), planner.Filters{Only: planner.Only{
		"suite": {"ep-core", "ep-core-v4"}, "backend": {"nccl-ep"}, "sku": {"b200-nscale"}, "phase": {"decode"},
	}})
	var got []string
	for q := range m.Requested() {
		got = append(got, q.Disposition+" "+strings.TrimPrefix(q.Case.CaseID, "b200-nscale-nccl-ep-deepseek-"))
	}
	require.Equal(t, []string{
		"runnable v3-normal-decode-ep8-uniform-bf16",
		"runnable v3-low-latency-decode-ep8-uniform-bf16",
		"unsupported v3-normal-decode-ep16-uniform-bf16",
		"runnable v4-pro-normal-decode-ep8-uniform-bf16",
		"runnable v4-pro-low-latency-decode-ep8-uniform-bf16",
		"runnable v4-pro-low-latency-decode-ep8-uniform-fp8",
		"runnable v4-pro-normal-decode-ep16-uniform-bf16",
		"runnable v4-pro-low-latency-decode-ep16-uniform-bf16",
		"runnable v4-pro-low-latency-decode-ep16-uniform-fp8",
	}, got)
}

// listing has a line for each case of CollectiveX's own and one for each cell.
func listing(m *plan.Matrix) string {
	var b strings.Builder
	for _, q := range m.RequestedCases {
		fmt.Fprintf(&b, "%s %s %s\n", q.Disposition, q.Case.CaseID, q.Case.TopologyClass)
	}
	for _, c := range m.Include {
		fmt.Fprintf(&b, "cell %s: %s\n", c.ID, strings.Join(c.CaseIDs, " "))
	}
	return b.String()
}

func TestCaseOfTheHeadline(t *testing.T) {
	m := plantest.Resolve(plantest.Shipped(), planner.Filters{Only: planner.Only{"suite": {"ep-core"}}})
	c := plantest.Find(m, "b200-nscale-deepep-v2-deepseek-v3-low-latency-decode-ep16-uniform-fp8")
	require.Equal(t, ep.Timing{
		ItersPerTrial: 8, TrialsPerPoint: 256, WarmupItersPerTrial: 32,
		ChainItersPerTrial: 128, ChainTrialsPerPoint: 4, ChainDrop: 16,
	}, ep.Of(&c).Timing)
	require.Equal(t, plan.Ladder{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}, ep.Of(&c).Ladder)
	require.Equal(t, 256, *ep.Of(&c).LadderCap)
	require.Equal(t, 2, c.Nodes)
	require.Equal(t, "scale-out", c.Scope)
	require.Equal(t, "rdma", *c.ScaleOutTransport)
	require.Equal(t, "nvlink-rdma", c.Transport)
	require.Equal(t, "b200-nvlink-rdma", c.TopologyClass)
	require.Equal(t, uint64(67), ep.Of(&c).Seed)
	require.Equal(t, map[string]string{
		"NCCL_CUMEM_ENABLE": "1", "NCCL_NET": "IB", "NCCL_IB_MERGE_NICS": "0",
		"NVSHMEM_ENABLE_NIC_PE_MAPPING": "1", "NVSHMEM_IB_ENABLE_IBGDA": "1", "NVSHMEM_IBGDA_NIC_HANDLER": "gpu",
	}, c.Env)
	cell, err := m.Cell("b200-nscale-deepep-v2-ll-fp8-n2")
	require.NoError(t, err)
	require.Equal(t, []string{c.CaseID}, cell.CaseIDs)
	require.Equal(t, []string{"storage.stage", "slurm.partition", "slurm.account", "storage.images", "network.rdma_devices"}, cell.Launch.Requires)
	require.Equal(t, "sm_100", cell.DeviceArch)

	for id, class := range map[string]string{
		"gb300-deepep-v2-deepseek-v3-normal-decode-ep16-uniform-bf16":  "gb300-nvl72-mnnvl",
		"mi355x-mori-deepseek-v3-normal-decode-ep8-uniform-bf16":       "mi355x-xgmi",
		"mi325x-tw-mori-deepseek-v3-normal-decode-ep16-uniform-bf16":   "mi325x-xgmi-rdma",
		"h200-dgxc-nccl-ep-deepseek-v3-normal-decode-ep8-uniform-bf16": "h200-nvlink-island",
	} {
		c := plantest.Find(m, id)
		require.Equal(t, class, c.TopologyClass)
	}
	sdma := plantest.Find(m, "mi300x-tw-mori-deepseek-v3-normal-decode-ep8-uniform-bf16")
	require.Equal(t, "0", sdma.Env["MORI_ENABLE_SDMA"], "the backend on its platform has the last word")
}

// Replayed graphs are cases beside the eager ones, with ids of their own, of decode and of
// what can be captured. The dashboard is not asked to show any.
func TestReplayedGraphs(t *testing.T) {
	m := plantest.Resolve(plantest.Shipped(), planner.Filters{Only: planner.Only{"suite": {"ep-graph"}, "sku": {"h200-dgxc"}, "ep": {"8"}}})
	require.Empty(t, m.RequestedCases)
	var ids []string
	for _, q := range m.RequestedOther {
		require.Equal(t, vocab.Graph, ep.Of(&q.Case).TimingMode)
		require.Equal(t, plan.Runnable, q.Disposition)
		ids = append(ids, q.Case.CaseID)
	}
	require.ElementsMatch(t, []string{
		"h200-dgxc-deepep-v2-deepseek-v4-pro-normal-decode-ep8-uniform-bf16-graph",
		"h200-dgxc-deepep-v2-deepseek-v4-pro-normal-decode-ep8-uniform-fp8-graph",
		"h200-dgxc-deepep-v2-deepseek-v4-pro-low-latency-decode-ep8-uniform-bf16-graph",
		"h200-dgxc-deepep-v2-deepseek-v4-pro-low-latency-decode-ep8-uniform-fp8-graph",
		"h200-dgxc-uccl-ep-deepseek-v4-pro-low-latency-decode-ep8-uniform-bf16-graph",
		"h200-dgxc-uccl-ep-deepseek-v4-pro-low-latency-decode-ep8-uniform-fp8-graph",
		"h200-dgxc-nccl-ep-deepseek-v4-pro-normal-decode-ep8-uniform-bf16-graph",
		"h200-dgxc-nccl-ep-deepseek-v4-pro-low-latency-decode-ep8-uniform-bf16-graph",
		"h200-dgxc-nccl-ep-deepseek-v4-pro-low-latency-decode-ep8-uniform-fp8-graph",
		"h200-dgxc-a2a-deepseek-v4-pro-low-latency-decode-ep8-uniform-bf16-graph",
		"h200-dgxc-a2a-deepseek-v4-pro-low-latency-decode-ep8-uniform-fp8-graph",
	}, ids)
}

// A layout is a factor of the case, where the backend has a choice. Ids name it unless it is
// that of CollectiveX's own plan of the workload.
func TestLayouts(t *testing.T) {
	cat := *plantest.Shipped()
	for _, want := range []struct {
		workload, layout, id string
		upstream             bool
	}{
		{"deepseek-v3", ep.ExpertMajor, "h200-dgxc-nccl-ep-deepseek-v3-low-latency-decode-ep8-uniform-bf16", true},
		{"deepseek-v3", ep.RankMajor, "h200-dgxc-nccl-ep-deepseek-v3-low-latency-decode-ep8-uniform-bf16-rank-major", false},
		{"deepseek-v4-pro", ep.RankMajor, "h200-dgxc-nccl-ep-deepseek-v4-pro-low-latency-decode-ep8-uniform-bf16", true},
		{"deepseek-v4-pro", ep.RankMajorWindow, "h200-dgxc-nccl-ep-deepseek-v4-pro-low-latency-decode-ep8-uniform-bf16-rank-major-zc", false},
		{"deepseek-v4-pro", ep.ExpertMajor, "h200-dgxc-nccl-ep-deepseek-v4-pro-low-latency-decode-ep8-uniform-bf16-expert-major", false},
		{"small", ep.ExpertMajor, "h200-dgxc-nccl-ep-small-low-latency-decode-ep8-uniform-bf16-expert-major", false},
	} {
		cat.Suites = []catalog.Suite{{Name: "mine", Platforms: []string{"h200-dgxc"}, Sampling: "smoke", Repeats: 1, Blocks: map[string][]catalog.SuiteBlock{
			"ep": {&ep.SuiteBlock{
				Workload: want.workload, Backends: []string{"nccl-ep", "deepep-v2"}, Degrees: []int{8}, Modes: []string{"low-latency"}, Phases: []string{"decode"},
				Precisions: []string{"bf16"}, Contracts: []string{ep.ContractLayout}, TimingModes: []string{ep.Eager}, Layouts: []string{want.layout},
				Routings: []ep.RoutingRef{{Name: "uniform"}},
			}},
		}}}
		m := plantest.Resolve(&cat, planner.Filters{})
		got := plantest.Find(m, want.id)
		require.Equal(t, want.layout, ep.Of(&got).Layout)
		require.Equal(t, want.upstream, got.Upstream(), want.id)
		other := plantest.Find(m, "h200-dgxc-deepep-v2-"+want.workload+"-low-latency-decode-ep8-uniform-bf16")
		require.Empty(t, ep.Of(&other).Layout, "no choice")
	}
	for q := range plantest.Resolve(plantest.Shipped(), planner.Filters{Only: planner.Only{"suite": {"ep-core"}}}).Requested() {
		require.Empty(t, ep.Of(&q.Case).Layout, "its plan does not name it")
	}
}

// TestRecordedRouting: a routing from a file is a case of its own, which CollectiveX does
// not plan.
func TestRecordedRouting(t *testing.T) {
	cat := *plantest.Shipped()
	routing, err := ep.ParseRecorded("mine.txt", []byte("0 1\n2 3\n"))
	require.NoError(t, err)
	cat.Suites = []catalog.Suite{{Name: "mine", Platforms: []string{"local"}, Sampling: "smoke", Repeats: 1, Blocks: map[string][]catalog.SuiteBlock{
		"ep": {&ep.SuiteBlock{
			Workload: "tiny", Backends: []string{"host"}, Degrees: []int{2}, Modes: []string{"normal"}, Phases: []string{"decode"},
			Precisions: []string{"bf16"}, Contracts: []string{ep.ContractLayout}, TimingModes: []string{ep.Eager}, Routings: []ep.RoutingRef{{Name: "uniform"}, {Name: "file:mine.txt", Recorded: routing}},
		}},
	}}}
	m := plantest.Resolve(&cat, planner.Filters{})
	require.Empty(t, m.RequestedCases)
	var want ep.Block
	want.Record([]int{0, 1, 2, 3})
	require.Equal(t, []string{
		"local-host-tiny-normal-decode-ep2-uniform-bf16", "local-host-tiny-normal-decode-ep2-" + want.Routing + "-bf16",
	}, plantest.IDs(m.RequestedOther))
	require.Equal(t, []int{0, 1, 2, 3}, ep.Of(&m.RequestedOther[1].Case).RoutingExperts)
	require.Empty(t, ep.Of(&m.RequestedOther[0].Case).RoutingExperts)
}

func TestUpstream(t *testing.T) {
	upstream := plan.Case{Family: ep.Name, Contract: ep.ContractLayout, Repeat: 1, Block: &ep.Block{Workload: "deepseek-v3", Routing: "uniform"}}
	require.True(t, upstream.Upstream())
	for name, change := range map[string]func(*plan.Case){
		"contract": func(c *plan.Case) { c.Contract = ep.ContractCachedLayout },
		"repeat":   func(c *plan.Case) { c.Repeat = 2 },
		"routing":  func(c *plan.Case) { ep.Of(c).Routing = "zipf" },
		"workload": func(c *plan.Case) { ep.Of(c).Workload = "small" },
		"family":   func(c *plan.Case) { c.Block = &collective.Block{} },
		"graph":    func(c *plan.Case) { ep.Of(c).TimingMode = vocab.Graph },
		"layout":   func(c *plan.Case) { ep.Of(c).Layout = ep.RankMajor },
	} {
		c := upstream
		block := *ep.Of(&upstream)
		c.Block = &block
		change(&c)
		require.False(t, c.Upstream(), name)
	}
}

func TestBalancedRung(t *testing.T) {
	b := ep.Block{Routing: "zipf-eplb", Ladder: plan.Ladder{1, 8, 32}}
	require.Equal(t, 32, b.BalancedRung())
	b.Routing = "zipf"
	require.Zero(t, b.BalancedRung())
}
