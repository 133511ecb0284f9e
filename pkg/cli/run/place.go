package run

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/preflight"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// place is where a bench command measures.
type place struct {
	machine planner.Machine
	backend *catalog.Backend
	note    string           // why this backend
	survey  preflight.Survey // of a machine whose GPUs it uses
}

const (
	// hostWorld is the default number of ranks on a host.
	hostWorld = 2
	// hostRanksPerCPU is the maximum number of ranks for each processor of a host. Ranks
	// wait for each other without sleeping, so many more would keep other processes from
	// running, even the one that kills them.
	hostRanksPerCPU = 32
)

// world returns the number of ranks: asked or, if that is 0, one for each device
// and hostWorld on a host. It refuses more ranks than hostRanksPerCPU allows.
func (p place) world(asked int) (int, error) {
	maxRanks := hostRanksPerCPU * runtime.NumCPU()
	switch onHost := p.machine.GPUs == nil; {
	case onHost && asked > maxRanks:
		return 0, cli.EnvironmentError("%d ranks on %s: backend %s supports at most %d here, %d per processor", asked, plural.Count(runtime.NumCPU(), "processor", "processors"), p.backend.Name, maxRanks, hostRanksPerCPU)
	case asked != 0:
		return asked, nil
	case onHost:
		return hostWorld, nil
	default:
		return p.machine.GPUs.Count, nil
	}
}

// takingTurns returns a warning if ranks on the host of this machine share processors, else "".
func takingTurns(ranks int) string {
	n := runtime.NumCPU()
	if ranks <= n {
		return ""
	}
	return fmt.Sprintf("%s on %s take turns: measured times are longer than with a processor for each rank",
		plural.Count(ranks, "rank", "ranks"), plural.Count(n, "processor", "processors"))
}

// devices returns a line for the device of each rank, and one for all ranks on a host.
func (p place) devices(vendor string, world, perNode int) (lines []string) {
	if vendor == vocab.Host {
		return []string{fmt.Sprintf(" %s on %s of this host", plural.Count(world, "rank", "ranks"), plural.Count(runtime.NumCPU(), "processor", "processors"))}
	}
	product := p.machine.GPUs.Product
	for _, g := range p.survey.Present {
		if g.Vendor == vendor {
			product = g.Product
		}
	}
	for r := range world {
		lines = append(lines, fmt.Sprintf(" Rank %2d device %2d %s", r, r%perNode, product))
	}
	return lines
}

// choosePlace finds the backend for a family: the named one, which must be able to run here.
// If none is named, it is the backend of the GPUs here, or without GPUs the host's.
func choosePlace(ctx context.Context, s cli.Streams, o bench.Output, cat *catalog.Catalog, of plan.Family) (place, error) {
	names := bench.Backends(cat, of)
	if !slices.Contains(names, o.Backend) {
		return place{}, cli.UsageError("unknown backend %q%s", o.Backend, vocab.Hint(o.Backend, names))
	}
	if o.Backend == bench.HostBackend {
		return place{machine: planner.Machine{CPU: runtime.GOARCH}, backend: cat.Backend(o.Backend), note: "asked for"}, nil
	}
	m, err := machineHere(ctx, o.Definitions)
	if err != nil {
		return place{}, err
	}
	if o.Backend == bench.Auto {
		return chooseGPUs(s, m, cat, hostBackend(m, names), automatic(cat, of))
	}
	g, _ := m.Choose([]string{o.Backend})
	why := m.Lacks(o.Backend)
	be := cat.Backend(o.Backend)
	if g == nil && len(why) == 0 && !slices.Contains(be.Vendors, vocab.Host) {
		why = m.Unusable
	}
	if len(why) > 0 {
		return place{}, cli.EnvironmentError("backend %s cannot run here: %s", o.Backend, strings.Join(why, "; "))
	}
	warn(s, m.Warnings...)
	return place{planner.Machine{CPU: runtime.GOARCH, GPUs: g}, be, "asked for", m}, nil
}

// hostBackend returns the backend that measures on the host unless another is named: host, or the first
// that can run here if host does not have the family.
func hostBackend(m preflight.Survey, names []string) string {
	if !slices.Contains(names, bench.HostBackend) {
		for _, name := range m.Host {
			if slices.Contains(names, name) {
				return name
			}
		}
	}
	return bench.HostBackend
}

// automatic lists the backends of GPUs that measure a family if none is named.
func automatic(cat *catalog.Catalog, name plan.Family) []string {
	of := family.Find(name)
	return slices.DeleteFunc(bench.Backends(cat, name), func(backend string) bool {
		return backend == bench.HostBackend || families()[name].Backends[backend] == nil ||
			of != nil && of.ByName != nil && of.ByName(cat.Backend(backend))
	})
}

// chooseGPUs finds the GPUs that run one of the backends. If there are none, the backend onHost
// measures the host. It is an error if there are GPUs that cannot be used, since their user
// does not want to measure the host instead.
func chooseGPUs(s cli.Streams, m preflight.Survey, cat *catalog.Catalog, onHost string, backends []string) (place, error) {
	host := place{machine: planner.Machine{CPU: runtime.GOARCH}, backend: cat.Backend(onHost), note: "chosen: no GPU in this machine"}
	if len(backends) == 0 {
		host.note = "chosen: no GPU backend can measure this yet"
		return host, nil
	}
	if why := m.Misnamed(backends); len(why) > 0 {
		return place{}, cli.EnvironmentError("%s", strings.Join(why, "; "))
	}
	if g, name := m.Choose(backends); g != nil {
		warn(s, m.Warnings...)
		return place{planner.Machine{CPU: runtime.GOARCH, GPUs: g}, cat.Backend(name), fmt.Sprintf("chosen: %d × %s, with its library", g.Count, g.Product), m}, nil
	}
	if len(m.Unusable) > 0 {
		return place{}, cli.EnvironmentError("%s; --backend %s measures the host instead", strings.Join(m.Unusable, "; "), onHost)
	}
	for i := range m.GPUs {
		for _, name := range backends {
			if why := m.Lacks(name); len(why) > 0 && slices.Contains(cat.Backend(name).Vendors, m.GPUs[i].Vendor) {
				return place{}, cli.EnvironmentError("backend %s cannot run on the GPUs here: %s; --backend %s measures the host instead", name, strings.Join(why, "; "), onHost)
			}
		}
	}
	if len(m.GPUs) > 0 {
		host.note = "chosen: no backend of the GPUs here can measure this yet"
	}
	return host, nil
}
