package ncclep

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

func replayed(f form, change ...func(*plan.Case)) plan.Case {
	return caseOf(f, func(c *plan.Case) {
		ep.Of(c).TimingMode, ep.Of(c).Ladder = vocab.Graph, plan.Ladder{6}
		for _, f := range change {
			f(c)
		}
	})
}

// Both modes can be replayed, fp8 with its hoisted staging too.
func TestReplays(t *testing.T) { replay(t, replayed(normal), replayed(expertMajor, fp8)) }

// Every form can.
func TestMoreReplays(t *testing.T) {
	need.Full(t)
	replay(t, replayed(expertMajor), replayed(rankMajor), replayed(windowed))
}

func replay(t *testing.T, cases ...plan.Case) {
	t.Helper()
	setUp(t)
	t.Setenv("CX_FAKE_NCCL_EP_GRAPHS", "1") // the mode in which captured collectives wait for nothing
	for i, streams := range eptest.Run(t, Open, "", cases...) {
		d := eptest.Document(t, cases[i], streams)
		require.Equal(t, result.Success, d.Outcome.Status, "%s: %v", cases[i].CaseID, d.Outcome.Reasons)
		require.Contains(t, d.Implementation.KernelGeneration, "-cudagraph")
		require.Equal(t, ep.Of(&cases[i]).Mode == ep.ModeNormal, strings.Contains(d.Implementation.KernelGeneration, "-ht-routed-zc-static-gum1"))
		require.True(t, *d.Measurement.Rows[0].Correctness.GraphOutputPassed)
	}
}

// A dispatch that is captured and delivers nothing leaves the NaN that its launch found.
func TestAReplayedLibraryThatLies(t *testing.T) {
	for _, f := range forms {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			if f != rankMajor {
				need.Full(t)
			}
			setUp(t)
			t.Setenv("CX_FAKE_NCCL_EP_SKIP", "1:40") // more operations than come before the first oracle
			c := replayed(f)
			d := eptest.Document(t, c, eptest.Run(t, Open, "", c)[0])
			require.Equal(t, result.Invalid, d.Outcome.Status)
			require.True(t, d.Measurement.Rows[0].Correctness.OraclePassed.Pre)
			require.Contains(t, d.Measurement.Rows[0].Correctness.Reasons.String(), "chain-output "+runner.CheckSource+" rank 1")
		})
	}
}
