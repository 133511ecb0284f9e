package nccl

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/table"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// The pair of ranks whose messages are slow is the slow pair of a p2p, by its direction.
func TestASlowPairIsNamed(t *testing.T) {
	setUp(t)
	t.Setenv("CX_FAKE_NCCL_SLOW", "2:1:20000")
	c := caseOf(nccl.NCCL, runner.P2P, 3)
	collective.Of(&c).Modes = []string{vocab.Pipelined}
	d, errs := measured(t, c)
	require.Equal(t, []error{nil, nil, nil}, errs)
	require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
	p := collective.PairsOf(d)
	// On a busy machine, others may be slow too.
	require.True(t, slices.ContainsFunc(p.Bandwidth.Slow(p.Median), func(s table.Slow) bool { return s.Src == 2 && s.Dst == 1 }), "%+v", p.Bandwidth)
}
