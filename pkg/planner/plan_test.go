package planner_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
)

func shipped(t testing.TB) *catalog.Catalog {
	t.Helper()
	cat, err := catalog.Load(matrix.FS)
	require.NoError(t, err)
	return cat
}

func resolve(t testing.TB, cat *catalog.Catalog, f planner.Filters) *plan.Matrix {
	t.Helper()
	m, err := planner.Resolve(cat, f, planner.Machine{})
	require.NoError(t, err)
	m.Generator = plan.Generator{Program: "cxgen", Version: "v1", Format: plan.Format}
	return m
}

func caseIDs(list []plan.Requested) []string {
	ids := []string{}
	for _, q := range list {
		ids = append(ids, q.Case.CaseID)
	}
	return ids
}

func TestResolveSmoke(t *testing.T) {
	m := resolve(t, shipped(t), planner.Filters{Suites: []string{"smoke"}})
	require.Empty(t, m.RequestedCases, "tiny is no workload of CollectiveX")
	require.Equal(t, []string{
		"local-host-tiny-normal-decode-ep2-uniform-bf16",
		"local-host-tiny-normal-decode-ep4-uniform-bf16",
		"local-host-all-reduce-float-sum-w2-warm",
		"local-host-all-reduce-float-sum-w4-warm",
		"local-host-alltoallv-skewed-4-float-w4-warm",
		"local-host-p2p-float-w2-warm",
		"local-host-p2p-float-w4-warm",
	}, caseIDs(m.RequestedOther))
	cell, err := m.Cell("local-host-bf16-n1")
	require.NoError(t, err)
	require.Equal(t, "ubuntu-latest", cell.Runner)
	cases, err := m.Cases(cell)
	require.NoError(t, err)
	require.Len(t, cases, 2)
	require.Equal(t, "1 8 32 128", cases[0].Ladder)
	require.Nil(t, cases[0].Collective)
}

func TestMachineStandsForLocal(t *testing.T) {
	cat := shipped(t)
	gpus := planner.GPUs{
		Vendor: "nvidia", Product: "h200", Arch: "sm90", Transport: "nvlink", Count: 4,
		Backends: []string{"nccl", "rccl", "a2a"},
	}
	m, err := planner.Resolve(cat, planner.Filters{Suites: []string{"smoke"}}, planner.Machine{CPU: "arm64", GPUs: &gpus})
	require.NoError(t, err)
	require.Equal(t, []string{
		"local-host-tiny-normal-decode-ep2-uniform-bf16", "local-host-tiny-normal-decode-ep4-uniform-bf16",
		"local-host-all-reduce-float-sum-w2-warm",
		"local-host-all-reduce-float-sum-w4-warm",
		"local-host-alltoallv-skewed-4-float-w4-warm",
		"local-host-p2p-float-w2-warm",
		"local-host-p2p-float-w4-warm",
		"local-h200-nccl-all-reduce-float-sum-w2-warm",
		"local-h200-nccl-all-reduce-float-sum-w4-warm",
		"local-h200-nccl-alltoallv-skewed-4-float-w4-warm",
		"local-h200-nccl-p2p-float-w2-warm",
		"local-h200-nccl-p2p-float-w4-warm",
	}, caseIDs(m.RequestedOther))
	require.Equal(t, []string{"local", "local-h200"}, planner.Machine{GPUs: &gpus}.SKUs(cat))
	cell, err := m.Cell("local-h200-nccl-collective-n1")
	require.NoError(t, err)
	require.Equal(t, "arm64", cell.Arch)
	require.Equal(t, "sm_90", cell.DeviceArch)
	require.Equal(t, "h200-nvlink-island", m.RequestedOther[7].Case.TopologyClass)

	m, err = planner.Resolve(cat, planner.Filters{Suites: []string{"ep-reference"}, SKUs: []string{"local-h200"}}, planner.Machine{CPU: "amd64", GPUs: &gpus})
	require.NoError(t, err)
	require.Equal(t, "local-h200-a2a-deepseek-v3-normal-decode-ep8-uniform-bf16", m.RequestedCases[0].Case.CaseID)
	require.Equal(t, plan.Unsupported, m.RequestedCases[0].Disposition)

	one := gpus
	one.Count = 1
	m, err = planner.Resolve(cat, planner.Filters{Suites: []string{"collectives-core"}, SKUs: []string{"local-h200"}, Ops: []string{"all_gather"}}, planner.Machine{GPUs: &one})
	require.NoError(t, err)
	require.Equal(t, []string{"local-h200-nccl-all-gather-float-w1-cold"}, caseIDs(m.RequestedOther))

	_, err = planner.Resolve(cat, planner.Filters{SKUs: []string{"local-h200"}}, planner.Machine{})
	require.ErrorContains(t, err, `unknown sku "local-h200"`)
}

func TestUpstream(t *testing.T) {
	upstream := plan.Case{Family: plan.FamilyEP, Contract: plan.ContractLayout, Repeat: 1, EP: &plan.EP{Workload: "deepseek-v3", Routing: "uniform"}}
	require.True(t, upstream.Upstream())
	for name, change := range map[string]func(*plan.Case){
		"contract": func(c *plan.Case) { c.Contract = plan.ContractCachedLayout },
		"repeat":   func(c *plan.Case) { c.Repeat = 2 },
		"routing":  func(c *plan.Case) { c.Routing = "zipf" },
		"workload": func(c *plan.Case) { c.Workload = "small" },
		"family":   func(c *plan.Case) { c.EP, c.Collective = nil, &plan.Collective{} },
	} {
		c := upstream
		block := *upstream.EP
		c.EP = &block
		change(&c)
		require.False(t, c.Upstream(), name)
	}
}

func TestBalancedRung(t *testing.T) {
	c := plan.Case{EP: &plan.EP{Routing: "zipf-eplb", Ladder: "1 8 32"}}
	require.Equal(t, 32, c.BalancedRung())
	c.Routing = "zipf"
	require.Zero(t, c.BalancedRung())
	require.Zero(t, (&plan.Case{Collective: &plan.Collective{}}).BalancedRung())
}

func TestTrafficSize(t *testing.T) {
	traffic := [][]int64{{0, 16, 4}, {8, 0, 0}, {100, 0, 0}}
	sent, received := plan.Busiest(traffic)
	require.Equal(t, []int64{100, 108}, []int64{sent, received})
	require.EqualValues(t, 108, plan.TrafficSize(traffic), "what rank 0 receives")
}

func TestFileRoundTrip(t *testing.T) {
	m := resolve(t, shipped(t), planner.Filters{Suites: []string{"smoke"}})
	path := filepath.Join(t.TempDir(), "matrix_full.json")
	require.NoError(t, m.WriteFile(path))
	got, err := plan.ReadFile(path, "v1")
	require.NoError(t, err)
	require.Equal(t, m, got)

	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1, "a temporary file was left")
}

func TestReadRefuses(t *testing.T) {
	var buf bytes.Buffer
	require.NoError(t, resolve(t, shipped(t), planner.Filters{Suites: []string{"smoke"}}).Write(&buf))
	good := buf.String()
	_, first, _ := strings.Cut(good, "\"requested_other\":[\n")
	first, _, _ = strings.Cut(first, "\n")
	for _, tc := range []struct {
		name, old, new, want string
	}{
		{"another program version", `"version":"v1"`, `"version":"v2"`, "made by cxgen v2, this program is v1"},
		{"another format", `"format":1`, `"format":9`, "format 9, this program reads 1"},
		{"another matrix version", `{"version":1,`, `{"version":2,`, "version 2, want 1"},
		{"an unknown field", `{"version":1,`, `{"version":1,"x":0,`, `unknown member "x"`},
		{"a case without ranks", `"world":2,`, ``, `requested_other[0].case: no member "world"`},
		{"a case without nodes", `"nodes":1,`, `"nodes":0,`, "has 2 ranks on 0 nodes with 2 each"},
		{"a case without ranks on its nodes", `"ranks_per_node":2,`, ``, `requested_other[0].case: no member "ranks_per_node"`},
		{"a member twice", `"world":2,`, `"world":2,"world":2,`, `member "world" stands twice`},
		{"no family", `"family":"ep"`, `"family":"collective"`, `has not the block of the family "collective"`},
		{"a truncated file", "\n]", "", "matrix: "},
		{"a dangling case id", `"case_ids":["local-host-all-reduce-float-sum-w2-warm"`, `"case_ids":["nope"`, "cell local-host-collective-n1 lists case nope"},
		{"a cell twice", `"id":"local-host-bf16-n1"`, `"id":"local-host-collective-n1"`, "cell local-host-collective-n1 stands twice"},
		{"a case without a cell", `"case_ids":["local-host-all-reduce-float-sum-w2-warm",`, `"case_ids":[`, "is in no cell"},
		{"a case twice", first, first + "\n," + first, "stands twice"},
		{"a case of another id", `"case_id":"local-host-all-reduce-float-sum-w2-warm"`, `"case_id":"x"`, "case x should be named local-host-all-reduce-float-sum-w2-warm"},
		{"a case in the list of others", `"workload":"tiny"`, `"workload":"deepseek-v3"`, "should be named"},
		{"a case in the wrong list", "\"requested_cases\":[\n],\n\"requested_other\":[", "\"requested_other\":[\n],\n\"requested_cases\":[", "stands in the wrong list"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bad := strings.Replace(good, tc.old, tc.new, 1)
			if tc.name == "a truncated file" {
				bad = good[:len(good)/2]
			}
			require.NotEqual(t, good, bad)
			_, err := plan.Read(strings.NewReader(bad), "v1")
			require.ErrorContains(t, err, tc.want)
		})
	}
	_, err := plan.Read(strings.NewReader(good), "v1")
	require.NoError(t, err)
}
