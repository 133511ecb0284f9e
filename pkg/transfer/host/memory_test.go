package host

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/transfertest"
	"github.com/collectivex/collectivex/pkg/hostrank"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
)

// Bursts for which a rank lacks the memory are dropped, with the pool that they need, and the rest is
// measured. If none is left, the document says so too, and the case is refused.
func TestTooLittleMemory(t *testing.T) {
	// Bursts of one and of two requests, each of 221,184 bytes, have pools of twice as much, and five pages.
	const one, two = 442368 + 20480, 884736 + 20480
	for _, tc := range []struct {
		free     int64
		dropped  []int // pools
		outcome  string
		measured int // rows: of each operation a bulk one, and a paged one a point
	}{
		{1 << 21, nil, result.Success, 6},
		{1 << 20, []int{two}, result.Success, 4},
		{1 << 19, []int{one, two}, result.Failed, 0},
	} {
		open := func(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
			end, err := NewEnd(ctx, s, c)
			if err != nil {
				return nil, err
			}
			free := func() (int64, error) { return tc.free + int64(s.Rank), nil }
			return runner.NewRunner(runner.Parts{Engine: &engine{End: end, lane: transfer.Of(&c).Mode}, Facts: hostrank.Facts(end.device), Free: free}), nil
		}
		d := transfertest.Goroutines(open)(t, "", transfertest.Small())[0]
		require.Equal(t, tc.outcome, d.Outcome.Status, "%v", d.Outcome.Reasons)
		require.Len(t, d.Measurement.Rows, tc.measured)
		require.Equal(t, int64(0.8*float64(tc.free)), d.Measurement.PoolBudget, "of the rank with less")
		require.Len(t, d.Workload.Dropped, len(tc.dropped))
		for i, pool := range tc.dropped {
			require.Equal(t, result.ReasonMemoryForSize.With("pool of %d bytes", pool), d.Workload.Dropped[i].Reason)
		}
		if tc.outcome == result.Failed {
			require.Equal(t, result.ReasonMemoryForSize, d.Outcome.Code(), "%v", d.Outcome.Reasons)
			require.Nil(t, d.Measurement.Setup)
		}
	}
}
