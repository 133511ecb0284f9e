package planner_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// drawCatalog makes any definitions that the loader would let pass: several
// platforms, a backend of each family and one of both, and a suite of each.
func drawCatalog(t *rapid.T) *catalog.Catalog {
	degrees := []int{2, 4, 8, 16}
	some := func(name string, of []int) []int {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 1, len(of), rapid.ID[int]).Draw(t, name)
	}
	words := func(name string, of []string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 1, len(of), rapid.ID[string]).Draw(t, name)
	}
	cat := &catalog.Catalog{
		Backends: []catalog.Backend{
			{Name: "moe", Vendors: []string{"nvidia"}, SetupSeconds: rapid.IntRange(0, 600).Draw(t, "setup"), Blocks: map[string]catalog.BackendBlock{"ep": &ep.Backend{
				Precisions: []string{"bf16", "fp8"},
				Contracts:  ep.Contracts()[:rapid.IntRange(1, 2).Draw(t, "contracts")],
				OffPath:    []string{"fp8"}[:rapid.IntRange(0, 1).Draw(t, "off path")],
				Modes:      []ep.Mode{{Name: "normal"}, {Name: "low-latency", MaxTokens: 64, Graphs: rapid.Bool().Draw(t, "graphs"), Layouts: ep.Layouts()[:2*rapid.IntRange(0, 1).Draw(t, "choice of layout")]}},
			}}},
			{Name: "ring", Vendors: []string{"nvidia"}, Blocks: map[string]catalog.BackendBlock{"collective": &collective.Backend{
				Ops: words("ops of ring", vocab.Ops()), DTypes: []string{"float"}, RedOps: []string{"sum"},
				Modes: []string{"pipelined"}, Registrations: []string{"none", "local"},
			}}},
		},
		Lists: map[string][]any{"workload": {&ep.Shape{
			Name: "w", Hidden: 1024, TopK: 4, Experts: 64,
			Ladders: []ep.Ladder{{Phase: "decode", Tokens: []int{1, 128}}, {Phase: "prefill", Tokens: []int{1024}}},
		}}},
		Sampling: []catalog.Sampling{{
			Name: "s",
			Blocks: map[string]catalog.SamplingBlock{"ep": &ep.Sampling{
				ItersPerTrial: 8, TrialsPerPoint: rapid.IntRange(1, 20000).Draw(t, "trials"), WarmupItersPerTrial: 32,
				ChainItersPerTrial: 128, ChainTrialsPerPoint: 4, ChainDrop: 16,
			}, "collective": &collective.Sampling{Warmup: 5, Iterations: 20, Trials: 10}},
		}},
	}
	suites := []catalog.Suite{
		{Name: "a", Sampling: "s", Repeats: rapid.IntRange(1, 3).Draw(t, "repeats"), Blocks: map[string][]catalog.SuiteBlock{"ep": {&ep.SuiteBlock{
			Workload: "w", Backends: []string{"moe"}, Degrees: some("degrees", degrees), Modes: words("modes", ep.Modes()),
			Phases: words("phases", ep.Phases()), Precisions: words("precisions", ep.Precisions()),
			Routings: []ep.RoutingRef{{Name: "uniform"}, {Name: "zipf"}}, Contracts: ep.Contracts(), TimingModes: words("timing modes", ep.TimingModes()), Layouts: words("layouts", ep.Layouts()), Sampling: "s",
		}}}},
		{Name: "b", Sampling: "s", Repeats: 1, Blocks: map[string][]catalog.SuiteBlock{"collective": {&collective.SuiteBlock{
			CTAs:     []int{0, 8},
			Backends: []string{"ring"}, Ops: words("ops", sized()), DTypes: []string{"float", "half"}, RedOps: []string{"sum", "max"},
			Sizes:      &catalog.Sizes{From: 8, To: 1 << 20, Factor: 4},
			Placements: words("placements", []string{"out_of_place", "in_place"}), Modes: []string{"pipelined", "graph"},
			Buffers: []string{"cold", "warm"}, Registrations: []string{"none", "symmetric"}, Sampling: "s",
		}}}},
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "platforms") {
		worlds := some("worlds", degrees)
		p := catalog.Platform{
			SKU: "p" + strconv.Itoa(i), Runner: "r", Vendor: "nvidia", Product: "x", CPU: "amd64",
			GPUsPerNode: rapid.SampledFrom([]int{4, 8}).Draw(t, "gpus per node"),
			ScaleUp:     catalog.ScaleUp{Domain: rapid.SampledFrom([]int{8, 72}).Draw(t, "domain"), Transport: "nvlink", Pace: catalog.Pace{Micros: 100, GBps: 50}},
			ScaleOut:    &catalog.ScaleOut{Pace: catalog.Pace{Micros: 200, GBps: 10}},
			Backends: []catalog.Support{
				{Backend: "moe", Blocks: map[string]catalog.SupportBlock{"ep": &ep.Support{{Mode: "normal", Degrees: some("normal", degrees)}, {Mode: "low-latency", Degrees: some("low latency", degrees)}}}},
				{Backend: "ring", Blocks: map[string]catalog.SupportBlock{"collective": (*catalog.Worlds)(&worlds)}},
			},
		}
		cat.Platforms = append(cat.Platforms, p)
		for j := range suites {
			suites[j].Platforms = append(suites[j].Platforms, p.SKU)
		}
	}
	cat.Suites = suites
	return cat
}

// sized lists the operations that have sizes.
func sized() []string {
	return slices.DeleteFunc(vocab.Ops(), func(op string) bool { return vocab.Op(op).Traffic })
}

// TestLaws checks what must hold of any plan.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cat := drawCatalog(t)
		f := planner.Filters{MaxCases: rapid.IntRange(1, 40).Draw(t, "max cases")}
		m, err := planner.Resolve(cat, f, planner.Machine{})
		if err != nil {
			require.Regexp(t, `estimated at \d+ minutes|more than the \d+ of the workflow`, err.Error())
			return
		}
		again, err := planner.Resolve(cat, f, planner.Machine{})
		require.NoError(t, err)
		require.Equal(t, m, again, "same input, same output")

		cellOf := map[string]string{}
		ids := map[string]bool{}
		for i, c := range m.Include {
			require.False(t, ids[c.ID], "cell %s twice", c.ID)
			ids[c.ID] = true
			require.NotEmpty(t, c.CaseIDs)
			require.LessOrEqual(t, len(c.CaseIDs), f.MaxCases)
			require.LessOrEqual(t, c.Minutes, planner.MaxCellMinutes)
			require.Equal(t, i, c.Index)
			require.Equal(t, len(m.Include), c.Total)
			require.Equal(t, i/plan.WaveCells, c.Wave)
			for _, id := range c.CaseIDs {
				require.Empty(t, cellOf[id], "case %s in two cells", id)
				cellOf[id] = c.ID
			}
		}
		seen := map[string]bool{}
		for q := range m.Requested() {
			c := q.Case
			require.False(t, seen[c.CaseID], "case %s twice", c.CaseID)
			seen[c.CaseID] = true
			require.Regexp(t, `^[a-z0-9]+(-[a-z0-9]+)*$`, c.CaseID)
			require.Equal(t, c.World, c.Nodes*c.RanksPerNode)
			if q.Disposition == plan.Unsupported {
				require.Empty(t, cellOf[c.CaseID])
				require.NotEmpty(t, *q.Reason)
				require.Zero(t, q.BudgetSeconds)
				continue
			}
			cell, err := m.Cell(cellOf[c.CaseID])
			require.NoError(t, err, "runnable case %s is in no cell", c.CaseID)
			require.Equal(t, []any{c.SKU, c.Backend, c.Family, c.Nodes}, []any{cell.SKU, cell.Backend, cell.Family, cell.Nodes})
			require.Positive(t, q.BudgetSeconds)
		}
		require.Len(t, cellOf, countRunnable(m))
		require.Zero(t, outOfTurn(m), "each round of cells takes one of each platform")
	})
}

// TestFiltersSelect: what a filtered plan asks for, the whole one asks for too,
// in the same order. (Naming a precision is the one filter that adds cases.)
func TestFiltersSelect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cat := drawCatalog(t)
		whole, err := planner.Resolve(cat, planner.Filters{MaxCases: 1000}, planner.Machine{})
		if err != nil {
			return
		}
		pick := func(name string, of []string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, len(of), rapid.ID[string]).Draw(t, name)
		}
		f := planner.Filters{MaxCases: 1000, Only: planner.Only{
			"suite": pick("suites", []string{"a", "b"}), "backend": pick("backends", []string{"moe", "ring"}),
			"sku": pick("skus", []string{"p0"}), "mode": pick("modes", ep.Modes()), "phase": pick("phases", ep.Phases()),
			"op": pick("ops", vocab.Ops()),
		}}
		m, err := planner.Resolve(cat, f, planner.Machine{})
		require.NoError(t, err)
		all := allIDs(whole)
		for _, id := range allIDs(m) {
			i := slices.Index(all, id)
			require.GreaterOrEqual(t, i, 0, "case %s is new or out of order", id)
			all = all[i+1:]
		}
	})
}

func countRunnable(m *plan.Matrix) int {
	n := 0
	for q := range m.Requested() {
		if q.Disposition == plan.Runnable {
			n++
		}
	}
	return n
}

// outOfTurn counts the cells that come before a cell of a lower round.
func outOfTurn(m *plan.Matrix) int {
	round := map[string]int{}
	last, out := 0, 0
	for _, c := range m.Include {
		round[c.SKU]++
		if round[c.SKU] < last {
			out++
		}
		last = max(last, round[c.SKU])
	}
	return out
}

// synthetic defines platforms×4 worlds×1728 collective cases.
func synthetic(platforms int) *catalog.Catalog {
	cat := &catalog.Catalog{
		Backends: []catalog.Backend{{Name: "ring", Vendors: []string{"nvidia"}, Blocks: map[string]catalog.BackendBlock{"collective": &collective.Backend{
			Ops: sized()[:9], DTypes: vocab.DTypes(), RedOps: vocab.RedOps(),
			Modes: []string{"pipelined", "per_iteration"}, Registrations: []string{"none", "local", "symmetric"},
		}}}},
		Sampling: []catalog.Sampling{{Name: "s", Blocks: map[string]catalog.SamplingBlock{"collective": &collective.Sampling{Warmup: 1, Iterations: 2, Trials: 3}}}},
		Suites: []catalog.Suite{{Name: "all", Sampling: "s", Repeats: 1, Blocks: map[string][]catalog.SuiteBlock{"collective": {&collective.SuiteBlock{
			CTAs:     []int{0},
			Backends: []string{"ring"}, Ops: sized()[:9], DTypes: vocab.DTypes(), RedOps: vocab.RedOps(),
			Sizes:      &catalog.Sizes{From: 8, To: 1 << 33, Factor: 2},
			Placements: []string{"out_of_place", "in_place"}, Modes: []string{"pipelined", "per_iteration"},
			Buffers: []string{"cold", "warm"}, Registrations: []string{"none", "local", "symmetric"}, Sampling: "s",
		}}}}},
	}
	for i := range platforms {
		sku := fmt.Sprintf("pool-%03d", i)
		cat.Platforms = append(cat.Platforms, catalog.Platform{
			SKU: sku, Runner: sku, Vendor: "nvidia", Product: "x", Arch: "sm90", CPU: "amd64", GPUsPerNode: 8,
			ScaleUp:  catalog.ScaleUp{Domain: 8, Transport: "nvlink", Pace: catalog.Pace{Micros: 10, GBps: 1000}},
			ScaleOut: &catalog.ScaleOut{Pace: catalog.Pace{Micros: 20, GBps: 1000}},
			Backends: []catalog.Support{{Backend: "ring", Blocks: map[string]catalog.SupportBlock{"collective": &catalog.Worlds{2, 4, 8, 16}}}},
		})
		cat.Suites[0].Platforms = append(cat.Suites[0].Platforms, sku)
	}
	return cat
}

// TestWaves: a plan of more cells than one matrix of jobs may have is split, and
// one of more than the workflow has waves for is refused.
func TestWaves(t *testing.T) {
	m := plantest.Resolve(synthetic(1), planner.Filters{MaxCases: 20})
	require.Len(t, m.RequestedOther, 4*1728)
	require.Greater(t, len(m.Include), plan.WaveCells)

	outputs, err := m.Outputs()
	require.NoError(t, err)
	value := map[string]string{}
	for _, o := range outputs {
		value[o.Name] = o.Value
	}
	require.Equal(t, "256", value["count_0"])
	require.Equal(t, strconv.Itoa(len(m.Include)-256), value["count_1"])
	require.Equal(t, "0", value["count_3"])
	require.JSONEq(t, `{"include":[]}`, value["matrix_3"])
	require.Equal(t, "amd64", value["archs"])

	_, err = planner.Resolve(synthetic(1), planner.Filters{MaxCases: 6}, planner.Machine{})
	require.ErrorContains(t, err, "more than the 1024 of the workflow's 4 waves; filter it")
}

// TestHundredThousandCases: the largest plan that the workflow can run.
func TestHundredThousandCases(t *testing.T) {
	need.Full(t)
	m := plantest.Resolve(synthetic(15), planner.Filters{})
	require.Equal(t, 103680, countRunnable(m))
	require.LessOrEqual(t, len(m.Include), plan.Waves*plan.WaveCells)
	outputs, err := m.Outputs()
	require.NoError(t, err)
	size := 0
	for _, o := range outputs {
		size += 2 * len(o.Name+o.Value)
	}
	require.Less(t, size, plan.MaxOutputBytes)
}

func TestOutputsTooLarge(t *testing.T) {
	m := plantest.Resolve(synthetic(1), planner.Filters{})
	for i := range m.Include {
		m.Include[i].Runner = string(make([]byte, 1<<13))
	}
	_, err := m.Outputs()
	require.ErrorContains(t, err, "GitHub allows 1048576; filter the plan")
}

// TestTooLong: a case that no cell has time for is refused, with its name.
func TestTooLong(t *testing.T) {
	cat := synthetic(1)
	catalog.SamplingOf[collective.Sampling](&cat.Sampling[0]).Trials = 1_000_000
	_, err := planner.Resolve(cat, planner.Filters{}, planner.Machine{})
	require.ErrorContains(t, err, "case pool-000-ring-all-reduce-int8-sum-w2-cold is estimated at")
	require.ErrorContains(t, err, "more than the 350 a cell may take")
}

// TestTooMany: a plan that no workflow could run is refused before it is built.
func TestTooMany(t *testing.T) {
	f := planner.Filters{MaxCases: planner.DefaultMaxCases}
	cat := synthetic(1)
	cat.Suites[0].Repeats = 25
	_, err := planner.Resolve(cat, f, planner.Machine{})
	require.EqualError(t, err, "the plan has more than 131072 cases; filter it")
}

// TestConflict: two suites may ask for the same case, not for two cases of one id.
func TestConflict(t *testing.T) {
	cat := synthetic(1)
	other := cat.Suites[0]
	other.Name = "other"
	cat.Suites = append(cat.Suites, other)
	m := plantest.Resolve(cat, planner.Filters{})
	require.Len(t, m.RequestedOther, 4*1728)

	block := *other.Blocks["collective"][0].(*collective.SuiteBlock)
	block.Sizes = &catalog.Sizes{From: 8, To: 1 << 20, Factor: 2}
	cat.Suites[1].Blocks = map[string][]catalog.SuiteBlock{"collective": {&block}}
	_, err := planner.Resolve(cat, planner.Filters{}, planner.Machine{})
	require.ErrorContains(t, err, `suites "all" and "other" ask for different cases with the same id pool-000-ring-all-reduce-int8-sum-w2-cold; plan them separately`)
}
