package catalog

import "slices"

// Worlds is the SupportBlock of families whose cases need nothing of a platform but ranks: the
// numbers of ranks that run.
type Worlds []int

// Check refuses worlds that the platform cannot have.
func (w *Worlds) Check(c *Checker, p *Platform, _ *Backend) { c.FillsNodes(p, *w) }

// Worlds returns the worlds at which the platform runs cases of a family on any of the backends,
// ascending. The family's SupportBlock is Worlds.
func (p *Platform) Worlds(family string, backends ...string) []int {
	var out []int
	for _, name := range backends {
		if s := p.Support(name); s != nil && s.Blocks[family] != nil {
			out = append(out, *BlockOf[Worlds](s.Blocks, family)...)
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
