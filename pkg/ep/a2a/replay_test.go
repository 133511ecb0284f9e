package a2a

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// replayed is a case of replayed graphs.
func replayed(mode, precision string, change ...func(*plan.Case)) plan.Case {
	c := brief(2, mode, precision)
	ep.Of(&c).TimingMode = vocab.Graph
	for _, f := range change {
		f(&c)
	}
	c.CaseID = c.ID()
	return c
}

// Replayed graphs pass the same checks, and more. What their documents say of a tail is
// nothing, and of the mode everything.
func TestReplays(t *testing.T) {
	setUp(t)
	cases := []plan.Case{
		replayed(ep.ModeLowLatency, "bf16"),
		replayed(ep.ModeLowLatency, "fp8"),
		replayed(ep.ModeLowLatency, "bf16", func(c *plan.Case) {
			c.Contract, ep.Of(c).Routing, ep.Of(c).Ladder = ep.ContractCachedLayout, "uneven-empty-rank", plan.Ladder{4}
		}),
	}
	for i, streams := range eptest.Run(t, Open, "", cases...) {
		d := eptest.Document(t, cases[i], streams)
		require.Equal(t, result.Success, d.Outcome.Status, "%s: %v", cases[i].CaseID, d.Outcome.Reasons)
		require.Equal(t, "a2a-gather-ll-cudagraph", d.Implementation.KernelGeneration)
		require.True(t, *d.Implementation.CUDAGraphReplay)
		require.True(t, *d.Implementation.CUDAGraphSupported)
		row := d.Measurement.Rows[0]
		require.True(t, *row.Correctness.GraphRewritten)
		require.True(t, *row.Correctness.GraphOutputPassed)
		require.Zero(t, *row.Correctness.GraphOutputError)
		k := row.Components
		for _, c := range []ep.Component{k.Dispatch, k.Combine, k.Roundtrip, row.RankMin.Roundtrip} {
			require.Equal(t, ep.OriginGraphReplay, *c.Origin)
			require.Positive(t, c.Percentiles.P50)
			require.Nil(t, c.Percentiles.P99)
		}
		require.Equal(t, ep.Unavailable, k.Stage.Availability)
		require.Nil(t, k.IsolatedSum.Percentiles.P99)
		require.Nil(t, row.TokenRate.P99)
		for _, c := range []ep.Component{k.PairPeriod, row.ChainFloor.Dispatch, row.RankSpread} {
			require.NotNil(t, c.Percentiles.P99)
		}
	}
}

// A mode whose dispatch waits on the host cannot be captured, and says so before anything
// is measured.
func TestNormalModeHasNoReplays(t *testing.T) {
	setUp(t)
	s := eptest.Run(t, Open, "", replayed(ep.ModeNormal, "bf16"))[0][0]
	require.NotNil(t, s.Failure)
	require.Equal(t, result.ReasonRefused, s.Failure.Reason.Code)
	wording.Has(t, s.Failure.Text, "a2a … graphs … normal")
}

// A graph that lacks a kernel passes every check that enqueues operations one by one. The
// checks of its launches find it, each by what the kernel should have written.
func TestAGraphThatLacksAKernel(t *testing.T) {
	setUp(t)
	for kernel, want := range map[string]string{
		"cx_gather_sum":    "cuda_graph_output_rewritten", // the output is that of the launch before
		"cx_gather_expand": "post-roundtrip source",       // nothing arrives
		"cx_gather_pack":   "post-roundtrip-changed payload",
	} {
		t.Run(kernel, func(t *testing.T) {
			t.Setenv("CX_FAKE_GRAPH_DROP", kernel)
			cases := []plan.Case{brief(2, ep.ModeLowLatency, "bf16"), replayed(ep.ModeLowLatency, "bf16")}
			all := eptest.Run(t, Open, "", cases...)
			require.Equal(t, result.Success, eptest.Document(t, cases[0], all[0]).Outcome.Status)
			d := eptest.Document(t, cases[1], all[1])
			require.Equal(t, result.Invalid, d.Outcome.Status)
			check := d.Measurement.Rows[0].Correctness
			require.True(t, check.OraclePassed.Pre)
			require.Contains(t, check.Reasons.String(), want)
		})
	}
}

// Launches that do nothing are found wherever they are: 15 launches are of fresh windows, 2 of
// the comparison with an eager pair, up to 8 of chains, and the rest of the alternating pass.
func TestLaunchesThatDoNothing(t *testing.T) {
	setUp(t)
	c := replayed(ep.ModeLowLatency, "bf16")
	for at, want := range map[string]string{
		"replay-every-5": "post-roundtrip-changed ", "replay-every-17": "cuda_graph_last_output ",
		"replay-every-21": "(chain-output|timed-chain) ", "replay-26": "alternating-roundtrip ",
	} {
		fault := "kind=" + runner.FaultNoReplay + ",at=" + at
		faults := "rank=0," + fault + ";rank=1," + fault
		d := eptest.Document(t, c, eptest.Run(t, Open, faults, c)[0])
		require.Equal(t, result.Invalid, d.Outcome.Status, at)
		require.Regexp(t, want, d.Measurement.Rows[0].Correctness.Reasons.String(), at)
	}
}

// A library that keeps results by the address of their input is captured without work where it had
// the address before: every graph but those of the first chain.
func TestCachedResultsInGraphs(t *testing.T) {
	setUp(t)
	c := replayed(ep.ModeLowLatency, "bf16")
	for kind, want := range map[string][]string{
		runner.FaultCachedDispatch: {"timed-roundtrip payload", "timed-dispatch payload", "chain-output source_decode"},
		runner.FaultCachedCombine:  {"timed-roundtrip combine_values", "timed-combine combine_values", "chain-output combine_values"},
	} {
		fault := ",kind=" + kind
		d := eptest.Document(t, c, eptest.Run(t, Open, "rank=0"+fault+";rank=1"+fault, c)[0])
		require.Equal(t, result.Invalid, d.Outcome.Status, kind)
		for _, when := range want {
			require.Contains(t, d.Measurement.Rows[0].Correctness.Reasons.String(), "check-failed: "+when+" ", kind)
		}
	}
}

// Launches that do nothing except the last of each window are found by the ones that are judged at
// random places.
func TestOnlyTheLastLaunchWorks(t *testing.T) {
	setUp(t)
	c := replayed(ep.ModeLowLatency, "bf16", func(c *plan.Case) {
		ep.Of(c).Timing.ItersPerTrial, ep.Of(c).Timing.TrialsPerPoint = 12, 3
	})
	fault := ",kind=" + runner.FaultNoReplay + ",at=windows"
	d := eptest.Document(t, c, eptest.Run(t, Open, "rank=0"+fault+";rank=1"+fault, c)[0])
	require.Equal(t, result.Invalid, d.Outcome.Status)
	require.Regexp(t, `^((check-failed|non-finite-error): timed-[^;]*(; |$))+$`, d.Measurement.Rows[0].Correctness.Reasons.String())
}

// On devices whose clocks stay capped, every trial is repeated in vain, counts and is marked.
func TestCappedTrialsAreRepeated(t *testing.T) {
	setUp(t)
	t.Setenv("CX_FAKE_REASONS", "64")
	for _, c := range []plan.Case{replayed(ep.ModeLowLatency, "bf16"), brief(2, ep.ModeLowLatency, "bf16")} {
		streams := eptest.Run(t, Open, "", c)[0]
		d := eptest.Document(t, c, streams)
		require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
		timing := ep.Of(&c).Timing
		all := timing.TrialsPerPoint + timing.ChainTrialsPerPoint
		row := d.Measurement.Rows[0]
		require.Equal(t, timing.TrialsPerPoint*timing.ItersPerTrial, row.Components.Roundtrip.SampleCount)
		require.Equal(t, timing.ChainTrialsPerPoint*(timing.ChainItersPerTrial-timing.ChainDrop), row.Components.PairPeriod.SampleCount)
		for _, s := range streams {
			require.Equal(t, all, s.Device.TrialsCapped)
			require.Equal(t, result.MaxRepeats*all, s.Device.TrialsRepeated)
			require.Empty(t, s.Repeats)
		}
	}
}
