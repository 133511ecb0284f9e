package host_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/short"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/host"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
)

// rankVariable makes the test binary one rank: "rank/world/faults/store".
const rankVariable = "CX_TEST_EP_RANK"

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(rankVariable); ok {
		if err := runRank(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func runRank(text string) error {
	fields := strings.SplitN(text, "/", 4)
	var place rank.Place
	if _, err := fmt.Sscan(fields[0], &place.Rank); err != nil {
		return err
	}
	if _, err := fmt.Sscan(fields[1], &place.World); err != nil {
		return err
	}
	place.LocalRank = place.Rank
	faults, err := rank.ParseFaults(fields[2], ep.FaultKinds()...)
	if err != nil {
		return err
	}
	store, err := rendezvous.OpenFile(fields[3])
	if err != nil {
		return err
	}
	defer store.Close()
	find := func(plan.Case) (rank.Opener, error) { return host.Open(host.Variant{}), nil }
	ctx, cancel := context.WithTimeout(context.Background(), eptest.Limit)
	defer cancel()
	return rank.Loop(ctx, place, store, find, faults, os.Stderr)
}

// processes runs the cases with a process for each rank.
func processes(t *testing.T, faults string, cases ...plan.Case) [][]rank.Stream {
	root := t.TempDir()
	store, err := rendezvous.OpenFile(root)
	require.NoError(t, err)
	defer store.Close()
	eptest.Order(t, store, cases...)
	ctx, cancel := context.WithTimeout(t.Context(), eptest.Limit)
	defer cancel()
	ends := make(chan struct{})
	world := cases[0].World
	for r := range world {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d/%d/%s/%s", rankVariable, r, world, faults, root))
		require.NoError(t, cmd.Start())
		go func() {
			_ = cmd.Wait() // the streams tell how it ended
			ends <- struct{}{}
		}()
	}
	for range world {
		<-ends
	}
	return eptest.Streams(t, store, cases...)
}

func TestProcesses(t *testing.T) {
	short.Skip(t)
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
			require.Equal(t, result.Unavailable, first.Components.PairPeriod.Availability)
		})
	}
}

func TestInjectedFaultInAProcess(t *testing.T) {
	short.Skip(t)
	c := eptest.Case(2)
	d := eptest.Document(t, c, processes(t, "rank=0,kind="+ep.FaultDropToken, c)[0])
	require.Equal(t, result.Invalid, d.Outcome.Status)
}
