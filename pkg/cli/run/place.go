package run

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/machine"
	"github.com/collectivex/collectivex/pkg/plan"
)

// place is where a measurement by hand runs.
type place struct {
	machine plan.Machine
	backend *catalog.Backend
	note    string // why this backend
}

const (
	// hostWorld is the ranks of a measurement on a host, unless it is told.
	hostWorld = 2
	// hostRanksPerCPU is how many ranks a host starts for each of its processors at
	// most. They wait for each other awake: many more, and nothing else on the
	// machine gets its turn, not even what would end them.
	hostRanksPerCPU = 32
)

// world returns the ranks that were asked for; 0 is one for each device. What
// would take the machine away from its people is refused.
func (p place) world(asked int) (int, error) {
	most := hostRanksPerCPU * runtime.NumCPU()
	switch onHost := p.backend.Name == bench.HostBackend; {
	case onHost && asked > most:
		return 0, cli.EnvironmentError("%d ranks on %d processors: backend host takes at most %d here, %d for each", asked, runtime.NumCPU(), most, hostRanksPerCPU)
	case asked != 0:
		return asked, nil
	case onHost:
		return hostWorld, nil
	default:
		return p.machine.GPUs.Count, nil
	}
}

// choosePlace finds the backend of a family: the one that was asked for, which
// has to be able to run here, or that of the GPUs that are here, or the host's.
func choosePlace(ctx context.Context, s cli.Streams, o bench.Output, cat *catalog.Catalog, family plan.Family) (place, error) {
	names := bench.Backends(cat, family)
	if !slices.Contains(names, o.Backend) {
		return place{}, cli.UsageError("unknown backend %q%s", o.Backend, catalog.Hint(o.Backend, names))
	}
	if o.Backend == bench.HostBackend {
		return place{plan.Machine{CPU: runtime.GOARCH}, cat.Backend(o.Backend), "asked for"}, nil
	}
	d := machineHere(ctx, s, o.Definitions)
	m := d.Plan()
	if g := m.GPUs; g != nil {
		for _, name := range g.Backends {
			be := cat.Backend(name)
			switch {
			case be == nil || !slices.Contains(be.Vendors, g.Vendor) || !slices.Contains(names, name):
			case o.Backend == name:
				return place{m, be, "asked for"}, nil
			case o.Backend == bench.Auto:
				return place{m, be, fmt.Sprintf("chosen: %d × %s and the library are here", g.Count, g.Product)}, nil
			}
		}
	}
	if o.Backend == bench.Auto {
		note := "chosen: no GPU with its library is here, see 'cxrun doctor'"
		if m.GPUs != nil {
			note = "chosen: nothing measures this on the GPUs that are here, see 'cxrun doctor'"
		}
		return place{m, cat.Backend(bench.HostBackend), note}, nil
	}
	return place{}, cli.EnvironmentError("backend %s cannot run here: %s", o.Backend, strings.Join(lacks(ctx, o.Definitions, o.Backend), "; "))
}

// lacks says what a backend lacks here, as doctor does in a process of its own.
func lacks(ctx context.Context, defs cli.Definitions, backend string) []string {
	var findings []machine.Finding
	var why []string
	text, _ := ask(ctx, defs, "doctor", "--json", "--backend", backend) // its exit status says that it cannot
	if json.Unmarshal(text, &findings) == nil {
		for _, f := range findings {
			if f.State == machine.Missing {
				why = append(why, f.Text)
			}
		}
	}
	if len(why) == 0 {
		return []string{"its devices are not those that plans for this machine use; see 'cxrun env' and 'cxrun doctor'"}
	}
	return why
}
