package catalog

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// ScheduleFamily is the collectives as explicit steps. Their sample counts are those of the
// collective family.
var ScheduleFamily = Family{
	Name:  vocab.FamilySchedule,
	Suite: &ScheduleSuite{}, Backend: &ScheduleBackend{}, Support: &ScheduleSupport{},
}

// Schedule returns what the backend does of the schedule family, or nil.
func (b *Backend) Schedule() *ScheduleBackend {
	return BlockOf[ScheduleBackend](b.Blocks, vocab.FamilySchedule)
}

// Schedule returns what runs of the backend's schedules, or nil.
func (s *Support) Schedule() *ScheduleSupport {
	return BlockOf[ScheduleSupport](s.Blocks, vocab.FamilySchedule)
}

// ScheduleSuite is what a suite asks of the schedule family.
type ScheduleSuite []ScheduleBlock

// ScheduleBlock asks for the schedules of one collective, with the product of its lists, at
// each world size that the platform has for the backend.
type ScheduleBlock struct {
	Backends   []string `yaml:"backends" in:"backend"`
	Op         string   `yaml:"op" in:"op"`
	Algorithms []string `yaml:"algorithms"`
	// Width is the ranks in a row of a grid, or in a node of a hierarchy; all unless said.
	Width int `yaml:"width,optional" min:"1"`
	// Segments is into how many pieces a tree pipelines each half of its vector.
	Segments   int      `yaml:"segments,optional" min:"1"`
	DTypes     []string `yaml:"dtypes" in:"dtype"`
	Sizes      Sizes    `yaml:"sizes"`
	Placements []string `yaml:"placements" in:"placement"`
	Modes      []string `yaml:"modes" in:"timing mode"`
	Buffers    []string `yaml:"buffers" in:"buffers"`
	Sampling   string   `yaml:"sampling,optional" in:"sampling"` // the suite's unless said
}

// ScheduleBackend is what a backend does of the schedule family.
type ScheduleBackend struct {
	DTypes []string `yaml:"dtypes" in:"dtype"`
	Modes  []string `yaml:"modes" in:"timing mode"`
}

// ScheduleSupport lists the world sizes that run.
type ScheduleSupport struct {
	Worlds []int `yaml:",value" min:"1"`
}

// Check implements BackendBlock: any lists go together.
func (*ScheduleBackend) Check(*Checker, *Backend) {}

// Check implements SupportBlock.
func (s *ScheduleSupport) Check(c *Checker, p *Platform, _ *Backend) { c.FillsNodes(p, s.Worlds) }

// Check implements SuiteBlock.
func (e *ScheduleSuite) Check(c *Checker, _ *Suite) {
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
		has := Offering[ScheduleBackend](c, vocab.FamilySchedule, b.Backends)
		Offered(c, "element type", b.DTypes, has, func(h *ScheduleBackend) []string { return h.DTypes })
		Offered(c, "timing mode", b.Modes, has, func(h *ScheduleBackend) []string { return h.Modes })
		freshModes(c, b.Buffers, b.Modes)
	}
}

// unusedShape reports a width and segments that no schedule of a block uses.
func unusedShape(c *Checker, b *ScheduleBlock) {
	of := schedule.Collective(b.Op)
	if err := schedule.Unused(of, b.Algorithms, schedule.Shape{Width: b.Width}); err != nil {
		c.Diagnose(&b.Width, "%v", err)
	}
	if err := schedule.Unused(of, b.Algorithms, schedule.Shape{Segments: b.Segments}); err != nil {
		c.Diagnose(&b.Segments, "%v", err)
	}
}

// Worlds implements SuiteBlock.
func (e *ScheduleSuite) Worlds(c *Catalog, s *Suite) []int {
	var out []int
	for i := range *e {
		for _, sku := range s.Platforms {
			out = append(out, c.Platform(sku).ScheduleWorlds((*e)[i].Backends)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ScheduleWorlds lists the world sizes at which the platform runs schedules on any of the
// backends, ascending.
func (p *Platform) ScheduleWorlds(backends []string) []int {
	var out []int
	for _, name := range backends {
		if sup := p.Support(name); sup != nil && sup.Schedule() != nil {
			out = append(out, sup.Schedule().Worlds...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Coverage implements BackendBlock: the worlds that run.
func (*ScheduleBackend) Coverage(_ *Catalog, p *Platform, b *Backend) []Coverage {
	var out []Coverage
	for _, w := range p.ScheduleWorlds([]string{b.Name}) {
		out = append(out, Coverage{SKU: p.SKU, Backend: b.Name, Mode: "schedules", World: w, Runs: true})
	}
	return out
}

// Support implements BackendBlock.
func (*ScheduleBackend) Support(_ string, worlds []int) SupportBlock {
	return &ScheduleSupport{Worlds: worlds}
}
