package planner_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
)

func TestFilters(t *testing.T) {
	cat := plantest.Shipped()
	core := []string{"ep-core"}
	for _, tc := range []struct {
		name                  string
		filters               planner.Filters
		runnable, unsupported int
		cells                 int
	}{
		{"none", planner.Filters{Only: planner.Only{"suite": core}}, 142, 26, 88},
		{"today's pools", planner.Filters{Only: planner.Only{"suite": {"ep-core-v4"}}}, 152, 14, 97},
		{"the pools of September", planner.Filters{Only: planner.Only{"suite": {"ep-core-v4-2026-09"}}}, 158, 10, 100},
		{"one backend", planner.Filters{Only: planner.Only{"suite": core, "backend": {"mori"}}}, 18, 6, 12},
		{"one sku", planner.Filters{Only: planner.Only{"suite": core, "sku": {"b300"}}}, 11, 2, 6},
		{"all but one sku", planner.Filters{Only: planner.Only{"suite": core, "exclude-sku": {"b300"}}}, 131, 24, 82},
		{"ep size", planner.Filters{Only: planner.Only{"suite": core, "ep": {"16"}}}, 38, 26, 22},
		{"world size", planner.Filters{Only: planner.Only{"suite": core, "world": {"16"}}}, 38, 26, 22},
		{"mode: unsupported rows stay", planner.Filters{Only: planner.Only{"suite": core, "mode": {"low-latency"}}}, 34, 26, 34},
		{"precision: unsupported rows stay, off-path ones join", planner.Filters{Only: planner.Only{"suite": core, "precision": {"fp8"}}}, 64, 26, 39},
		{"both precisions: off-path ones join", planner.Filters{Only: planner.Only{"suite": core, "precision": {"bf16", "fp8"}}}, 150, 26, 92},
		{"phase", planner.Filters{Only: planner.Only{"suite": core, "phase": {"prefill"}}}, 54, 13, 54},
		{"nothing runnable is no error", planner.Filters{Only: planner.Only{"suite": core, "sku": {"b300"}, "backend": {"mori"}}}, 0, 0, 0},
		{"only unsupported", planner.Filters{Only: planner.Only{"suite": core, "sku": {"b300"}, "ep": {"16"}, "backend": {"nccl-ep"}}}, 0, 2, 0},
		{"a collective filter leaves no ep case", planner.Filters{Only: planner.Only{"suite": core, "op": {"all_reduce"}}}, 0, 0, 0},
		{"ops", planner.Filters{Only: planner.Only{"suite": {"collectives-core"}, "op": {"all_reduce", "gather"}, "sku": {"mi355x"}}}, 6, 0, 2},
		{"redop keeps what reduces", planner.Filters{Only: planner.Only{"suite": {"collectives-core"}, "redop": {"sum"}, "sku": {"mi355x"}}}, 9, 0, 2},
		{"dtype of no case", planner.Filters{Only: planner.Only{"suite": {"collectives-core"}, "dtype": {"half"}}}, 0, 0, 0},
		{"an ep filter leaves no collective", planner.Filters{Only: planner.Only{"suite": {"collectives-core", "ep-core"}, "sku": {"mi355x"}, "ep": {"8"}}}, 10, 0, 6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := plantest.Resolve(cat, tc.filters)
			runnable, unsupported := 0, 0
			for q := range m.Requested() {
				if q.Disposition == plan.Runnable {
					runnable++
				} else {
					unsupported++
				}
			}
			require.Equal(t, []int{tc.runnable, tc.unsupported, tc.cells}, []int{runnable, unsupported, len(m.Include)})
			require.NotNil(t, m.Include, "an empty plan is a list in JSON")
		})
	}
}

func TestFilterErrors(t *testing.T) {
	cat := plantest.Shipped()
	for _, tc := range []struct {
		name    string
		filters planner.Filters
		want    string
	}{
		{"suite", planner.Filters{Only: planner.Only{"suite": {"ep-coer"}}}, `unknown suite "ep-coer"; did you mean "ep-core"?`},
		{"backend", planner.Filters{Only: planner.Only{"backend": {"deepep"}}}, `unknown backend "deepep"; did you mean "deepep-v2"?`},
		{"sku", planner.Filters{Only: planner.Only{"sku": {"mi355"}}}, `unknown sku "mi355"; did you mean "mi355x"?`},
		{"excluded sku", planner.Filters{Only: planner.Only{"exclude-sku": {"gb400"}}}, `unknown excluded sku "gb400"; did you mean "gb200"?`},
		{"mode", planner.Filters{Only: planner.Only{"mode": {"fast"}}}, `unknown mode "fast"; choose from normal, low-latency`},
		{"precision", planner.Filters{Only: planner.Only{"precision": {"fp16"}}}, `unknown precision "fp16"; did you mean "bf16"?`},
		{"phase", planner.Filters{Only: planner.Only{"phase": {"train"}}}, `unknown phase "train"; choose from decode, prefill`},
		{"op", planner.Filters{Only: planner.Only{"op": {"allreduce"}}}, `unknown op "allreduce"; did you mean "all_reduce"?`},
		{"dtype", planner.Filters{Only: planner.Only{"dtype": {"bf16"}}}, `unknown dtype "bf16"; choose from int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3, f8e5m2`},
		{"redop", planner.Filters{Only: planner.Only{"redop": {"xor"}}}, `unknown redop "xor"; choose from sum, prod, max, min, avg, mulsum`},
		{"filter", planner.Filters{Only: planner.Only{"suites": {"ep-core"}}}, `unknown filter "suites"`},
		{"ep size", planner.Filters{Only: planner.Only{"suite": {"ep-core"}, "ep": {"32"}}}, "EP size 32 is in none of the selected suites; they have 8, 16"},
		{"ep size of a suite without", planner.Filters{Only: planner.Only{"suite": {"collectives-core"}, "ep": {"8"}}}, "EP size 8 is in none of the selected suites; they have none"},
		{"world size", planner.Filters{Only: planner.Only{"suite": {"collectives-core"}, "world": {"3"}}}, "world size 3 is in none of the selected suites; they have 2, 4, 8, 16"},
		{"the only sku excluded", planner.Filters{Only: planner.Only{"sku": {"b300"}, "exclude-sku": {"b300"}}}, "every selected sku is excluded: b300"},
		{"all at once", planner.Filters{Only: planner.Only{"sku": {"x"}, "mode": {"y"}}}, "unknown sku \"x\"; choose from b200-nscale, b300, gb200, gb300, h100-dgxc, h200-dgxc, local, mi300x-tw, mi325x, mi325x-tw, mi355x\nunknown mode \"y\"; choose from normal, low-latency"},
		{"max cases", planner.Filters{MaxCases: -1}, "invalid maximum of -1 cases in a cell: want a positive number"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := planner.Resolve(cat, tc.filters, planner.Machine{})
			require.EqualError(t, err, tc.want)
		})
	}
}

// TestAllSuitesTogether: without a filter everything is planned, and no two
// suites ask for different cases of one id.
func TestAllSuitesTogether(t *testing.T) {
	m := plantest.Resolve(plantest.Shipped(), planner.Filters{})
	require.LessOrEqual(t, len(m.Include), plan.Waves*plan.WaveCells)
	suites := map[string]bool{}
	for q := range m.Requested() {
		c := q.Case
		suites[c.Suite] = true
		if collective.Of(&c) != nil && (collective.Of(&c).Op == "alltoall" || collective.Of(&c).Op == "sendrecv") {
			require.NotContains(t, collective.Of(&c).Placements, "in_place")
		}
	}
	for _, s := range []string{"smoke", "ep-core", "ep-routing", "ep-reference", "collectives-core"} {
		require.True(t, suites[s], s)
	}
	cached := plantest.Find(m, "local-host-small-normal-decode-ep2-uniform-bf16-cached-layout")
	require.Equal(t, ep.ContractCachedLayout, cached.Contract)
}
