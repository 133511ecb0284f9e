package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/transfertest"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/host"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

var run = transfertest.Goroutines(host.Open)

// Every lane, arrangement and operation moves every word to its place, in all forms of a
// cache, with a check of each pool for the first, the last and one more burst of a trial.
func TestTransfersArriveWhole(t *testing.T) {
	for _, lane := range []string{vocab.LaneSharedMemory, vocab.LaneProcessVM} {
		t.Run(lane, func(t *testing.T) {
			cases := transfertest.Arranged(func(c *plan.Case) { transfer.Of(c).Mode = lane })
			for i, d := range run(t, "", cases...) {
				transfertest.ArrivedWhole(t, d, lane)
				for _, r := range d.Measurement.Rows {
					require.Equal(t, 2*4, r.Latency.N)
				}
				contiguous := d.Measurement.Rows[1]
				switch transfer.Of(&cases[i]).Routing {
				case transfer.Contiguous:
					require.Equal(t, 4, contiguous.DescsMerged, "one per region")
				case transfer.Strided:
					require.Equal(t, contiguous.Descs, contiguous.DescsMerged)
				}
			}
		})
	}
}

// Each class of wrong words is found in the pool of the rank that has them, and named.
func TestFaultsAreNamed(t *testing.T) {
	transfertest.FaultsAreNamed(t, run, func(*plan.Case) {})
}

func TestCallsAreRefused(t *testing.T) {
	for _, lane := range []string{vocab.LaneSharedMemory, vocab.LaneProcessVM} {
		t.Run(lane, func(t *testing.T) {
			transfertest.CallsAreRefused(t, run, func(c *plan.Case) { transfer.Of(c).Mode = lane })
		})
	}
}

// A fault in a pool that nothing writes to, or of the last of several blocks where there is one,
// would change nothing, and is refused.
func TestAFaultWithoutEffectIsRefused(t *testing.T) {
	oneBlock := func(c *plan.Case) {
		t := transfer.Of(c)
		t.ISLLadder, t.PageTokens, t.Entries = plan.Ladder{16}, plan.Ladder{16}, []transfer.CacheEntry{{Regions: 1, Tokens: 16, Bytes: 256}}
	}
	for fault, change := range map[string]func(*plan.Case){
		"rank=0,kind=" + pool.FaultStale:       transfertest.Few,
		"rank=1,kind=" + runner.FaultShortList: oneBlock,
	} {
		d := run(t, fault, transfertest.Small(change))[0]
		require.Equal(t, result.Failed, d.Outcome.Status)
		require.Contains(t, d.Outcome.Reasons.String(), "has no effect")
	}
}

// A case of which a rank says done, and whose records are lost, was not checked.
func TestLostRecords(t *testing.T) {
	for _, rank := range []string{"0", "1"} {
		d := run(t, "rank="+rank+",kind=mute", transfertest.Small(transfertest.Few))[0]
		require.Equal(t, result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonUnchecked}}}, d.Outcome)
		require.Empty(t, d.Measurement.Rows)
	}
}
