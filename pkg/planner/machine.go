package planner

import (
	"cmp"
	"slices"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
)

// Machine is the detected current machine. It overrides the static facts of the local platform; the
// zero value does not.
type Machine struct {
	CPU  string // amd64 or arm64
	GPUs *GPUs  // nil: none
	// Nodes is the number of equal machines that measure together; 0 is this one alone.
	Nodes int
	// Backends names the backends that run on its host and whose libraries were found, in addition to
	// those that the definition of the local platform lists.
	Backends []string
}

// GPUs are the equal devices of one machine.
type GPUs struct {
	Vendor    string // nvidia or amd
	Product   string // as platforms name it: h200, mi300x
	Arch      string // sm90, gfx942
	Transport string // between them: nvlink, xgmi or pcie
	Count     int
	// Backends names the backends whose libraries were found.
	Backends []string
}

// SKU returns the name of the platform as which the GPUs are planned.
func (g *GPUs) SKU() string { return plan.Slug(localSKU, g.Product) }

const localSKU = "local"

// SKUs returns the names of the platforms that represent the machine.
func (m Machine) SKUs(cat *catalog.Catalog) []string {
	var out []string
	for i := range cat.Platforms {
		if cat.Platforms[i].Local {
			out = append(out, cat.Platforms[i].SKU)
		}
	}
	if m.GPUs != nil {
		out = append(out, m.GPUs.SKU())
	}
	return out
}

// in returns the catalog with the machine added: its processor and host backends in the local platform,
// and its GPUs as a separate platform, which joins every suite that names the local platform or one of
// the same vendor.
func (m Machine) in(cat *catalog.Catalog) *catalog.Catalog {
	out := *cat
	out.Platforms = slices.Clone(cat.Platforms)
	for i := range out.Platforms {
		p := &out.Platforms[i]
		if !p.Local {
			continue
		}
		p.CPU = cmp.Or(m.CPU, p.CPU)
		more := slices.DeleteFunc(slices.Clone(m.Backends), func(name string) bool { return p.Support(name) != nil })
		p.Backends = slices.Concat(p.Backends, supports(cat, more, p.Vendor, worldsUpTo(p.GPUsPerNode)))
	}
	if m.GPUs == nil {
		return &out
	}
	p := m.GPUs.platform(cat, m.CPU)
	out.Platforms = append(out.Platforms, p)
	slices.SortFunc(out.Platforms, func(a, b catalog.Platform) int { return cmp.Compare(a.SKU, b.SKU) })
	out.Suites = slices.Clone(cat.Suites)
	for i := range out.Suites {
		s := &out.Suites[i]
		if slices.ContainsFunc(s.Platforms, func(sku string) bool {
			other := cat.Platform(sku)
			return other.Local || other.Vendor == p.Vendor
		}) {
			s.Platforms = append(slices.Clone(s.Platforms), p.SKU)
		}
	}
	return &out
}

// platform describes the GPUs as definitions would: one node, one domain, and everything that the
// backends support at the powers of two up to all devices.
func (g *GPUs) platform(cat *catalog.Catalog, cpu string) catalog.Platform {
	p := catalog.Platform{
		SKU: g.SKU(), Runner: g.SKU(), Vendor: g.Vendor, Product: g.Product, Arch: g.Arch, CPU: cpu,
		GPUsPerNode: g.Count,
		ScaleUp: catalog.ScaleUp{
			Domain: g.Count, Transport: g.Transport,
			Pace: catalog.Pace{Micros: 200, GBps: 20}, // PCIe's; used only for budgets
		},
		Launch: catalog.Launch{Launcher: "bare", Container: "none"},
	}
	p.Backends = supports(cat, g.Backends, g.Vendor, worldsUpTo(g.Count))
	return p
}

// supports returns what the named backends support on devices of a vendor at the worlds.
func supports(cat *catalog.Catalog, names []string, vendor string, worlds []int) []catalog.Support {
	var all []catalog.Support
	for _, name := range names {
		b := cat.Backend(name)
		if b == nil || !slices.Contains(b.Vendors, vendor) {
			continue
		}
		all = append(all, catalog.Support{Backend: name, Blocks: b.Supports(vendor, worlds)})
	}
	return all
}

// worldsUpTo lists 2, 4, 8, … and n itself; a single device is a world of one.
func worldsUpTo(n int) []int {
	var out []int
	for w := 2; w < n; w *= 2 {
		out = append(out, w)
	}
	return append(out, n)
}
