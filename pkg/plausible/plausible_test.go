package plausible

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

func streams(world, perNode int, ports float64) []rank.Stream {
	out := make([]rank.Stream, world)
	for r := range out {
		d := &result.RankDevice{Rank: r, Limits: []result.Limit{{Of: result.LimitLink, GBps: 500 + float64(r)}}}
		if r%perNode == 0 {
			d.Limits = append(d.Limits, result.Limit{Of: result.LimitNetwork, GBps: ports})
		}
		out[r] = rank.Stream{Rank: r, Device: d}
	}
	return out
}

// Nodes of one scale-up domain reach each other by its links; a domain has the
// ports of all of its nodes.
func TestLimitsOfDomains(t *testing.T) {
	c := plan.Case{World: 16, Nodes: 4, RanksPerNode: 4, GPUsPerNode: 4, ScaleUpDomain: 8, ScaleOutTransport: new("rdma")}
	require.Equal(t, []int{0, 0, 1, 1}, []int{Domain(c, 0), Domain(c, 7), Domain(c, 8), Domain(c, 15)})
	require.Equal(t, []result.Limit{{Of: result.LimitLink, GBps: 515}, {Of: result.LimitNetwork, GBps: 800}}, Limits(c, streams(16, 4, 400)))
	c.ScaleOutTransport = nil
	require.Len(t, Limits(c, streams(16, 4, 400)), 1, "no RDMA in between")
	c.ScaleUpDomain, c.ScaleOutTransport = 72, new("rdma")
	require.Equal(t, []result.Limit{{Of: result.LimitLink, GBps: 515}}, Limits(c, streams(16, 4, 400)), "no network in between")
	c.ScaleUpDomain = 1
	require.Equal(t, 0, Domain(c, 3), "ranks of a node share its memory")
	s := streams(16, 4, 400)
	s[8].Device.Limits = s[8].Device.Limits[:1]
	require.Equal(t, []result.Limit{{Of: result.LimitLink, GBps: 515}}, Limits(c, s), "one node does not tell")
	require.Empty(t, Limits(c, s[:15]), "a rank is missing")
}

func TestJudge(t *testing.T) {
	limits := []result.Limit{{Of: result.LimitNetwork, GBps: 50}}
	require.Empty(t, Judge(limits, Moved{Link: 1 << 40, Network: 50000}, "dispatch", 1))
	require.Equal(t, "implausible: dispatch of 1 us for 50001 bytes or more by network, 50.001 of at most 50 GBps", Judge(limits, Moved{Network: 50001}, "dispatch", 1).String())
	for _, us := range []float64{0, -1, math.NaN(), math.Inf(-1)} {
		require.NoError(t, Judge(nil, Moved{}, "dispatch", us)[0].Check())
		require.Contains(t, Judge(nil, Moved{}, "dispatch", us).String(), "implausible")
	}
}
