package host_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/host"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

func lowLatency(c *plan.Case) { ep.Of(c).Mode = ep.ModeLowLatency }
func fp8(c *plan.Case)        { c.Precision = "fp8" }
func cached(c *plan.Case)     { c.Contract = ep.ContractCachedLayout }

func routing(name string) func(*plan.Case) {
	return func(c *plan.Case) { ep.Of(c).Routing = name }
}

func ladder(rungs string) func(*plan.Case) {
	return func(c *plan.Case) {
		if err := ep.Of(c).Ladder.UnmarshalText([]byte(rungs)); err != nil {
			panic(err) // a test's own ladder
		}
	}
}

// run measures a case on real ranks and requires that it passes.
func run(t *testing.T, v host.Variant, c plan.Case) *ep.Document {
	t.Helper()
	d := eptest.Document(t, c, eptest.Run(t, host.Open(v), "", c)[0])
	requireSuccess(t, d)
	return d
}

func requireSuccess(t *testing.T, d *ep.Document) {
	t.Helper()
	for _, r := range d.Measurement.Rows {
		require.True(t, r.Correctness.Passed, "T=%d: %v", r.TokensPerRank, r.Correctness.Reasons)
	}
	require.Equal(t, result.Outcome{Status: result.Success, Reasons: result.Reasons{}}, d.Outcome)
}

// Windows, chains and verdicts say when they began, for traces.
func TestRecordsSayWhenTheyBegan(t *testing.T) {
	began := map[string]int{}
	for _, stream := range eptest.Run(t, host.Open(host.Variant{}), "", eptest.Case(2))[0] {
		for _, r := range stream.Records {
			switch r.Kind {
			case "ep-fresh", "ep-chain", "ep-verdict":
				var when struct{ Began time.Time }
				require.NoError(t, json.Unmarshal(r.Data, &when))
				require.False(t, when.Began.IsZero(), "%s", r.Data)
				require.Equal(t, time.UTC, when.Began.Location())
				began[r.Kind]++
			}
		}
	}
	require.Len(t, began, 3)
}

func TestEveryForm(t *testing.T) {
	need.Full(t)
	for _, c := range []struct {
		name    string
		variant host.Variant
		change  []func(*plan.Case)
		dtype   string
		scales  int64 // bytes of a row
	}{
		{"normal bf16", host.Variant{}, nil, "bf16", 0},
		{"normal bf16 tree", host.Variant{Reduction: runner.TopKSlotTree}, nil, "bf16", 0},
		{"normal fp8 blocks", host.Variant{}, []func(*plan.Case){fp8}, "fp8-e4m3fn", 8},
		{"normal fp8 cast", host.Variant{PlainCast: true}, []func(*plan.Case){fp8}, "fp8-e4m3fn", 0},
		{"normal fp8 tree", host.Variant{Reduction: runner.TopKSlotTree}, []func(*plan.Case){fp8}, "fp8-e4m3fn", 8},
		{"normal cached", host.Variant{}, []func(*plan.Case){cached}, "bf16", 0},
		{"normal cached fp8", host.Variant{}, []func(*plan.Case){cached, fp8}, "fp8-e4m3fn", 8},
		{"low latency bf16", host.Variant{}, []func(*plan.Case){lowLatency}, "bf16", 0},
		{"low latency fp8", host.Variant{}, []func(*plan.Case){lowLatency, fp8}, "fp8-e4m3fn", 8},
		{"low latency fp8 cast", host.Variant{PlainCast: true}, []func(*plan.Case){lowLatency, fp8}, "fp8-e4m3fn", 0},
	} {
		for _, world := range []int{1, 4} { // two ranks in most other tests
			t.Run(fmt.Sprintf("%s/%d", c.name, world), func(t *testing.T) {
				d := run(t, c.variant, eptest.Case(world, append(c.change, ladder("1 8"))...))
				require.Equal(t, c.dtype, d.Measurement.DispatchDType)
				require.Len(t, d.Measurement.Rows, 2)
				for _, r := range d.Measurement.Rows {
					require.Equal(t, r.RoutingStats.RoutedCopies*c.scales, r.Bytes.Dispatch.Scale)
					staged := r.Components.Stage.Availability == ep.Measured
					require.Equal(t, c.dtype != "bf16", staged, "only fp8 has something to stage")
					require.Equal(t, staged, r.Correctness.ChainLastOutputPassed == nil)
				}
				require.Equal(t, c.dtype != "bf16", *d.Implementation.StageExcludedFromRoundtrip)
			})
		}
	}
}

// Documents say how far apart the ranks entered fresh-entry windows. Where they have no
// clock in common, their last meeting bounds it, unless they have met none of the others.
func TestEntrySkew(t *testing.T) {
	two := func(c *plan.Case) { c.Nodes, c.RanksPerNode = 2, 1 }
	windows := func(d *ep.Document) int {
		return len(d.Measurement.Rows) * 3 * ep.Of(&d.Identity.Case).Timing.TrialsPerPoint
	}
	d := run(t, host.Variant{}, eptest.Case(2))
	require.Equal(t, windows(d), d.EntrySkew.Windows)
	require.False(t, d.EntrySkew.Bound)
	d = run(t, host.Variant{}, eptest.Case(2, two))
	require.Equal(t, windows(d), d.EntrySkew.Windows)
	require.True(t, d.EntrySkew.Bound)
	require.Positive(t, d.EntrySkew.P50)
	require.Nil(t, run(t, host.Variant{}, eptest.Case(2, two, cached)).EntrySkew)
}

// What a rank receives is what the routing says, row by row or slot by slot.
func TestReceiveCounts(t *testing.T) {
	normal := run(t, host.Variant{}, eptest.Case(4, ladder("8"))).Measurement.Rows[0]
	require.EqualValues(t, normal.LogicalCopies.Routed, normal.Receive.Total)
	require.Equal(t, "rank-deduplicated", normal.LogicalCopies.Wire)
	slots := run(t, host.Variant{}, eptest.Case(4, ladder("8"), lowLatency)).Measurement.Rows[0]
	require.EqualValues(t, slots.LogicalCopies.Assignments, slots.Receive.Total)
	require.Equal(t, 4*8*4, slots.Receive.Total)
	require.Equal(t, "per-assignment", slots.LogicalCopies.Wire)
}

func TestEveryRouting(t *testing.T) {
	need.Full(t)
	for _, name := range []string{
		"zipf-mild", "zipf", "zipf-heavy", "balanced", "balanced-rank-local", "hotspot-single",
		"hotspot-moving-step5", "alternating-groups", "alternating-groups-step1",
		"uneven-linear", "uneven-empty-rank", "uniform-eplb", "zipf-heavy-eplb",
	} {
		for _, change := range [][]func(*plan.Case){{routing(name)}, {routing(name), lowLatency, fp8}} {
			c := eptest.Case(2, append(change, ladder("8"))...)
			t.Run(c.CaseID, func(t *testing.T) {
				d := run(t, host.Variant{}, c)
				last := d.Measurement.Rows[0]
				require.Equal(t, strings.HasSuffix(name, "-eplb"), d.Workload.EPLB != nil)
				require.Equal(t, 16, last.GlobalTokens)
				if name == "alternating-groups" {
					require.Equal(t, 1, last.RoutingStats.EmptyRankCount)
					require.Equal(t, 0, last.Receive.Min)
				}
			})
		}
	}
}

// Several domains on one host: the sum over domains is not rounded as one.
func TestTwoDomains(t *testing.T) {
	d := run(t, host.Variant{}, eptest.Case(4, ladder("8"), func(c *plan.Case) { c.ScaleUpDomain = 2 }))
	require.Less(t, d.Measurement.Rows[0].RoutingStats.Locality.SameScaleUpDomain, 1.0)
}

func TestLadderCap(t *testing.T) {
	need.Full(t)
	d := run(t, host.Variant{}, eptest.Case(2, lowLatency, ladder("1 256 257 512")))
	require.Equal(t, []int{1, 256}, d.Workload.LadderMeasured)
	require.Equal(t, []int{257, 512}, d.Workload.LadderDropped)
	require.Equal(t, 256, *d.Workload.LadderCap)
	require.Equal(t, plan.Ladder{1, 256}, d.Identity.CaseFactors.Case.(ep.Factors).Ladder)

	// The definitions may know a smaller cap; with uneven tokens the fullest rank counts.
	small := 6
	d = run(t, host.Variant{}, eptest.Case(2, lowLatency, ladder("2 4 6"), routing("uneven-linear"),
		func(c *plan.Case) { ep.Of(c).LadderCap = &small }))
	require.Equal(t, []int{2, 4}, d.Workload.LadderMeasured)
	require.Equal(t, 6, *d.Workload.LadderCap)

	c := eptest.Case(2, lowLatency, ladder("300"))
	s := eptest.Run(t, host.Open(host.Variant{}), "", c)[0]
	require.Equal(t, result.ReasonRefused, s[0].Failure.Reason.Code)
}

func TestRefusals(t *testing.T) {
	for _, change := range []func(*plan.Case){
		func(c *plan.Case) { c.Precision = "mxfp8" },
		func(c *plan.Case) { ep.Of(c).Routing = "mystery" },
	} {
		for _, s := range eptest.Run(t, host.Open(host.Variant{}), "", eptest.Case(2, change))[0] {
			require.False(t, s.Done)
			require.Equal(t, result.ReasonRefused, s.Failure.Reason.Code)
		}
	}
}

// Ranks that share their machine's memory do not begin what does not fit into it.
func TestMoreThanTheMachineHolds(t *testing.T) {
	large := func(c *plan.Case) { ep.Of(c).Hidden = 1 << 20 }
	for _, s := range eptest.Run(t, host.Open(host.Variant{}), "", eptest.Case(2, large, ladder("1 4194304")))[0] {
		require.False(t, s.Done)
		require.Equal(t, result.ReasonMemoryForSize, s.Failure.Reason.Code)
		require.Contains(t, s.Failure.Text, "ranks with up to 4194304 tokens need ")
	}
}

// A warm group measures cases of different forms and sizes one after another.
func TestWarmGroup(t *testing.T) {
	cases := []plan.Case{
		eptest.Case(2), eptest.Case(2, ladder("32")), eptest.Case(2, fp8), eptest.Case(2, lowLatency),
		eptest.Case(2, routing("zipf-eplb")), eptest.Case(2, ladder("1")),
	}
	for i, streams := range eptest.Run(t, host.Open(host.Variant{}), "", cases...) {
		requireSuccess(t, eptest.Document(t, cases[i], streams))
	}
}

// The order of section 1 of the contract, as the records of a rank show it:
// three rungs, three trials, two chain trials. Verdicts follow the windows of the
// last trial; the alternating passes follow all that is timed.
func TestOrderOfACase(t *testing.T) {
	streams := eptest.Run(t, host.Open(host.Variant{}), "", eptest.Case(2))[0]
	var order []string
	for _, r := range streams[1].Records {
		var f struct {
			T         int    `json:"tokens_per_rank"`
			Component string `json:"component"`
			When      string `json:"when"`
		}
		require.NoError(t, json.Unmarshal(r.Data, &f))
		letter := strings.ToUpper(f.Component + " ")[:1]
		order = append(order, strings.TrimSpace(fmt.Sprintf("%s %d%s%s", strings.TrimPrefix(r.Kind, "ep-"), f.T, strings.TrimSpace(letter), f.When)))
	}
	require.Equal(t, strings.Join([]string{
		"plan 0",
		"point 1", "verdict 1before", "point 2", "verdict 2before", "point 8", "verdict 8before",
		"fresh 1R", "fresh 1D", "fresh 1C", "fresh 2R", "fresh 2D", "fresh 2C", "fresh 8R", "fresh 8D", "fresh 8C",
		"fresh 2D", "fresh 2C", "fresh 2R", "fresh 8D", "fresh 8C", "fresh 8R", "fresh 1D", "fresh 1C", "fresh 1R",
		"fresh 8C", "verdict 8post-combine", "verdict 8post-combine-changed", "verdict 8timed-combine",
		"fresh 8R", "verdict 8post-roundtrip", "verdict 8post-roundtrip-changed", "verdict 8timed-roundtrip",
		"fresh 8D", "verdict 8post-dispatch", "verdict 8post-dispatch-changed", "verdict 8timed-dispatch",
		"fresh 1C", "verdict 1post-combine", "verdict 1post-combine-changed", "verdict 1timed-combine",
		"fresh 1R", "verdict 1post-roundtrip", "verdict 1post-roundtrip-changed", "verdict 1timed-roundtrip",
		"fresh 1D", "verdict 1post-dispatch", "verdict 1post-dispatch-changed", "verdict 1timed-dispatch",
		"fresh 2C", "verdict 2post-combine", "verdict 2post-combine-changed", "verdict 2timed-combine",
		"fresh 2R", "verdict 2post-roundtrip", "verdict 2post-roundtrip-changed", "verdict 2timed-roundtrip",
		"fresh 2D", "verdict 2post-dispatch", "verdict 2post-dispatch-changed", "verdict 2timed-dispatch",
		"chain 1", "chain 2", "chain 8",
		"chain 2", "verdict 2chain-output", "verdict 2post-chain", "verdict 2post-chain-changed", "arithmetic 2", "verdict 2timed-chain",
		"chain 8", "verdict 8chain-output", "verdict 8post-chain", "verdict 8post-chain-changed", "arithmetic 8", "verdict 8timed-chain",
		"chain 1", "verdict 1chain-output", "verdict 1post-chain", "verdict 1post-chain-changed", "arithmetic 1", "verdict 1timed-chain",
		"verdict 1alternating-roundtrip", "verdict 1alternating-dispatch", "verdict 1alternating-combine",
		"verdict 2alternating-roundtrip", "verdict 2alternating-dispatch", "verdict 2alternating-combine",
		"verdict 8alternating-roundtrip", "verdict 8alternating-dispatch", "verdict 8alternating-combine",
		"verdict 1after", "verdict 2after", "verdict 8after",
	}, "\n"), strings.Join(order, "\n"))
}

// few takes few samples.
func few(c *plan.Case) { ep.Of(c).Timing.TrialsPerPoint, ep.Of(c).Timing.ChainTrialsPerPoint = 1, 1 }

// Each injected data fault fails the case, by the check that should see it, in both
// modes and contracts.
func TestInjectedFaults(t *testing.T) {
	need.Full(t)
	type forms struct{ normal, lowLatency string }
	for _, c := range []struct {
		kind, at string
		want     forms
	}{
		{runner.FaultFlipBit, "start", forms{"before payload", "before payload"}},
		{runner.FaultSwapTokens, "start", forms{"before metadata", "before source_set"}},
		{runner.FaultDropToken, "start", forms{"before source_set", "before source_set"}},
		{runner.FaultDoubleToken, "start", forms{"before source_set", "before source_set"}},
		{runner.FaultWrongWeight, "start", forms{"before weights", "before combine_values"}},
		{runner.FaultWrongExpert, "start", forms{"before counts", "before counts"}},
		{runner.FaultStale, "start", forms{"before combine_values", "before combine_values"}},
		{runner.FaultFlipBit, "timed", forms{"after payload", "after payload"}},
		{runner.FaultWrongExpert, "timed", forms{"post-chain counts", "post-chain counts"}},
		{runner.FaultStale, "timed", forms{"post-chain combine_values", "post-chain combine_values"}},
		{runner.FaultFlipBit, "chain", forms{"chain-output payload", "chain-output payload"}},
		{runner.FaultSwapTokens, "chain", forms{"chain-output metadata", "chain-output source_set"}},
		{runner.FaultDropToken, "chain", forms{"chain-output ", "chain-output "}}, // source_set; metadata of a cached layout
		{runner.FaultWrongWeight, "chain", forms{"chain-output weights", "chain-output combine_values"}},
		{runner.FaultWrongExpert, "chain", forms{"chain-output ", "chain-output "}}, // counts; metadata of a cached layout
	} {
		t.Run(c.kind+" "+c.at, func(t *testing.T) {
			changes := [][]func(*plan.Case){nil, {lowLatency}, {cached}, {lowLatency, cached}}
			if c.at == "chain" && (c.kind == runner.FaultWrongExpert || c.kind == runner.FaultDropToken) {
				changes = changes[:3] // TestFaultThatStrikesNothingIsRefused has the last
			}
			var cases []plan.Case
			for _, change := range changes {
				cases = append(cases, eptest.Case(2, append(change, ladder("8"), few)...))
			}
			fault := fmt.Sprintf("rank=1,kind=%s,at=%s", c.kind, c.at)
			for i, streams := range eptest.Run(t, host.Open(host.Variant{}), fault, cases...) {
				kase, want := cases[i], c.want.normal
				if ep.Of(&kase).Mode == ep.ModeLowLatency {
					want = c.want.lowLatency
				}
				d := eptest.Document(t, kase, streams)
				require.Equal(t, result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonSemantics}}}, d.Outcome, kase.CaseID)
				reasons := d.Measurement.Rows[0].Correctness.Reasons.String()
				require.Contains(t, reasons, "check-failed: "+want, kase.CaseID)
				if c.at != "start" {
					require.NotContains(t, reasons, ": before", "the fault begins later")
				}
			}
		})
	}
}

// A cached low-latency dispatch sends rows by its layout, not by the experts, whatever the routing
// says when it is called.
func TestFaultThatStrikesNothingIsRefused(t *testing.T) {
	for _, kind := range []string{runner.FaultWrongExpert, runner.FaultDropToken} {
		faults := fmt.Sprintf("rank=0,kind=%[1]s,at=chain; rank=1,kind=%[1]s,at=chain", kind)
		for _, s := range eptest.Run(t, host.Open(host.Variant{}), faults, eptest.Case(2, lowLatency, cached))[0] {
			require.NotNil(t, s.Failure, kind)
			require.Equal(t, result.ReasonRefused.With("fault %s has no effect", kind), s.Failure.Reason)
			require.Contains(t, s.Failure.Text, "sends rows by its layout, not by the experts")
		}
	}
}

func TestFaultAtAnUnknownPoint(t *testing.T) {
	for _, s := range eptest.Run(t, host.Open(host.Variant{}), "rank=0,kind=flip-bit,at=open; rank=1,kind=flip-bit,at=open", eptest.Case(2))[0] {
		require.Equal(t, result.ReasonRefused, s.Failure.Reason.Code)
	}
}

// The host has no graphs, and does not pretend to replay any.
func TestTheHostHasNoReplays(t *testing.T) {
	c := eptest.Case(2, func(c *plan.Case) { ep.Of(c).TimingMode = vocab.Graph })
	s := eptest.Run(t, host.Open(host.Variant{}), "", c)[0][0]
	require.NotNil(t, s.Failure)
	require.Equal(t, result.ReasonRefused, s.Failure.Reason.Code)
	require.Contains(t, s.Failure.Text, "backend host cannot be captured into graphs in mode normal")
}
