package ncclep

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Every form can be replayed, fp8 with its hoisted staging too.
func TestReplays(t *testing.T) {
	setUp(t)
	graph := func(c *plan.Case) { c.EP().TimingMode, c.EP().Ladder = vocab.Graph, plan.Ladder{6} }
	cases := []plan.Case{
		caseOf(normal, graph),
		caseOf(expertMajor, graph),
		caseOf(rankMajor, graph),
		caseOf(inWindows, graph),
		caseOf(expertMajor, func(c *plan.Case) {
			graph(c)
			c.Precision, c.EP().Hidden = "fp8", 512
		}),
	}
	for i, streams := range eptest.Run(t, Open, "", cases...) {
		d := eptest.Document(t, cases[i], streams)
		require.Equal(t, result.Success, d.Outcome.Status, "%s: %v", cases[i].CaseID, d.Outcome.Reasons)
		require.Contains(t, d.Implementation.KernelGeneration, "-cudagraph")
		require.True(t, *d.Measurement.Rows[0].Correctness.GraphOutputPassed)
	}
}

// A dispatch that is captured and delivers nothing leaves the NaN that its launch found.
func TestAReplayedLibraryThatLies(t *testing.T) {
	setUp(t)
	t.Setenv("CX_FAKE_NCCL_EP_SKIP", "1:40") // more operations than come before the first oracle
	for _, f := range forms {
		c := caseOf(f, func(c *plan.Case) { c.EP().TimingMode, c.EP().Ladder = vocab.Graph, plan.Ladder{6} })
		d := eptest.Document(t, c, eptest.Run(t, Open, "", c)[0])
		require.Equal(t, result.Invalid, d.Outcome.Status)
		require.True(t, d.Measurement.Rows[0].Correctness.OraclePassed.Pre)
		require.Contains(t, d.Measurement.Rows[0].Correctness.Reasons.String(), "chain-output "+ep.CheckSource+" rank 1")
	}
}
