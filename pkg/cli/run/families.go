package run

import (
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/collective"
	collectivehost "github.com/collectivex/collectivex/pkg/collective/host"
	collectiveipc "github.com/collectivex/collectivex/pkg/collective/ipc"
	collectivenccl "github.com/collectivex/collectivex/pkg/collective/nccl"
	collectiverunner "github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/copies"
	copyengine "github.com/collectivex/collectivex/pkg/copies/engine"
	copyhost "github.com/collectivex/collectivex/pkg/copies/host"
	copyrunner "github.com/collectivex/collectivex/pkg/copies/runner"
	copysdma "github.com/collectivex/collectivex/pkg/copies/sdma"
	copysm "github.com/collectivex/collectivex/pkg/copies/sm"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/a2a"
	ephost "github.com/collectivex/collectivex/pkg/ep/host"
	"github.com/collectivex/collectivex/pkg/ep/ncclep"
	"github.com/collectivex/collectivex/pkg/ep/python"
	eprunner "github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/overlap"
	overlaprunner "github.com/collectivex/collectivex/pkg/overlap/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/shard"
	"github.com/collectivex/collectivex/pkg/simulation"
	"github.com/collectivex/collectivex/pkg/steps"
	stepsrunner "github.com/collectivex/collectivex/pkg/steps/runner"
	"github.com/collectivex/collectivex/pkg/transfer"
	transferhost "github.com/collectivex/collectivex/pkg/transfer/host"
	transferipc "github.com/collectivex/collectivex/pkg/transfer/ipc"
	transfernccl "github.com/collectivex/collectivex/pkg/transfer/nccl"
	transfernixl "github.com/collectivex/collectivex/pkg/transfer/nixl"
	transferpython "github.com/collectivex/collectivex/pkg/transfer/python"
	transferrunner "github.com/collectivex/collectivex/pkg/transfer/runner"
)

// families returns what this program can measure.
func families() shard.Registry {
	return shard.Registry{
		collective.Name: {
			Assemble: collectiverunner.Assemble,
			Backends: map[string]rank.Opener{
				"host":    collectivehost.Open,
				"nccl":    collectivenccl.Open(nccl.NCCL),
				"rccl":    collectivenccl.Open(nccl.RCCL),
				"mscclpp": collectivenccl.Open(nccl.MSCCLPP),
				"ipc":     collectiveipc.Open,
			},
		},
		steps.Name: {
			Assemble: stepsrunner.Assemble,
			Backends: map[string]rank.Opener{
				"host": collectivehost.OpenSchedule,
				"nccl": collectivenccl.OpenSchedule(nccl.NCCL),
				"rccl": collectivenccl.OpenSchedule(nccl.RCCL),
				"ipc":  collectiveipc.OpenSchedule,
			},
		},
		ep.Name: {
			Assemble: eprunner.Assemble,
			Backends: map[string]rank.Opener{
				"host":    ephost.Open(ephost.Variant{}),
				"a2a":     a2a.Open,
				"nccl-ep": ncclep.Open,

				"deepep-legacy": python.Open("deepep-legacy"),
				"uccl-ep":       python.Open("uccl-ep"),
				"deepep-v2":     python.Open("deepep-v2"),
				"flashinfer-ep": python.Open("flashinfer-ep"),
				"mori":          python.Open("mori"),
			},
		},
		transfer.Name: {
			Assemble: transferrunner.Assemble,
			Backends: map[string]rank.Opener{
				"host":    transferhost.Open,
				"nccl-kv": transfernccl.Open(nccl.NCCL),
				"ipc":     transferipc.Open,
				"rccl-kv": transfernccl.Open(nccl.RCCL),

				"nixl":     transfernixl.Open,
				"mooncake": transferpython.Open("mooncake"),
				"uccl-p2p": transferpython.Open("uccl-p2p"),
				"mori-io":  transferpython.Open("mori-io"),
			},
		},
		copies.Name: {
			Assemble: copyrunner.Assemble,
			Backends: map[string]rank.Opener{
				"host": copyhost.Open,
				"ce":   copyengine.Open,
				"sm":   copysm.Open,
				"sdma": copysdma.Open,
			},
		},
		overlap.Name: {
			Assemble: overlaprunner.Assemble,
			Backends: map[string]rank.Opener{
				"host": collectivehost.OpenOverlap,
				"nccl": collectivenccl.OpenOverlap(nccl.NCCL),
				"rccl": collectivenccl.OpenOverlap(nccl.RCCL),
				"ipc":  collectiveipc.OpenOverlap,
			},
		},
		simulation.Name: {
			Computes: map[string]shard.Compute{"simulator": simulation.Compute},
		},
	}
}

// find returns a rank's way to open the runner of a case.
func find(families shard.Registry) rank.Find {
	return func(c plan.Case) (rank.Opener, error) {
		if open := families[c.Family].Backends[c.Backend]; open != nil {
			return open, nil
		}
		return nil, rank.Coded(result.ReasonNoLibrary, fmt.Errorf("this program has no backend %q for family %q", c.Backend, c.Family))
	}
}

// faultKinds lists the faults of data that the families can inject, some of which they
// share.
func faultKinds() []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(collectiverunner.FaultKinds(), stepsrunner.FaultKinds(), overlaprunner.FaultKinds(), eprunner.FaultKinds(), transferrunner.FaultKinds(), copyrunner.FaultKinds()))))
}

// idle is the rank.Idle of all families. Those of expert parallelism have points of their own.
func idle(f rank.Fault, c *plan.Case) string {
	switch c.Family {
	case transfer.Name:
		return transferrunner.Idle(f, c)
	case copies.Name:
		return copyrunner.Idle(f, c)
	case overlap.Name:
		return overlaprunner.Idle(f, c)
	case ep.Name:
		f.At = rank.FaultAtStart
		return rank.IdleUnless(f, c.Family, eprunner.FaultKinds())
	case steps.Name:
		return stepsrunner.Idle(f, c)
	default:
		return rank.IdleUnless(f, c.Family, collectiverunner.FaultKinds())
	}
}
