package catalog

import (
	"cmp"
	"slices"

	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// OverlapFamily is computation beside communication.
var OverlapFamily = Family{
	Name:  vocab.FamilyOverlap,
	Suite: &OverlapSuite{}, Backend: &OverlapBackend{}, Support: &OverlapSupport{}, Sampling: &OverlapSampling{},
	Added: true,
}

// Overlap returns what the backend does of the overlap family, or nil.
func (b *Backend) Overlap() *OverlapBackend {
	return BlockOf[OverlapBackend](b.Blocks, vocab.FamilyOverlap)
}

// Overlap returns what runs of the backend's overlap, or nil.
func (s *Support) Overlap() *OverlapSupport {
	return BlockOf[OverlapSupport](s.Blocks, vocab.FamilyOverlap)
}

// Overlap returns the profile's sample counts of overlap cases, or nil.
func (s *Sampling) Overlap() *OverlapSampling {
	return BlockOf[OverlapSampling](s.Blocks, vocab.FamilyOverlap)
}

// OverlapSuite is what a suite asks of the overlap family.
type OverlapSuite []OverlapBlock

// OverlapBlock asks for its forms with the product of its lists, at each world size that the
// platform has for the backend.
type OverlapBlock struct {
	Backends []string `yaml:"backends" in:"backend"`
	Forms    []string `yaml:"forms" in:"overlap form"`
	Ops      []string `yaml:"ops" in:"op" default:"[all_gather]"` // of form beside
	// Algorithms are schedules whose steps do the collective of form beside; the library does it
	// unless said.
	Algorithms []string `yaml:"algorithms,optional"`
	DTypes     []string `yaml:"dtypes" in:"dtype"`
	Computes   []string `yaml:"computes" in:"compute"`
	// Hidden is the rows and columns of the matrices of form beside, and the input's width of
	// a linear layer.
	Hidden int `yaml:"hidden" min:"1" max:"65536"`
	// Products and Collectives are of a window of form beside.
	Products    int    `yaml:"products" min:"1" max:"256" default:"1"`
	Collectives int    `yaml:"collectives" min:"1" max:"64" default:"1"`
	Sizes       Sizes  `yaml:"sizes"`
	Sampling    string `yaml:"sampling,optional" in:"sampling"` // the suite's unless said
}

// OverlapBackend is what a backend does of the overlap family. One without operations runs
// schedules alone.
type OverlapBackend struct {
	Ops      []string `yaml:"ops,optional" in:"op"`
	DTypes   []string `yaml:"dtypes" in:"dtype"`
	Computes []string `yaml:"computes" in:"compute"`
}

// OverlapSupport lists the world sizes that run.
type OverlapSupport struct {
	Worlds []int `yaml:",value" min:"2"`
}

// OverlapSampling is the overlap part of a profile; see plan.OverlapTiming.
type OverlapSampling struct {
	Warmup     int `yaml:"warmup" min:"0" max:"10000"`
	Iterations int `yaml:"iterations" min:"1" max:"10000"`
}

// Check implements SamplingBlock: any counts go together.
func (*OverlapSampling) Check(*Checker) {}

// Check implements BackendBlock: any lists go together.
func (*OverlapBackend) Check(*Checker, *Backend) {}

// Check implements SupportBlock.
func (s *OverlapSupport) Check(c *Checker, p *Platform, _ *Backend) { c.FillsNodes(p, s.Worlds) }

// Check implements SuiteBlock.
func (e *OverlapSuite) Check(c *Checker, s *Suite) {
	for i := range *e {
		b := &(*e)[i]
		if profile := cmp.Or(b.Sampling, s.Sampling); c.SamplingProfile(profile).Overlap() == nil {
			c.Diagnose(b, "profile %q has no sample counts of overlap; give it a block %q", profile, vocab.FamilyOverlap)
		}
		if b.Sizes.From > b.Sizes.To {
			c.Diagnose(&b.Sizes.From, "\"from\" must not be larger than \"to\"")
		}
		for j, name := range b.Algorithms {
			for _, op := range b.Ops {
				if _, err := schedule.Find(name, schedule.Collective(op)); err != nil {
					c.Diagnose(&b.Algorithms[j], "%v", err)
				}
			}
		}
		has := Offering[OverlapBackend](c, vocab.FamilyOverlap, b.Backends)
		Offered(c, "operation", b.Ops, has, func(h *OverlapBackend) []string { return h.Ops })
		Offered(c, "element type", b.DTypes, has, func(h *OverlapBackend) []string { return h.DTypes })
		Offered(c, "compute", b.Computes, has, func(h *OverlapBackend) []string { return h.Computes })
	}
}

// Worlds implements SuiteBlock.
func (e *OverlapSuite) Worlds(c *Catalog, s *Suite) []int {
	var out []int
	for i := range *e {
		for _, sku := range s.Platforms {
			out = append(out, c.Platform(sku).OverlapWorlds((*e)[i].Backends)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// OverlapWorlds lists the world sizes at which the platform runs overlap on any of the
// backends, ascending.
func (p *Platform) OverlapWorlds(backends []string) []int {
	var out []int
	for _, name := range backends {
		if sup := p.Support(name); sup != nil && sup.Overlap() != nil {
			out = append(out, sup.Overlap().Worlds...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Coverage implements BackendBlock: the worlds that run.
func (*OverlapBackend) Coverage(_ *Catalog, p *Platform, b *Backend) []Coverage {
	var out []Coverage
	for _, w := range p.OverlapWorlds([]string{b.Name}) {
		out = append(out, Coverage{SKU: p.SKU, Backend: b.Name, Mode: "overlap", World: w, Runs: true})
	}
	return out
}

// Support implements BackendBlock: one rank has nobody to communicate with.
func (*OverlapBackend) Support(_ string, worlds []int) SupportBlock {
	own := slices.DeleteFunc(slices.Clone(worlds), func(w int) bool { return w < 2 })
	if len(own) == 0 {
		return nil
	}
	return &OverlapSupport{Worlds: own}
}
