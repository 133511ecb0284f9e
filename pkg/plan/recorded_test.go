package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/plan"
)

// TestRecordedRoutingIsItsDigest: two routings from files have different names, and
// neither can have the other's experts or digest.
func TestRecordedRoutingIsItsDigest(t *testing.T) {
	var one, other plan.EP
	one.Record([]int{0, 1, 2, 3})
	other.Record([]int{0, 1, 3, 2})
	require.Regexp(t, `^file-[0-9a-f]{12}$`, one.Routing)
	require.NotEqual(t, one.Routing, other.Routing)
	require.NoError(t, one.CheckRecorded())
	require.NoError(t, (&plan.EP{Routing: "uniform"}).CheckRecorded())

	const want = "routing, routing_sha256 and routing_experts are not of each other"
	for _, change := range []func(e *plan.EP){
		func(e *plan.EP) { e.Routing = other.Routing },
		func(e *plan.EP) { e.Routing = "uniform" },
		func(e *plan.EP) { e.RoutingSHA256 = other.RoutingSHA256 },
		func(e *plan.EP) { e.RoutingExperts = other.RoutingExperts },
		func(e *plan.EP) { e.RoutingExperts, e.RoutingSHA256 = nil, "" },
	} {
		e := one
		change(&e)
		require.EqualError(t, e.CheckRecorded(), want)
	}
}
