// Package transfertest runs transfer cases in tests, and assembles their documents.
package transfertest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
)

// Small returns a case of a few blocks.
func Small(change ...func(*plan.Case)) plan.Case {
	return plantest.Transfer(append([]func(*plan.Case){func(c *plan.Case) {
		t := transfer.Of(c)
		t.ISLLadder, t.BatchSizes, t.SustainMillis = plan.Ladder{48}, plan.Ladder{1, 2}, 1
		t.Timing = plan.Repetitions{Warmup: 1, Reps: 4, Trials: 2}
	}}, change...)...)
}

// Few reduces a case to one row and operation.
func Few(c *plan.Case) {
	t := transfer.Of(c)
	t.Ops, t.BatchSizes, t.Timing = transfer.Words{transfer.Pull}, plan.Ladder{1}, plan.Repetitions{Reps: 2, Trials: 1}
}

// Parts gives a case a cache of several parts: blocks of many sizes, and one part with a window.
func Parts(c *plan.Case) {
	t := transfer.Of(c)
	t.PageTokens = plan.Ladder{4, 16}
	t.Entries = []transfer.CacheEntry{{Regions: 3, Tokens: 4, Bytes: 144}, {Regions: 2, Tokens: 64, Bytes: 576}, {Regions: 2, Tokens: 1, Bytes: 8, Window: 20}}
}

// Runner runs the cases in one group and returns their documents. Faults are in the format of
// rank.ParseFaults.
type Runner func(t *testing.T, faults string, cases ...plan.Case) []*transfer.Document

// Goroutines runs both ranks in this process.
func Goroutines(open rank.Opener) Runner {
	return func(t *testing.T, faults string, cases ...plan.Case) []*transfer.Document {
		t.Helper()
		parsed, err := rank.ParseFaults(faults, runner.FaultKinds()...)
		require.NoError(t, err)
		return documents(t, eptest.RunGroup(t, open, parsed, cases...), cases)
	}
}

// Processes runs each rank in a process of this test binary; see eptest.Main.
func Processes(t *testing.T, faults string, cases ...plan.Case) []*transfer.Document {
	t.Helper()
	e := eptest.Processes(t, true, faults, cases...)
	for rank, log := range e.Logs {
		t.Logf("rank %d: %s", rank, log)
	}
	return documents(t, e.Streams, cases)
}

func documents(t *testing.T, streams [][]rank.Stream, cases []plan.Case) (all []*transfer.Document) {
	t.Helper()
	for i, c := range cases {
		all = append(all, document(t, c, streams[i]))
	}
	return all
}

// document assembles the document of a case from the ranks' streams.
func document(t *testing.T, c plan.Case, streams []rank.Stream) *transfer.Document {
	t.Helper()
	return eptest.Assembled(t, c, streams, runner.Assemble).(*transfer.Document)
}

// Slice gives a case some regions of a model's cache, with bursts of one request and of several
// requests in flight.
func Slice(cache string, regions, isl, page int) func(*plan.Case) {
	return func(c *plan.Case) {
		plantest.Cache(cache)(c)
		t := transfer.Of(c)
		t.Entries[0].Regions = regions
		t.ISLLadder, t.PageTokens, t.BatchSizes = plan.Ladder{isl}, plan.Ladder{page}, plan.Ladder{1, 3}
	}
}

// Arranged returns a case of several parts, and one of each arrangement.
func Arranged(change ...func(*plan.Case)) []plan.Case {
	cases := []plan.Case{Small(slices.Concat(change, []func(*plan.Case){Parts})...)}
	for _, arrangement := range transfer.Arrangements() {
		cases = append(cases, Small(slices.Concat(change, []func(*plan.Case){func(c *plan.Case) { transfer.Of(c).Routing = arrangement }})...))
	}
	return cases
}

// ArrivedWhole requires that a case passed over a lane, and that each row was checked in both pools, in both trials:
// after its first and last burst and one more.
func ArrivedWhole(t *testing.T, d *transfer.Document, lane string) {
	t.Helper()
	require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
	require.Equal(t, lane, d.Measurement.Lane)
	for _, r := range d.Measurement.Rows {
		require.Equal(t, 2*2*3, r.Verify.Checks, r.Name())
	}
}

// KilledPeer kills rank 0 while rank 1 posts bursts, more than it can finish. It requires that rank 1
// fails in time with the given reason, and that there is no row.
func KilledPeer(t *testing.T, reason string, c plan.Case) {
	t.Helper()
	Few(&c)
	transfer.Of(&c).Timing.Warmup = 1 << 24
	e := eptest.Processes(t, false, "rank=0,kind=kill,at=record-2", c) // its setup
	require.ErrorContains(t, e.Errs[0], "signal: killed")
	failure := e.Streams[0][1].Failure
	require.NotNil(t, failure, e.Logs[1])
	require.Equal(t, reason, failure.Reason.String(), failure.Text)
	for _, r := range e.Streams[0][1].Records {
		require.NotEqual(t, "transfer-trial", r.Kind)
	}
}

// TornBlock injects a block of which half did not arrive, and requires that the check finds it.
func TornBlock(t *testing.T, c plan.Case) {
	t.Helper()
	Few(&c)
	d := Processes(t, "rank=1,kind=half-block", c)[0]
	require.Equal(t, result.Invalid, d.Outcome.Status)
	require.Contains(t, d.Outcome.Reasons[0].Detail, "torn, ")
}

// CallsAreRefused makes a rank call the library wrongly, in ways that libraries may accept. It
// requires that each call ends the case with its reason before anything is measured.
func CallsAreRefused(t *testing.T, run Runner, change func(*plan.Case)) {
	for kind, reason := range map[string]string{
		runner.FaultShortList: "refused: lists of blocks differ", runner.FaultCutBlock: "refused: lists of blocks differ",
		runner.FaultEmptyList: "refused: empty list of blocks", runner.FaultTwice: "refused: pool registered twice",
		runner.FaultUnregister: "refused: pool in use",
	} {
		t.Run(kind, func(t *testing.T) {
			for _, rank := range []string{"0", "1"} {
				d := run(t, "rank="+rank+",kind="+kind, Small(change))[0]
				require.Equal(t, result.Failed, d.Outcome.Status)
				require.Equal(t, reason, d.Outcome.Reasons.String())
				require.Empty(t, d.Measurement.Rows)
			}
		})
	}
}

// FaultsAreNamed injects the given kinds of faults, or all kinds, into the pool that they apply to. It
// requires that the check names the class of the wrong words.
func FaultsAreNamed(t *testing.T, run Runner, change func(*plan.Case), kinds ...string) {
	only := func(op string) func(*plan.Case) {
		return func(c *plan.Case) {
			t := transfer.Of(c)
			t.Ops, t.BatchSizes, t.Timing = transfer.Words{op}, plan.Ladder{1}, plan.Repetitions{Reps: 2, Trials: 1}
		}
	}
	for kind, class := range map[string]string{
		pool.FaultFlip: "corrupted", pool.FaultHalf: "torn", pool.FaultNotWritten: "not written", pool.FaultStale: "stale",
		pool.FaultSwap: "misplaced", pool.FaultGuard: "guard", pool.FaultSource: "source", pool.FaultLate: "late",
	} {
		if len(kinds) > 0 && !slices.Contains(kinds, kind) {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			for rank, op := range []string{transfer.Push, transfer.Pull} { // by destination
				if kind == pool.FaultSource {
					rank = 1 - rank
				}
				d := run(t, "rank="+string(rune('0'+rank))+",kind="+kind, Small(only(op), change))[0]
				require.Equal(t, result.Invalid, d.Outcome.Status)
				require.Equal(t, result.ReasonCheck, d.Outcome.Code())
				require.Contains(t, d.Outcome.Reasons[0].Detail, class+", ")
				verdicts := []result.Verify{d.Measurement.Released[0].Verify}
				for _, r := range d.Measurement.Rows {
					verdicts = append(verdicts, r.Verify)
				}
				found := false
				for _, v := range verdicts {
					for _, c := range v.Wrong.Classes() {
						require.True(t, *c.Count == 0 || c.Name == class, "%s: %d words", c.Name, *c.Count)
						found = found || *c.Count > 0
					}
				}
				require.True(t, found)
			}
		})
	}
}
