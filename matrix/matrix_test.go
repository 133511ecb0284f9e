package matrix_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/vocab"
	"github.com/collectivex/collectivex/pkg/workload"
)

// What the definitions may ask for is what the families can do: each name here
// has its meaning in another package.

func load(t *testing.T) *catalog.Catalog {
	t.Helper()
	cat, err := catalog.Load(matrix.FS)
	require.NoError(t, err)
	return cat
}

func TestRoutingsHaveAMeaning(t *testing.T) {
	cat := load(t)
	used := map[string]bool{}
	m, err := planner.Resolve(cat, planner.Filters{}, planner.Machine{})
	require.NoError(t, err)
	for q := range m.Requested() {
		c := q.Case
		if ep.Of(&c) == nil || used[ep.Of(&c).Routing] {
			continue
		}
		used[ep.Of(&c).Routing] = true
		_, err := workload.NewRouting(ep.Of(&c).Routing, workload.Shape{
			Seed: ep.Of(&c).Seed, World: c.World, Experts: ep.Of(&c).Experts, TopK: ep.Of(&c).TopK, LargestRung: 8,
		})
		require.NoError(t, err, c.CaseID)
	}
	for _, name := range cat.Words("routing") {
		require.True(t, used[name], "no suite uses routing %s", name)
	}
}

func TestCollectivesHaveAMeaning(t *testing.T) {
	for _, name := range vocab.Ops() {
		op, err := runner.ParseOp(name)
		require.NoError(t, err)
		require.Equal(t, op == runner.AllToAllV, vocab.Op(name).Traffic, name)
		if op.Pairwise() {
			require.Len(t, op.Pairs(5), vocab.Op(name).Pairs.Count(5), name)
		} else {
			require.Zero(t, vocab.Op(name).Pairs.Count(5), name)
		}
	}
	require.Len(t, runner.Ops(), len(vocab.Ops()))
	for _, name := range vocab.DTypes() {
		_, err := numeric.ParseType(name)
		require.NoError(t, err)
	}
	for _, name := range vocab.RedOps() {
		op, err := workload.ParseRedOp(name)
		require.NoError(t, err)
		require.NotEqual(t, workload.NoRedOp, op)
	}
}

// TestCaps: the ladder caps of the low-latency kernels. nccl-ep v0.2 has none.
func TestCaps(t *testing.T) {
	cat := load(t)
	for backend, most := range map[string]int{"deepep-v2": 256, "uccl-ep": 256, "mori": 256, "nccl-ep": 0, "host": 256} {
		ep := catalog.BackendOf[ep.Backend](cat.Backend(backend))
		require.Equal(t, most, ep.Mode("low-latency").MaxTokens, backend)
		require.Zero(t, ep.Mode("normal").MaxTokens, backend)
	}
	require.Equal(t, 128, catalog.BackendOf[ep.Backend](cat.With("upstream-2026-08").Backend("nccl-ep")).Mode("low-latency").MaxTokens)
	require.Nil(t, catalog.BackendOf[ep.Backend](cat.Backend("flashinfer-ep")).Mode("low-latency"))
}

// TestEveryPoolIsPlanned: no platform, backend, workload or profile is left over. What no pool's image
// has runs on machines that have it: two H200, and their host.
func TestEveryPoolIsPlanned(t *testing.T) {
	cat := load(t)
	gpus := planner.GPUs{Vendor: "nvidia", Product: "h200", Arch: "sm90", Transport: "nvlink", Count: 2}
	host := planner.Machine{GPUs: &gpus}
	pools := map[string]bool{}
	for _, p := range cat.Platforms {
		for _, b := range p.Backends {
			pools[b.Backend] = true
		}
	}
	for _, b := range cat.Backends {
		switch {
		case pools[b.Name]:
		case slices.Contains(b.Vendors, vocab.Host):
			host.Backends = append(host.Backends, b.Name)
		default:
			gpus.Backends = append(gpus.Backends, b.Name)
		}
	}
	m, err := planner.Resolve(cat, planner.Filters{}, host)
	require.NoError(t, err)
	var skus, backends, workloads, profiles []string
	for q := range m.Requested() {
		skus = append(skus, q.SKU)
		backends = append(backends, q.Case.Backend)
		profiles = append(profiles, q.Case.Sampling)
		if ep.Of(&q.Case) != nil {
			workloads = append(workloads, ep.Of(&q.Case).Workload)
		}
	}
	for _, p := range cat.Platforms {
		require.True(t, slices.Contains(skus, p.SKU), p.SKU)
	}
	for _, b := range cat.Backends {
		require.True(t, slices.Contains(backends, b.Name), b.Name)
	}
	for _, name := range cat.Words("workload") {
		require.True(t, slices.Contains(workloads, name), name)
	}
	for _, s := range cat.Sampling {
		require.True(t, slices.Contains(profiles, s.Name), s.Name)
	}
}

// The rows of each transfer of kv-mla tell the cost of a block from that of a byte.
func TestTransfersShowTheCostOfABlock(t *testing.T) {
	m, err := planner.Resolve(load(t), planner.Filters{Only: planner.Only{"suite": {transfer.SuiteKV}}}, planner.Machine{Backends: []string{"nixl", "mooncake"}})
	require.NoError(t, err)
	backends := map[string]bool{}
	for q := range m.Requested() {
		b := transfer.Of(&q.Case)
		if b.Workload != "kv-mla" {
			continue
		}
		var x [][]float64
		var us []float64
		points, dropped := b.Points()
		require.Empty(t, dropped, q.Case.CaseID)
		for _, p := range points {
			x = append(x, []float64{1, float64(p.Blocks), float64(p.Bytes)})
			us = append(us, 5+2*float64(p.Blocks)+1e-4*float64(p.Bytes))
		}
		fitted, ok := measure.NonNegativeFit(x, us)
		require.True(t, ok, q.Case.CaseID)
		require.InDelta(t, 2, fitted[1], 1e-3, q.Case.CaseID)
		backends[q.Case.Backend] = true
	}
	for _, backend := range []string{"host", "nccl-kv", "rccl-kv", "ipc", "nixl", "mooncake", "mori-io"} {
		require.True(t, backends[backend], backend)
	}
}
