package steps_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/steps"
)

// TestScheduleEstimates: a schedule is estimated by what its busiest rank sends. Of eight ranks
// that is 7 vectors in one phase, 1.75 round a ring, and the copy out of place in an all_gather.
func TestScheduleEstimates(t *testing.T) {
	cat := plantest.Shipped()
	m, err := planner.Resolve(cat, planner.Filters{Only: planner.Only{"suite": {"schedule-gpu"}, "sku": {"h200-dgxc"}, "world": {"8"}}}, planner.Machine{})
	require.NoError(t, err)
	seconds := map[string]float64{}
	for q := range m.Requested() {
		b := steps.Of(&q.Case)
		seconds[b.Op+" "+b.Algorithm] = planner.Estimate(cat, &q.Case).Seconds()
	}
	direct, ring, gather := seconds["all_reduce direct_one_phase"], seconds["all_reduce ring"], seconds["all_gather ring"]
	require.Greater(t, ring, gather)
	require.InDelta(t, (7-1.75)/(1.75-1), (direct-ring)/(ring-gather), 1e-3)
}
