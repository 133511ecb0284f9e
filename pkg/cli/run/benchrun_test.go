package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// A case that failed has a line of its own, those that were not begun have one
// together.
func TestFailuresOfABench(t *testing.T) {
	failed := func(id, logs, reason string) benchEnd {
		return benchEnd{plan.Case{CaseID: id}, result.Outcome{Status: result.Failed, Reasons: []string{reason}}, logs}
	}
	b := benchRun{ended: []benchEnd{
		{plan.Case{CaseID: "a"}, result.Outcome{Status: result.Success}, "logs"},
		failed("b", "logs", "skipped: cancelled"), failed("c", "", "skipped: cancelled"), failed("d", "", "skipped: cancelled"),
	}}
	require.Equal(t, []string{"b failed: skipped: cancelled", "2 cases not begun: skipped: cancelled"}, b.failures())
}
