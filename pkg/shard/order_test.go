package shard

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/plan"
)

// Groups of one repeat run before any of the next.
func TestRepeatsLieApart(t *testing.T) {
	second := func(c *plan.Case) { c.Repeat = 2 }
	s := &Shard{}
	for _, c := range []plan.Case{
		plantest.Collective(2), plantest.Collective(2, second), plantest.Collective(4), plantest.Collective(4, second), plantest.Collective(2),
	} {
		s.Cases = append(s.Cases, plan.Requested{Case: c})
	}
	r := &runner{Shard: s}
	require.Equal(t, []int{0, 4, 2, 1, 3}, r.order())
}
