package catalog

import (
	"maps"
	"slices"
)

// Capabilities is a named set of blocks. In suites that select it, they replace the blocks of
// backends.yaml and of the platforms. Blocks that the set omits are unchanged.
type Capabilities struct {
	Name      string           `yaml:",name"` // the file's name
	Backends  []BackendBlocks  `yaml:"backends,optional"`
	Platforms []PlatformBlocks `yaml:"platforms,optional"`
}

// BackendBlocks holds a backend's blocks by family in a set of capabilities.
type BackendBlocks struct {
	Backend string                  `yaml:",name" in:"backend"`
	Blocks  map[string]BackendBlock `yaml:",blocks,optional"`
}

// PlatformBlocks holds a platform's blocks in a set of capabilities.
type PlatformBlocks struct {
	SKU      string          `yaml:",name" in:"platform"`
	Backends []SupportBlocks `yaml:",value"`
}

// SupportBlocks holds, by family, what a platform runs of a backend in a set of capabilities.
type SupportBlocks struct {
	Backend string                  `yaml:",name" in:"backend"`
	Blocks  map[string]SupportBlock `yaml:",blocks,optional"`
}

// With returns the definitions that apply to suites that select the named set, with these suites only.
// The empty name is for suites that select none.
func (c *Catalog) With(set string) *Catalog {
	out := *c
	out.Suites = slices.DeleteFunc(slices.Clone(c.Suites), func(s Suite) bool { return s.Capabilities != set })
	caps := find(c.Capabilities, set, func(s *Capabilities) string { return s.Name })
	if caps == nil {
		return &out
	}
	out.Backends = slices.Clone(c.Backends)
	for _, in := range caps.Backends {
		if b := out.Backend(in.Backend); b != nil {
			b.Blocks = replaced(b.Blocks, in.Blocks)
		}
	}
	out.Platforms = slices.Clone(c.Platforms)
	for _, in := range caps.Platforms {
		p := out.Platform(in.SKU)
		p.Backends = slices.Clone(p.Backends)
		for _, by := range in.Backends {
			if s := p.Support(by.Backend); s != nil {
				s.Blocks = replaced(s.Blocks, by.Blocks)
			}
		}
	}
	return &out
}

// replaced returns blocks, overridden by the blocks of the same families in by.
func replaced[B any](blocks, by map[string]B) map[string]B {
	out := map[string]B{}
	maps.Copy(out, blocks)
	maps.Copy(out, by)
	return out
}

// views returns the definitions without a set, and with each.
func (c *Catalog) views() map[string]*Catalog {
	out := map[string]*Catalog{"": c.With("")}
	for i := range c.Capabilities {
		out[c.Capabilities[i].Name] = c.With(c.Capabilities[i].Name)
	}
	return out
}

// checkCapabilities refuses sets that no suite selects, and blocks of a backend that a platform does
// not list.
func (c *Checker) checkCapabilities(set *Capabilities) {
	view := c.views[set.Name]
	if len(view.Suites) == 0 {
		c.Diagnose(set, "no suite picks the capabilities %q", set.Name)
	}
	for i := range set.Backends {
		b := &set.Backends[i]
		if len(b.Blocks) == 0 {
			c.Diagnose(b, "backend %q has %s", b.Backend, noBlock())
		}
		c.checkBackend(b.Blocks, view.Backend(b.Backend))
	}
	for i := range set.Platforms {
		p := &set.Platforms[i]
		for j := range p.Backends {
			s := &p.Backends[j]
			switch {
			case c.Platform(p.SKU).Support(s.Backend) == nil:
				c.Diagnose(s, "platform %q does not list backend %q", p.SKU, s.Backend)
			case len(s.Blocks) == 0:
				c.Diagnose(s, "this entry replaces nothing; leave it out")
			}
		}
	}
}
