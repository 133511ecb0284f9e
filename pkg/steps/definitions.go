package steps

import (
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/schedule"
)

// SuiteBlock requests cases of one collective for all combinations of its lists, at each world size that the platform has for the
// backend. The collective family's sample counts apply.
type SuiteBlock struct {
	Backends   []string `yaml:"backends" in:"backend"`
	Op         string   `yaml:"op" in:"op"`
	Algorithms []string `yaml:"algorithms"`
	// Width is the number of ranks in a row of a grid, or in a node of a hierarchy; default: all.
	Width int `yaml:"width,optional" min:"1"`
	// Segments is the number of pieces into which a tree pipelines each half of its vector.
	Segments   int           `yaml:"segments,optional" min:"1"`
	DTypes     []string      `yaml:"dtypes" in:"dtype"`
	Sizes      catalog.Sizes `yaml:"sizes"`
	Placements []string      `yaml:"placements" in:"placement"`
	Modes      []string      `yaml:"modes" in:"timing mode"`
	Buffers    []string      `yaml:"buffers" in:"buffers"`
	Sampling   string        `yaml:"sampling,optional" in:"sampling"` // default: the suite's
}

// Backend holds a backend's capabilities for the schedule family.
type Backend struct {
	DTypes []string `yaml:"dtypes" in:"dtype"`
	Modes  []string `yaml:"modes" in:"timing mode"`
}

// Check implements catalog.SuiteBlock.
func (b *SuiteBlock) Check(c *catalog.Checker, _ *catalog.Suite) {
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

// unusedShape reports a width or segments that no schedule of a block uses.
func unusedShape(c *catalog.Checker, b *SuiteBlock) {
	of := schedule.Collective(b.Op)
	if err := schedule.Unused(of, b.Algorithms, schedule.Shape{Width: b.Width}); err != nil {
		c.Diagnose(&b.Width, "%v", err)
	}
	if err := schedule.Unused(of, b.Algorithms, schedule.Shape{Segments: b.Segments}); err != nil {
		c.Diagnose(&b.Segments, "%v", err)
	}
}

// Worlds implements catalog.SuiteBlock.
func (b *SuiteBlock) Worlds(c *catalog.Catalog, s *catalog.Suite) []int {
	return c.WorldsOn(s.Platforms, string(Name), b.Backends)
}
