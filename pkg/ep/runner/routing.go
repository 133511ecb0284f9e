package runner

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/workload"
)

// routingStats returns the published statistics of a trace. A copy is a distinct pair of token and
// destination rank; copies that stay on the sending rank count.
func routingStats(t *workload.Trace, gpusPerNode, domain int) ep.Routing {
	gpusPerNode, domain = max(1, gpusPerNode), max(1, domain)
	var copies, local, node, sameDomain int64
	histogram := make([]int, t.World)
	perRank, assignments := make([]int64, t.World), make([]int64, t.World)
	load := make([]int64, t.Experts)
	goes := make([]bool, t.World)
	for source := range t.World {
		for token := t.First[source]; token < t.First[source+1]; token++ {
			clear(goes)
			experts, _ := t.Row(token)
			for _, e := range experts {
				load[e]++
				assignments[t.ExpertRank(e)]++
				goes[t.ExpertRank(e)] = true
			}
			fanout := 0
			for rank, there := range goes {
				if !there {
					continue
				}
				fanout++
				perRank[rank]++
				if rank == source {
					local++
				}
				if rank/gpusPerNode == source/gpusPerNode {
					node++
				}
				if rank/domain == source/domain {
					sameDomain++
				}
			}
			histogram[fanout-1]++
			copies += int64(fanout)
		}
	}
	fraction := func(n int64) float64 { return float64(n) / float64(copies) }
	loads := make([]float64, len(load))
	for i, n := range load {
		loads[i] = float64(n)
	}
	r := ep.Routing{
		FanoutHistogram:          histogram,
		PayloadCopiesPerRank:     perRank,
		ExpertAssignmentsPerRank: assignments,
		ExpertLoadMin:            slices.Min(load),
		ExpertLoadMax:            slices.Max(load),
		ExpertLoadMean:           measure.Mean(loads),
		ExpertLoadCV:             measure.CV(loads),
		EmptyExpertCount:         ep.Zeros(load),
		Locality: ep.Locality{
			Placement:           "packed",
			LocalRankFraction:   fraction(local),
			SameNodeFraction:    fraction(node),
			SameScaleUpDomain:   fraction(sameDomain),
			CrossNodeFraction:   fraction(copies - node),
			CrossDomainFraction: fraction(copies - sameDomain),
			GPUsPerNode:         gpusPerNode,
			ScaleUpDomain:       domain,
			Copies:              copies,
		},
	}
	r.Derive()
	return r
}

// byteCounts returns the logical payload of each op: every copied row, in dispatch with its scales
// and in combine in bf16.
func byteCounts(copies int64, hidden, valueBytes, scaleBytes int) ep.Bytes {
	count := func(activation, scale int64) ep.ByteCount {
		return ep.ByteCount{Activation: activation, Scale: scale, Total: activation + scale}
	}
	dispatch := count(copies*int64(hidden)*int64(valueBytes), copies*int64(scaleBytes))
	combine := count(copies*int64(hidden)*2, 0)
	return ep.Bytes{
		Dispatch:  dispatch,
		Combine:   combine,
		Roundtrip: count(dispatch.Activation+combine.Activation, dispatch.Scale+combine.Scale),
	}
}
