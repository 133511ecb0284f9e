// Package plausible checks whether a time is physically possible. It compares the minimum
// number of bytes that must have moved in that time with the peak rates of links, networks
// and memories.
package plausible

import (
	"cmp"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Moved is the minimum number of bytes that any algorithm must move, in one direction,
// through the busiest link, network and memory.
type Moved struct {
	Link    int64 // all links off a rank's device
	Network int64 // the network of a scale-up domain
	Memory  int64 // the memory of a rank's device, reads and writes together
}

// Domain returns the scale-up domain of a rank, numbered from 0. Ranks of one
// node are always in one domain, since they share its memory.
func Domain(c plan.Case, rank int) int {
	nodes := max(1, c.ScaleUpDomain/max(1, c.GPUsPerNode))
	return rank / (nodes * max(1, c.RanksPerNode))
}

// Limits returns the limits for the rows of a case, from the peaks that the ranks reported.
// A limit that a rank did not report is omitted, and nothing is compared with it. If ranks
// reported different peaks, the highest applies to all. The limit of the network is for a
// scale-up domain, the sum over its nodes.
func Limits(c plan.Case, streams []rank.Stream) []result.Limit {
	limits := []result.Limit{}
	if len(streams) < c.World {
		return limits
	}
	for _, of := range []string{result.LimitLink, result.LimitMemory} {
		if l, ok := highest(streams, of, 1); ok {
			limits = append(limits, l)
		}
	}
	if Domain(c, c.World-1) == 0 || c.ScaleOutTransport == nil {
		return limits // domains do not communicate through RDMA ports
	}
	if l, ok := network(c, streams); ok {
		limits = append(limits, l)
	}
	return limits
}

// highest returns the highest limit of a kind among every n-th rank. ok is false if one of
// these ranks did not report it.
func highest(streams []rank.Stream, of string, n int) (best result.Limit, ok bool) {
	for i := 0; i < len(streams); i += n {
		l, ok := limit(streams[i], of)
		if !ok {
			return best, false
		}
		if cmp.Compare(l.GBps, best.GBps) > 0 {
			best = l
		}
	}
	return best, true
}

func limit(s rank.Stream, of string) (result.Limit, bool) {
	if s.Device != nil {
		for _, l := range s.Device.Limits {
			if l.Of == of && l.GBps > 0 {
				return l, true
			}
		}
	}
	return result.Limit{}, false
}

// network returns the limit of the network for a domain, from the node with the highest
// rate. The first rank of each node reports the ports of the node.
func network(c plan.Case, streams []rank.Stream) (result.Limit, bool) {
	node, ok := highest(streams, result.LimitNetwork, max(1, c.RanksPerNode))
	if !ok {
		return node, false
	}
	nodes := 0
	for rank := 0; rank < c.World && Domain(c, rank) == 0; rank += max(1, c.RanksPerNode) {
		nodes++
	}
	node.GBps *= float64(nodes)
	return node, true
}

// Judge returns the reason why an operation that moves m cannot have taken us microseconds,
// or nil if it can. what names the time in the reason.
func Judge(limits []result.Limit, m Moved, what string, us float64) result.Reasons {
	if !(us > 0) {
		return result.Reasons{result.ReasonImplausible.With("%s takes %v us", what, us)}
	}
	bytes := map[string]int64{result.LimitLink: m.Link, result.LimitNetwork: m.Network, result.LimitMemory: m.Memory}
	for _, l := range limits {
		if rate := float64(bytes[l.Of]) / us / 1e3; rate > l.GBps {
			return result.Reasons{result.ReasonImplausible.With("%s of %.6g us for %d bytes or more by %s, %.6g of at most %.6g GBps",
				what, us, bytes[l.Of], l.Of, rate, l.GBps)}
		}
	}
	return nil
}
