package ep_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/ep"
)

// TestRecordedRoutingIsItsDigest: two routings from files have different names, and
// neither can have the other's experts or digest.
func TestRecordedRoutingIsItsDigest(t *testing.T) {
	var one, other ep.Block
	one.Record([]int{0, 1, 2, 3})
	other.Record([]int{0, 1, 3, 2})
	require.Regexp(t, `^file-[0-9a-f]{12}$`, one.Routing)
	require.NotEqual(t, one.Routing, other.Routing)
	require.NoError(t, one.CheckRecorded())
	require.NoError(t, (&ep.Block{Routing: "uniform"}).CheckRecorded())

	const want = "routing, routing_sha256 and routing_experts are not of each other"
	for _, change := range []func(e *ep.Block){
		func(e *ep.Block) { e.Routing = other.Routing },
		func(e *ep.Block) { e.Routing = "uniform" },
		func(e *ep.Block) { e.RoutingSHA256 = other.RoutingSHA256 },
		func(e *ep.Block) { e.RoutingExperts = other.RoutingExperts },
		func(e *ep.Block) { e.RoutingExperts, e.RoutingSHA256 = nil, "" },
	} {
		e := one
		change(&e)
		require.EqualError(t, e.CheckRecorded(), want)
	}
}
