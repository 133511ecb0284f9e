package run

import (
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/backend"
	collectivehost "github.com/collectivex/collectivex/pkg/collective/host"
	collectiveipc "github.com/collectivex/collectivex/pkg/collective/ipc"
	collectivenccl "github.com/collectivex/collectivex/pkg/collective/nccl"
	collectiverunner "github.com/collectivex/collectivex/pkg/collective/runner"
	copyengine "github.com/collectivex/collectivex/pkg/copies/engine"
	copyhost "github.com/collectivex/collectivex/pkg/copies/host"
	copyrunner "github.com/collectivex/collectivex/pkg/copies/runner"
	copysdma "github.com/collectivex/collectivex/pkg/copies/sdma"
	copysm "github.com/collectivex/collectivex/pkg/copies/sm"
	"github.com/collectivex/collectivex/pkg/ep/a2a"
	ephost "github.com/collectivex/collectivex/pkg/ep/host"
	"github.com/collectivex/collectivex/pkg/ep/ncclep"
	eppython "github.com/collectivex/collectivex/pkg/ep/python"
	eprunner "github.com/collectivex/collectivex/pkg/ep/runner"
	overlaprunner "github.com/collectivex/collectivex/pkg/overlap/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/shard"
	"github.com/collectivex/collectivex/pkg/simulation"
	stepsrunner "github.com/collectivex/collectivex/pkg/steps/runner"
	transferhost "github.com/collectivex/collectivex/pkg/transfer/host"
	transferipc "github.com/collectivex/collectivex/pkg/transfer/ipc"
	transfernccl "github.com/collectivex/collectivex/pkg/transfer/nccl"
	transfernixl "github.com/collectivex/collectivex/pkg/transfer/nixl"
	transferpython "github.com/collectivex/collectivex/pkg/transfer/python"
	transferrunner "github.com/collectivex/collectivex/pkg/transfer/runner"
)

// measurers are what ranks do, family by family.
var measurers = []*rank.Measurer{
	&collectiverunner.Measurer, &stepsrunner.Measurer, &eprunner.Measurer, &transferrunner.Measurer, &copyrunner.Measurer, &overlaprunner.Measurer,
}

// simulator is the backend of cases that have no ranks.
const simulator = "simulator"

// backends are what ranks measure with.
var backends = append(backend.Registry{
	copyhost.Backend, copyengine.Backend, copysm.Backend, copysdma.Backend,
	collectivehost.Backend, collectivenccl.NCCL, collectivenccl.RCCL, collectivenccl.MSCCLPP, collectiveipc.Backend,
	ephost.Backend, a2a.Backend, ncclep.Backend,
	transferhost.Backend, transfernccl.NCCL, transferipc.Backend, transfernccl.RCCL,
	{Name: simulator},
}, append(eppython.Backends,
	transfernixl.Backend, transferpython.Mooncake, transferpython.UCCL, transferpython.MoRI,
)...)

// families returns what this program can measure.
func families() shard.Registry {
	all := shard.Registry{simulation.Name: {Computes: map[string]shard.Compute{simulator: simulation.Compute}}}
	for _, m := range measurers {
		all[m.Family] = shard.Family{Assemble: m.Assemble, Backends: map[string]rank.Opener{}}
	}
	for _, b := range backends {
		for family, open := range b.Open {
			all[family].Backends[b.Name] = open
		}
	}
	return all
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
func faultKinds() (kinds []string) {
	for _, m := range measurers {
		kinds = append(kinds, m.Faults...)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// idle is the rank.Idle of all families.
func idle(f rank.Fault, c *plan.Case) string {
	of := slices.IndexFunc(measurers, func(m *rank.Measurer) bool { return m.Family == c.Family })
	return measurers[of].Idle(f, c)
}
