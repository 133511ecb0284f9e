package catalog

import "slices"

// Worlds is the SupportBlock of families whose cases need only ranks from a platform: the supported
// numbers of ranks.
type Worlds []int

// Check refuses worlds that the platform cannot have.
func (w *Worlds) Check(c *Checker, p *Platform, _ *Backend) { c.FillsNodes(p, *w) }

// Worlds returns the worlds at which the platform runs cases of a family on any of the backends,
// ascending. The family's SupportBlock is Worlds.
func (p *Platform) Worlds(family string, backends ...string) []int {
	var out []int
	for _, name := range backends {
		if s := p.Support(name); s != nil && s.Blocks[family] != nil {
			out = append(out, *s.Blocks[family].(*Worlds)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// WorldsOn returns Platform.Worlds of all of the platforms.
func (c *Catalog) WorldsOn(skus []string, family string, backends []string) []int {
	var out []int
	for _, sku := range skus {
		out = append(out, c.Platform(sku).Worlds(family, backends...)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Coverage is one combination that a suite requests, and whether it runs.
type Coverage struct {
	SKU     string
	Backend string
	Mode    string // of the backend, or a stand-in if the family has none
	World   int    // ranks
	Runs    bool
	Reason  string // why it does not run; empty if it does
}

// Coverage lists every combination of platform, backend of its vendor, mode and world that some suite
// requests: by platform and family, then in the order of backends, modes and worlds. For families whose
// Support is Worlds it lists the worlds that run.
func (c *Catalog) Coverage() []Coverage {
	var out []Coverage
	for i := range c.Platforms {
		for _, f := range families.All() {
			if !slices.ContainsFunc(c.Suites, func(s Suite) bool { return s.Blocks[f.Name] != nil }) {
				continue
			}
			for j := range c.Backends {
				out = append(out, f.coverage(c, &c.Platforms[i], &c.Backends[j])...)
			}
		}
	}
	return out
}

func (f *Family) coverage(c *Catalog, p *Platform, b *Backend) (out []Coverage) {
	if own, ok := b.Blocks[f.Name].(interface {
		Coverage(c *Catalog, p *Platform, b *Backend) []Coverage
	}); ok {
		return own.Coverage(c, p, b)
	}
	if b.Blocks[f.Name] != nil {
		for _, w := range p.Worlds(f.Name, b.Name) {
			out = append(out, Coverage{SKU: p.SKU, Backend: b.Name, Mode: f.Cases, World: w, Runs: true})
		}
	}
	return out
}
