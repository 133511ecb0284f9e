package host_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/host"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
)

// Timings of planned cases. After a bind, dispatches and combines 3 to 14 at least
// are timed in every window of the long one, and up to 34 in its chains;
// conditioning has eight.
var (
	long = ep.Timing{
		ItersPerTrial: 12, TrialsPerPoint: 1, WarmupItersPerTrial: 2,
		ChainItersPerTrial: 16, ChainTrialsPerPoint: 1, ChainDrop: 2,
	}
	brief = ep.Timing{
		ItersPerTrial: 1, TrialsPerPoint: 1, WarmupItersPerTrial: 2,
		ChainItersPerTrial: 3, ChainTrialsPerPoint: 1, ChainDrop: 1,
	}
)

var bothPrecisions = []string{"bf16", "fp8"}

// planned returns the decode cases of two ranks that the shipped definitions plan
// for the host backend in these precisions: both modes and contracts. Each has one
// small rung and few samples.
func planned(t *testing.T, timing ep.Timing, precisions []string) (cases []plan.Case) {
	cat := plantest.Shipped()
	m, err := planner.Resolve(cat, planner.Filters{Only: planner.Only{
		"suite": {"ep-reference"}, "sku": {"local"}, "ep": {"2"}, "phase": {"decode"}, "precision": precisions,
	}}, planner.Machine{})
	require.NoError(t, err)
	for r := range m.Requested() {
		c, shape := r.Case, *ep.Of(&r.Case)
		shape.Ladder, shape.Timing = plan.Ladder{4}, timing
		c.Block = &shape
		cases = append(cases, c)
	}
	require.Len(t, cases, 4*len(precisions))
	return cases
}

// An operation that stops working at any call after a bind is found, although
// its buffers still hold what an earlier call left: by the oracle after the
// conditioning, after the windows or after the chains, whichever comes first.
func TestFaultsFromTheNthCall(t *testing.T) {
	need.Full(t)
	for _, f := range []struct {
		kind, call string
		all        bool // ranks
		skips      bool // in both precisions, and from later calls too
		layout     bool // contract only: a cached layout may hold the weights
		check      string
		lowLatency string // check in low-latency mode, where it is another
	}{
		{kind: runner.FaultZeroPayload, call: "dispatch", check: runner.CheckSource},
		{kind: runner.FaultSwapTokens, call: "dispatch", check: runner.CheckMetadata, lowLatency: runner.CheckSourceSet},
		{kind: runner.FaultNoSend, call: "dispatch", check: runner.CheckPayload},
		{kind: runner.FaultNoDispatch, call: "dispatch", all: true, skips: true, check: runner.CheckPayload},
		{kind: runner.FaultNoWeights, call: "dispatch", layout: true, check: runner.CheckWeights, lowLatency: runner.CheckCombine},
		{kind: runner.FaultWriteInput, call: "dispatch", check: runner.CheckInputs},
		{kind: runner.FaultOnes, call: "combine", check: runner.CheckCombine},
		{kind: runner.FaultStale, call: "combine", check: runner.CheckCombine},
		{kind: runner.FaultNoCombine, call: "combine", all: true, skips: true, check: runner.CheckCombine},
	} {
		precisions := bothPrecisions[:1]
		if f.skips {
			precisions = bothPrecisions
		}
		for _, from := range []struct {
			n      int
			timing ep.Timing
			when   string
			clean  []string // moments that the fault comes after
		}{
			{2, brief, "post-" + f.call + "-changed", nil},
			{12, long, "post-" + f.call + "-changed", []string{"before"}},
			{30, long, "post-chain-changed", []string{"before", "post-dispatch", "post-combine", "post-roundtrip"}},
		} {
			if from.n > 2 && !f.skips {
				continue // which moment sees a fault first does not depend on its kind
			}
			t.Run(fmt.Sprintf("%s from %d", f.kind, from.n), func(t *testing.T) {
				fault := fmt.Sprintf("rank=1,kind=%s,at=%s-%d", f.kind, f.call, from.n)
				if f.all {
					fault += ";" + strings.Replace(fault, "rank=1", "rank=0", 1)
				}
				cases := slices.DeleteFunc(planned(t, from.timing, precisions), func(c plan.Case) bool {
					return f.layout && c.Contract != ep.ContractLayout
				})
				for i, streams := range eptest.Run(t, host.Open(host.Variant{}), fault, cases...) {
					c := cases[i]
					d := eptest.Document(t, c, streams)
					require.Equal(t, result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonSemantics}}}, d.Outcome, c.CaseID)
					row := d.Measurement.Rows[0]
					require.Equal(t, 4, row.TokensPerRank)
					check := f.check
					if ep.Of(&c).Mode == ep.ModeLowLatency && f.lowLatency != "" {
						check = f.lowLatency
					}
					reasons := strings.ReplaceAll(row.Correctness.Reasons.String(), "; ", "\n")
					require.Regexp(t, `(?m)^check-failed: `+regexp.QuoteMeta(from.when)+" "+check+` (rank [01]|all ranks)$`, reasons, c.CaseID)
					for _, when := range from.clean {
						require.NotContains(t, reasons, ": "+when+" ", c.CaseID)
					}
				}
			})
		}
	}
}

// An operation that fails in turn is found by an alternating pass, however seldom
// it fails up to the number of calls in a pass, and wherever the calls that the
// other checks judge lie between its failures.
func TestFaultsInTurn(t *testing.T) {
	need.Full(t)
	bf16 := bothPrecisions[:1]
	skipped := map[int][]string{2: bf16, 3: bothPrecisions, 5: bf16, 7: bf16, 64: bothPrecisions}
	stale := map[int][]string{3: bf16}
	for _, f := range []struct {
		kind, call string
		all        bool // ranks
		check      string
		every      map[int][]string // precisions
	}{
		{runner.FaultNoDispatch, "dispatch", true, runner.CheckPayload, skipped},
		{runner.FaultNoCombine, "combine", true, runner.CheckCombine, skipped},
		{runner.FaultNoSend, "dispatch", false, runner.CheckPayload, stale},
		{runner.FaultStale, "combine", false, runner.CheckCombine, stale},
	} {
		for every, precisions := range f.every {
			t.Run(fmt.Sprintf("%s every %d", f.kind, every), func(t *testing.T) {
				fault := fmt.Sprintf("rank=1,kind=%s,at=%s-every-%d", f.kind, f.call, every)
				if f.all {
					fault += ";" + strings.Replace(fault, "rank=1", "rank=0", 1)
				}
				cases := planned(t, brief, precisions)
				for i, streams := range eptest.Run(t, host.Open(host.Variant{}), fault, cases...) {
					c := cases[i]
					require.Equal(t, 64, ep.Of(&c).AlternatingCalls(4))
					d := eptest.Document(t, c, streams)
					require.Equal(t, result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonSemantics}}}, d.Outcome, c.CaseID)
					reasons := strings.ReplaceAll(d.Measurement.Rows[0].Correctness.Reasons.String(), "; ", "\n")
					timed := "alternating-" + f.call + " " + f.check
					if ep.Of(&c).Mode == ep.ModeLowLatency { // every dispatch has its combine: their pass is one
						timed = "alternating-dispatch " + f.check
					}
					for _, check := range []string{timed, "alternating-roundtrip " + runner.CheckCombine} {
						require.Regexp(t, `(?m)^check-failed: `+check+` (rank [01]|all ranks)$`, reasons, c.CaseID)
					}
				}
			})
		}
	}
}

// A library that keeps results is found in windows and chains: where it gives back the result of an
// input that it had before, the memory has the result of another. The inputs are so
// large that windows and chains repeat them.
func TestCachedResults(t *testing.T) {
	need.Full(t)
	timing := ep.Timing{
		ItersPerTrial: 40, TrialsPerPoint: 2, WarmupItersPerTrial: 2,
		ChainItersPerTrial: 40, ChainTrialsPerPoint: 1, ChainDrop: 2,
	}
	for _, f := range []struct {
		kind, at string
		moments  []string
	}{
		{runner.FaultCachedDispatch, "start", []string{"(timed|post)-dispatch", "(timed|post)-roundtrip", "chain-output"}},
		{runner.FaultCachedCombine, "start", []string{"(timed|post)-roundtrip"}}, // a chain may end with the input of the cached result
		{runner.FaultCachedDispatch, "chain", []string{"chain-output"}},
		{runner.FaultCachedCombine, "chain", []string{"chain-output"}},
	} {
		t.Run(f.kind+" "+f.at, func(t *testing.T) {
			cases := slices.DeleteFunc(planned(t, timing, bothPrecisions[:1]), func(c plan.Case) bool {
				return c.Contract != ep.ContractLayout || f.at == "chain" && ep.Of(&c).Mode == ep.ModeLowLatency
			})
			for i := range cases {
				ep.Of(&cases[i]).Ladder, ep.Of(&cases[i]).Hidden = plan.Ladder{64}, 1024
				require.Less(t, ep.Of(&cases[i]).TimedInputs(64), timing.ItersPerTrial)
			}
			fault := ",kind=" + f.kind + ",at=" + f.at
			for i, streams := range eptest.Run(t, host.Open(host.Variant{}), "rank=0"+fault+";rank=1"+fault, cases...) {
				d := eptest.Document(t, cases[i], streams)
				require.Equal(t, result.Invalid, d.Outcome.Status)
				moments := f.moments
				if f.kind == runner.FaultCachedCombine && f.at == "start" && ep.Of(&cases[i]).Mode == ep.ModeNormal {
					moments = append(moments, "timed-combine") // all samples combine one dispatch
				}
				for _, when := range moments {
					require.Regexp(t, "check-failed: "+when+" ", d.Measurement.Rows[0].Correctness.Reasons.String(), cases[i].CaseID)
				}
			}
		})
	}
}

// Operations that work only where a window ends, and do nothing before, are found by the ones that
// are judged at random places.
func TestOnlyTheLastOfAWindowWorks(t *testing.T) {
	need.Full(t)
	timing := long
	timing.TrialsPerPoint = 3 // of two components at least: the draws miss in one of 12^6 runs
	for _, kind := range []string{runner.FaultNoDispatch, runner.FaultNoCombine} {
		fault := ",kind=" + kind + ",at=windows"
		cases := planned(t, timing, bothPrecisions[:1])
		for i, streams := range eptest.Run(t, host.Open(host.Variant{}), "rank=0"+fault+";rank=1"+fault, cases...) {
			d := eptest.Document(t, cases[i], streams)
			require.Equal(t, result.Invalid, d.Outcome.Status, "%s %s", kind, cases[i].CaseID)
			require.Regexp(t, `^((check-failed|non-finite-error): timed-[^;]*(; |$))+$`, d.Measurement.Rows[0].Correctness.Reasons.String(), cases[i].CaseID)
		}
	}
}
