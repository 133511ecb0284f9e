package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
)

func refusable() plan.Case {
	return plantest.EP(2, func(c *plan.Case) {
		ep.Of(c).Hidden, ep.Of(c).TopK, ep.Of(c).Experts, ep.Of(c).Ladder = 64, 2, 8, plan.Ladder{1}
		ep.Of(c).Timing = ep.Timing{
			ItersPerTrial: 1, TrialsPerPoint: 1, WarmupItersPerTrial: 1,
			ChainItersPerTrial: 4, ChainTrialsPerPoint: 1, ChainDrop: 2,
		}
	})
}

func requireRefused(t *testing.T, err error, text string) {
	t.Helper()
	var coded *rank.Error
	require.ErrorAs(t, err, &coded)
	require.Equal(t, result.ReasonRefused, coded.Reason.Code)
	require.ErrorContains(t, err, text)
}

func TestCasesThatAreRefused(t *testing.T) {
	require.NoError(t, checkCase(refusable(), 2))
	for _, c := range []struct {
		name   string
		change func(c *plan.Case)
		want   string
	}{
		{"other family", func(c *plan.Case) { c.Block = nil }, "no ep block"},
		{"mode", func(c *plan.Case) { ep.Of(c).Mode = "fast" }, `unknown mode "fast"`},
		{"iterations", func(c *plan.Case) { ep.Of(c).Timing.ItersPerTrial = 0 }, "must be positive"},
		{"trials", func(c *plan.Case) { ep.Of(c).Timing.TrialsPerPoint = 0 }, "must be positive"},
		{"warm-up", func(c *plan.Case) { ep.Of(c).Timing.WarmupItersPerTrial = 0 }, "must be positive"},
		{"chain iterations", func(c *plan.Case) { ep.Of(c).Timing.ChainItersPerTrial = 0 }, "must be positive"},
		{"chain trials", func(c *plan.Case) { ep.Of(c).Timing.ChainTrialsPerPoint = -1 }, "must be positive"},
		{"negative drop", func(c *plan.Case) { ep.Of(c).Timing.ChainDrop = -1 }, "must be positive"},
		{"drop that leaves one pair", func(c *plan.Case) { ep.Of(c).Timing.ChainDrop = 3 }, "chain_drop must leave at least 2"},
		{"experts", func(c *plan.Case) { ep.Of(c).Experts = 9 }, "9 experts cannot be divided evenly among 2 ranks"},
		{"world", func(c *plan.Case) { c.World = 4 }, "the group has 2 ranks"},
		{"ep size", func(c *plan.Case) { ep.Of(c).EPSize = 4 }, "the group has 2 ranks"},
		{"hidden", func(c *plan.Case) { ep.Of(c).Hidden = 31 }, "hidden size 31"},
		{"contract", func(c *plan.Case) { c.Contract = "runtime-visible-v1" }, "unknown timing contract"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := refusable()
			c.change(&bad)
			requireRefused(t, checkCase(bad, 2), c.want)
		})
	}
}

func TestAdaptersThatAreRefused(t *testing.T) {
	normal := Description{
		Mode: ep.ModeNormal, Receive: TokenRank, Combine: UnweightedRankSum, Reduction: DomainFP32,
		DispatchDType: "bf16", FP8Consume: ConsumeNative, IndexType: numeric.Int32,
	}
	require.NoError(t, checkDescription(refusable(), normal))
	weighted := normal
	weighted.Mode, weighted.Receive, weighted.Combine = ep.ModeLowLatency, TokenExpert, WeightedKernelSum
	low := refusable()
	ep.Of(&low).Mode = ep.ModeLowLatency
	require.NoError(t, checkDescription(low, weighted))
	unweighted := normal
	unweighted.Mode = ep.ModeLowLatency
	require.NoError(t, checkDescription(low, unweighted), "a low-latency kernel may leave the weights to the experts")

	for _, c := range []struct {
		name   string
		change func(c *plan.Case, d *Description)
		want   string
	}{
		{"mode", func(_ *plan.Case, d *Description) { d.Mode = ep.ModeLowLatency }, "the adapter declares mode"},
		{"layout without its semantics", func(_ *plan.Case, d *Description) { d.Receive = TokenExpert }, "no oracle for receive layout"},
		{"semantics without its layout", func(_ *plan.Case, d *Description) { d.Combine = WeightedKernelSum }, "no oracle for receive layout"},
		{"weighted sum in normal mode", func(_ *plan.Case, d *Description) {
			d.Receive, d.Combine = TokenExpert, WeightedKernelSum
		}, "not allowed in normal mode"},
		{"reduction", func(_ *plan.Case, d *Description) { d.Reduction = "fp16" }, "no oracle for reduction"},
		{"fp8 that is realised as bf16", func(c *plan.Case, _ *Description) { c.Precision = "fp8" }, "the case requests precision fp8, but dispatch would use bf16"},
		{"bf16 that is realised as fp8", func(_ *plan.Case, d *Description) { d.DispatchDType = "fp8-e4m3fn" }, "the case requests precision bf16"},
		{"fp8 without a codec", func(c *plan.Case, d *Description) { c.Precision, d.DispatchDType = "fp8", "fp8-e4m3fn" }, "precision fp8"},
		{"consumption", func(_ *plan.Case, d *Description) { d.FP8Consume = "" }, "fp8 consumption"},
		{"ids", func(_ *plan.Case, d *Description) { d.IndexType = numeric.Uint32 }, "expert ids cannot be uint32"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked, declared := refusable(), normal
			c.change(&asked, &declared)
			requireRefused(t, checkDescription(asked, declared), c.want)
		})
	}
}

func TestLadder(t *testing.T) {
	c := refusable()
	for _, l := range []plan.Ladder{{0, 1}, {2, 1}, {1, 1}} {
		ep.Of(&c).Ladder = l
		_, _, err := routingOf(c)
		requireRefused(t, err, "must be positive and ascend")
	}
	ep.Of(&c).Ladder = nil
	_, _, err := routingOf(c)
	requireRefused(t, err, "is empty")
	ep.Of(&c).Ladder, ep.Of(&c).Routing = plan.Ladder{1}, "round-robin"
	_, _, err = routingOf(c)
	requireRefused(t, err, "unknown routing")
}

func TestClamp(t *testing.T) {
	for _, c := range []struct {
		routing           string
		limit             int
		measured, dropped []int
	}{
		{"uniform", 0, []int{2, 4, 6}, nil},
		{"uniform", 4, []int{2, 4}, []int{6}},
		{"uniform", 1, nil, []int{2, 4, 6}},
		{"uneven-linear", 6, []int{2, 4}, []int{6}}, // the last rank sends 3, 6, 9
	} {
		r, err := workload.NewRouting(c.routing, workload.Shape{World: 2, Experts: 8, TopK: 2})
		require.NoError(t, err)
		measured, dropped := clamp(r, []int{2, 4, 6}, c.limit)
		require.Equal(t, c.measured, measured)
		require.Equal(t, c.dropped, dropped)
	}
}
