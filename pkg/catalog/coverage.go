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
// backends, modes and worlds. Of collective backends it lists the worlds that run.
func (c *Catalog) Coverage() []Coverage {
	var out []Coverage
	for i := range c.Platforms {
		for _, f := range families.All() {
			if !slices.ContainsFunc(c.Suites, func(s Suite) bool { return s.Blocks[f.Name] != nil }) {
				continue
			}
			for j := range c.Backends {
				if b := &c.Backends[j]; b.Blocks[f.Name] != nil {
					out = append(out, b.Blocks[f.Name].Coverage(c, &c.Platforms[i], b)...)
				}
			}
		}
	}
	return out
}
