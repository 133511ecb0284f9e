package run

import (
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	collectivehost "github.com/collectivex/collectivex/pkg/collective/host"
	collectiveipc "github.com/collectivex/collectivex/pkg/collective/ipc"
	collectivenccl "github.com/collectivex/collectivex/pkg/collective/nccl"
	collectiverunner "github.com/collectivex/collectivex/pkg/collective/runner"
	copybench "github.com/collectivex/collectivex/pkg/copies/bench"
	copyengine "github.com/collectivex/collectivex/pkg/copies/engine"
	copyhost "github.com/collectivex/collectivex/pkg/copies/host"
	copyrunner "github.com/collectivex/collectivex/pkg/copies/runner"
	copysdma "github.com/collectivex/collectivex/pkg/copies/sdma"
	copysm "github.com/collectivex/collectivex/pkg/copies/sm"
	"github.com/collectivex/collectivex/pkg/ep/a2a"
	epbench "github.com/collectivex/collectivex/pkg/ep/bench"
	ephost "github.com/collectivex/collectivex/pkg/ep/host"
	"github.com/collectivex/collectivex/pkg/ep/ncclep"
	eppython "github.com/collectivex/collectivex/pkg/ep/python"
	eprunner "github.com/collectivex/collectivex/pkg/ep/runner"
	overlapbench "github.com/collectivex/collectivex/pkg/overlap/bench"
	overlaprunner "github.com/collectivex/collectivex/pkg/overlap/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/shard"
	"github.com/collectivex/collectivex/pkg/simulation"
	stepsrunner "github.com/collectivex/collectivex/pkg/steps/runner"
	transferbench "github.com/collectivex/collectivex/pkg/transfer/bench"
	transferhost "github.com/collectivex/collectivex/pkg/transfer/host"
	transferipc "github.com/collectivex/collectivex/pkg/transfer/ipc"
	transfernccl "github.com/collectivex/collectivex/pkg/transfer/nccl"
	transfernixl "github.com/collectivex/collectivex/pkg/transfer/nixl"
	transferpython "github.com/collectivex/collectivex/pkg/transfer/python"
	transferrunner "github.com/collectivex/collectivex/pkg/transfer/runner"
)

// What cxrun measures with; see Register.
var (
	measurers []*rank.Measurer
	commands  []*bench.Command
	backends  backend.Registry
)

// Register adds a family to those that cxrun measures: what its ranks do, its `cxrun bench NAME`,
// nil if it has none, and the backends of its packages. Its descriptor is registered with package
// family. It is for init functions.
func Register(m *rank.Measurer, command *bench.Command, with ...backend.Backend) {
	measurers = append(measurers, m)
	if command != nil {
		commands = append(commands, command)
	}
	backends = append(backends, with...)
}

// simulator is the backend of cases that have no ranks.
const simulator = "simulator"

// Descriptions of machines list libraries in the order of these backends. Collectives and schedules
// have commands of their own; see newBench.
func init() {
	Register(&copyrunner.Measurer, &copybench.Command, copyhost.Backend, copyengine.Backend, copysm.Backend, copysdma.Backend)
	Register(&collectiverunner.Measurer, nil, collectivehost.Backend, collectivenccl.NCCL, collectivenccl.RCCL, collectivenccl.MSCCLPP, collectiveipc.Backend)
	Register(&stepsrunner.Measurer, nil) // by the backends of collectives
	Register(&overlaprunner.Measurer, &overlapbench.Command)
	Register(&eprunner.Measurer, &epbench.Command, append([]backend.Backend{ephost.Backend, a2a.Backend, ncclep.Backend}, eppython.Backends...)...)
	Register(&transferrunner.Measurer, &transferbench.Command, transferhost.Backend, transfernccl.NCCL, transferipc.Backend, transfernccl.RCCL,
		transfernixl.Backend, transferpython.Mooncake, transferpython.UCCL, transferpython.MoRI)
	backends = append(backends, backend.Backend{Name: simulator})
}

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

// find returns the function by which a rank finds what opens the runner of a case.
func find(families shard.Registry) rank.Find {
	return func(c plan.Case) (rank.Opener, error) {
		if open := families[c.Family].Backends[c.Backend]; open != nil {
			return open, nil
		}
		return nil, rank.Coded(result.ReasonNoLibrary, fmt.Errorf("this program has no backend %q for family %q", c.Backend, c.Family))
	}
}

// faultKinds returns the kinds of data faults of all families, sorted, each once.
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
