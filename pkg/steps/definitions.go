package steps

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/schedule"
)

// BackendOf returns what the backend does of the schedule family, or nil.
func BackendOf(b *catalog.Backend) *Backend { return catalog.BlockOf[Backend](b.Blocks, string(Name)) }

// supportOf returns what runs of the backend's schedules, or nil.
func supportOf(s *catalog.Support) *Support { return catalog.BlockOf[Support](s.Blocks, string(Name)) }

// Suite is what a suite asks of the schedule family. The sample counts are those of the
// collective family.
type Suite []SuiteBlock

// SuiteBlock asks for the schedules of one collective, with the product of its lists, at
// each world size that the platform has for the backend.
type SuiteBlock struct {
	Backends   []string `yaml:"backends" in:"backend"`
	Op         string   `yaml:"op" in:"op"`
	Algorithms []string `yaml:"algorithms"`
	// Width is the ranks in a row of a grid, or in a node of a hierarchy; all unless said.
	Width int `yaml:"width,optional" min:"1"`
	// Segments is into how many pieces a tree pipelines each half of its vector.
	Segments   int           `yaml:"segments,optional" min:"1"`
	DTypes     []string      `yaml:"dtypes" in:"dtype"`
	Sizes      catalog.Sizes `yaml:"sizes"`
	Placements []string      `yaml:"placements" in:"placement"`
	Modes      []string      `yaml:"modes" in:"timing mode"`
	Buffers    []string      `yaml:"buffers" in:"buffers"`
	Sampling   string        `yaml:"sampling,optional" in:"sampling"` // the suite's unless said
}

// Backend is what a backend does of the schedule family.
type Backend struct {
	DTypes []string `yaml:"dtypes" in:"dtype"`
	Modes  []string `yaml:"modes" in:"timing mode"`
}

// Support lists the world sizes that run.
type Support struct {
	Worlds []int `yaml:",value" min:"1"`
}

// Check implements BackendBlock: any lists go together.
func (*Backend) Check(*catalog.Checker, *catalog.Backend) {}

// Check implements SupportBlock.
func (s *Support) Check(c *catalog.Checker, p *catalog.Platform, _ *catalog.Backend) {
	c.FillsNodes(p, s.Worlds)
}

// Check implements SuiteBlock.
func (e *Suite) Check(c *catalog.Checker, _ *catalog.Suite) {
	for i := range *e {
		b := &(*e)[i]
		if b.Sizes.From > b.Sizes.To {
			c.Diagnose(&b.Sizes.From, "\"from\" must not be larger than \"to\"")
		}
		for j, name := range b.Algorithms {
			if _, err := schedule.Find(name, schedule.Collective(b.Op)); err != nil {
				c.Diagnose(&b.Algorithms[j], "%v", err)
			}
		}
		unusedShape(c, b)
		has := catalog.Offering[Backend](c, string(Name), b.Backends)
		catalog.Offered(c, "element type", b.DTypes, has, func(h *Backend) []string { return h.DTypes })
		catalog.Offered(c, "timing mode", b.Modes, has, func(h *Backend) []string { return h.Modes })
		collective.CheckFresh(c, b.Buffers, b.Modes)
	}
}

// unusedShape reports a width and segments that no schedule of a block uses.
func unusedShape(c *catalog.Checker, b *SuiteBlock) {
	of := schedule.Collective(b.Op)
	if err := schedule.Unused(of, b.Algorithms, schedule.Shape{Width: b.Width}); err != nil {
		c.Diagnose(&b.Width, "%v", err)
	}
	if err := schedule.Unused(of, b.Algorithms, schedule.Shape{Segments: b.Segments}); err != nil {
		c.Diagnose(&b.Segments, "%v", err)
	}
}

// Worlds implements SuiteBlock.
func (e *Suite) Worlds(c *catalog.Catalog, s *catalog.Suite) []int {
	var out []int
	for i := range *e {
		for _, sku := range s.Platforms {
			out = append(out, worldsOf(c.Platform(sku), (*e)[i].Backends)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// worldsOf lists the world sizes at which the platform runs schedules on any of the backends,
// ascending.
func worldsOf(p *catalog.Platform, backends []string) []int {
	var out []int
	for _, name := range backends {
		if sup := p.Support(name); sup != nil && supportOf(sup) != nil {
			out = append(out, supportOf(sup).Worlds...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Coverage implements BackendBlock: the worlds that run.
func (*Backend) Coverage(_ *catalog.Catalog, p *catalog.Platform, b *catalog.Backend) []catalog.Coverage {
	var out []catalog.Coverage
	for _, w := range worldsOf(p, []string{b.Name}) {
		out = append(out, catalog.Coverage{SKU: p.SKU, Backend: b.Name, Mode: "schedules", World: w, Runs: true})
	}
	return out
}

// Support implements BackendBlock.
func (*Backend) Support(_ string, worlds []int) catalog.SupportBlock {
	return &Support{Worlds: worlds}
}
