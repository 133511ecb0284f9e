package eptest

import (
	"context"
	"errors"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
)

// A rank that leaves garbage collection off does not leave it off for the tests that follow.
func TestGroupsLeaveTheCollectorAsItWas(t *testing.T) {
	percent := func() int {
		p := debug.SetGCPercent(-1)
		debug.SetGCPercent(p)
		return p
	}
	before := percent()
	require.Positive(t, before)
	RunGroup(t, func(context.Context, *rank.Session, plan.Case) (rank.Runner, error) {
		debug.SetGCPercent(-1)
		return nil, errors.New("no case is measured")
	}, nil, Case(2))
	require.Equal(t, before, percent())
}
