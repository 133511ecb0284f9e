// Package copytest runs copy cases in tests, and assembles their documents.
package copytest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/copies/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
	transferrunner "github.com/collectivex/collectivex/pkg/transfer/runner"
)

// Goroutines runs a case with its ranks in this process. Faults are as in rank.ParseFaults.
func Goroutines(t *testing.T, open rank.Opener, faults string, c plan.Case) *copies.Document {
	t.Helper()
	parsed, err := rank.ParseFaults(faults, append(transferrunner.FaultKinds(), runner.FaultKinds()...)...)
	require.NoError(t, err)
	return document(t, c, eptest.RunGroup(t, open, parsed, c)[0])
}

// Processes runs a case with each rank in a process of this test binary; see eptest.Main.
func Processes(t *testing.T, faults string, c plan.Case) *copies.Document {
	t.Helper()
	e := eptest.Processes(t, true, faults, c)
	for rank, log := range e.Logs {
		t.Logf("rank %d: %s", rank, log)
	}
	return document(t, c, e.Streams[0])
}

// document returns the document of a case with the ranks' streams.
func document(t *testing.T, c plan.Case, streams []rank.Stream) *copies.Document {
	t.Helper()
	return eptest.Assembled(t, c, streams, runner.Assemble).(*copies.Document)
}

// Arrived requires a row for each size, device or pair, and number of streams, and after each of its windows a check of
// every word of both sides of each flow.
func Arrived(t *testing.T, d *copies.Document) {
	t.Helper()
	require.Equal(t, result.Success, d.Outcome.Status, "%s: %v", d.Identity.CaseID, d.Outcome.Reasons)
	block := copies.Of(&d.Identity.Case)
	require.Len(t, d.Measurement.Rows, len(copies.Asked(&d.Identity.Case)))
	test, world := copies.TestOf(block.Test), d.Identity.Case.World
	flows := len(test.Flows(world, block.Turns(world)[0]))
	for _, r := range d.Measurement.Rows {
		checks := 2 * flows * block.Timing.Trials
		if r.Device != nil {
			checks *= 2
		}
		if r.Victim != nil {
			checks *= 2
		}
		if test.Swap {
			checks *= copies.CheckedSwaps(block.Timing.Reps)
			require.Equal(t, block.Timing.Reps, r.Latency.SampleCount, r.Name())
		}
		require.Equal(t, checks, r.Verify.Checks, r.Name())
		require.Greater(t, r.Verify.Checked, int64(checks)*r.Bytes/8, "sides and what lies around them")
	}
}

// FaultsAreNamed injects a fault for each class of wrong words into the rank that can have them, and
// requires that the class is found and named.
func FaultsAreNamed(t *testing.T, run func(t *testing.T, faults string, c plan.Case) *copies.Document, c plan.Case, destination, source string) {
	for kind, class := range map[string]string{
		pool.FaultFlip: "corrupted", pool.FaultHalf: "torn", pool.FaultNotWritten: "not written", pool.FaultStale: "stale",
		pool.FaultSwap: "misplaced", pool.FaultGuard: "guard", pool.FaultSource: "source",
	} {
		t.Run(kind, func(t *testing.T) {
			rank := destination
			if kind == pool.FaultSource {
				rank = source
			}
			d := run(t, "rank="+rank+",kind="+kind, c)
			require.Equal(t, result.Invalid, d.Outcome.Status)
			require.Equal(t, result.ReasonCheck, d.Outcome.Code())
			require.Contains(t, d.Outcome.Reasons[0].Detail, class+", ")
			for _, r := range d.Measurement.Rows {
				require.False(t, r.Verify.Passed)
				for _, c := range r.Verify.Wrong.Classes() {
					require.Equal(t, c.Name == class, *c.Count > 0, "%s: %d words", c.Name, *c.Count)
				}
			}
		})
	}
}
