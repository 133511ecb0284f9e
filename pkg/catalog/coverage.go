package catalog

import "slices"

// Coverage is one combination that a suite asks for and how it stands.
type Coverage struct {
	SKU     string
	Backend string
	Mode    string // of the backend, or what stands for all of the family's
	World   int    // ranks
	Runs    bool
	Reason  string // why not; empty where it runs
}

// Coverage lists every combination of platform, backend of its vendor, mode and
// world that some suite of c asks for: by platform and family, then in the order of
// backends, modes and worlds. Of families whose Support is Worlds it lists the worlds that run.
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
