package host_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/host"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

func TestMain(m *testing.M) {
	eptest.Main(func(plan.Case) (rank.Opener, error) { return host.Open(host.Variant{}), nil })
	os.Exit(m.Run())
}

// processes runs the cases with a process for each rank.
func processes(t *testing.T, faults string, cases ...plan.Case) [][]rank.Stream {
	t.Helper()
	return eptest.Processes(t, false, faults, cases...).Streams
}

func TestProcesses(t *testing.T) {
	need.Full(t)
	cases := []plan.Case{eptest.Case(4), eptest.Case(4, lowLatency, fp8)}
	for i, streams := range processes(t, "", cases...) {
		requireSuccess(t, eptest.Document(t, cases[i], streams))
	}
}

// The ranks that wait for one that died notice, and what was measured stays.
func TestDeadRank(t *testing.T) {
	for _, kind := range []string{rank.FaultExit, rank.FaultSegv} {
		t.Run(kind, func(t *testing.T) {
			c := eptest.Case(4)
			started := time.Now()
			streams := processes(t, "rank=2,kind="+kind+",at=record-12", c)[0]
			require.Less(t, time.Since(started), eptest.Limit/2)
			require.Nil(t, streams[2].Failure)
			for r, s := range streams {
				require.False(t, s.Done)
				if r != 2 {
					require.NotNil(t, s.Failure)
					require.Equal(t, result.ReasonRankDied, s.Failure.Reason.Code, s.Failure.Text)
				}
			}
			d := eptest.Document(t, c, streams)
			require.Equal(t, result.Failed, d.Outcome.Status)
			require.Len(t, d.Measurement.Rows, 3)
			first := d.Measurement.Rows[0]
			require.False(t, first.Complete)
			require.Equal(t, 2, first.Components.Roundtrip.SampleCount, "the trial that all ranks finished")
			require.Equal(t, ep.Unavailable, first.Components.PairPeriod.Availability)
		})
	}
}

func TestInjectedFaultInAProcess(t *testing.T) {
	need.Full(t)
	c := eptest.Case(2)
	d := eptest.Document(t, c, processes(t, "rank=0,kind="+runner.FaultDropToken, c)[0])
	require.Equal(t, result.Invalid, d.Outcome.Status)
}
