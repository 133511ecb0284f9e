package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/shard"
)

// ended is the end of a case with this outcome.
func ended(id string, outcome result.Outcome, logs string) shard.End {
	d := &collective.Document{}
	d.Identity.CaseID, d.Outcome = id, outcome
	return shard.End{Document: d, Logs: logs}
}

// A case that failed has a line of its own, those that were not begun have one
// together.
func TestFailuresOfABench(t *testing.T) {
	failed := func(id, logs, reason string) shard.End {
		return ended(id, result.Outcome{Status: result.Failed, Reasons: resulttest.Reasons(reason)}, logs)
	}
	b := benchRun{ended: []shard.End{
		ended("a", result.Outcome{Status: result.Success}, "logs"),
		failed("b", "logs", "skipped: cancelled"), failed("c", "", "skipped: cancelled"), failed("d", "", "skipped: cancelled"),
	}}
	require.Equal(t, []string{"b failed: skipped: cancelled", "2 cases not started: skipped: cancelled"}, b.failures())
}
