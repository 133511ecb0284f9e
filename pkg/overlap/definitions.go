package overlap

import (
	"cmp"
	"slices"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/schedule"
)

// BackendOf returns what the backend does of the overlap family, or nil.
func BackendOf(b *catalog.Backend) *Backend { return catalog.BlockOf[Backend](b.Blocks, string(Name)) }

// SamplingOf returns the profile's sample counts of overlap cases, or nil.
func SamplingOf(s *catalog.Sampling) *Sampling {
	return catalog.BlockOf[Sampling](s.Blocks, string(Name))
}

// supportOf returns what runs of the backend's overlap, or nil.
func supportOf(s *catalog.Support) *Support { return catalog.BlockOf[Support](s.Blocks, string(Name)) }

// Suite is what a suite asks of the overlap family.
type Suite []SuiteBlock

// SuiteBlock asks for its forms with the product of its lists, at each world size that the
// platform has for the backend.
type SuiteBlock struct {
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
	Products    int           `yaml:"products" min:"1" max:"256" default:"1"`
	Collectives int           `yaml:"collectives" min:"1" max:"64" default:"1"`
	Sizes       catalog.Sizes `yaml:"sizes"`
	Sampling    string        `yaml:"sampling,optional" in:"sampling"` // the suite's unless said
}

// Backend is what a backend does of the overlap family. One without operations runs
// schedules alone.
type Backend struct {
	Ops      []string `yaml:"ops,optional" in:"op"`
	DTypes   []string `yaml:"dtypes" in:"dtype"`
	Computes []string `yaml:"computes" in:"compute"`
}

// Support lists the world sizes that run.
type Support struct {
	Worlds []int `yaml:",value" min:"2"`
}

// Sampling is the overlap part of a profile; see Timing.
type Sampling struct {
	Warmup     int `yaml:"warmup" min:"0" max:"10000"`
	Iterations int `yaml:"iterations" min:"1" max:"10000"`
}

// Check implements catalog.SamplingBlock: any counts go together.
func (*Sampling) Check(*catalog.Checker) {}

// Check implements catalog.BackendBlock: any lists go together.
func (*Backend) Check(*catalog.Checker, *catalog.Backend) {}

// Check implements catalog.SupportBlock.
func (s *Support) Check(c *catalog.Checker, p *catalog.Platform, _ *catalog.Backend) {
	c.FillsNodes(p, s.Worlds)
}

// Check implements catalog.SuiteBlock.
func (e *Suite) Check(c *catalog.Checker, s *catalog.Suite) {
	for i := range *e {
		b := &(*e)[i]
		if profile := cmp.Or(b.Sampling, s.Sampling); SamplingOf(c.SamplingProfile(profile)) == nil {
			c.Diagnose(b, "profile %q has no sample counts of overlap; give it a block %q", profile, string(Name))
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
		has := catalog.Offering[Backend](c, string(Name), b.Backends)
		catalog.Offered(c, "operation", b.Ops, has, func(h *Backend) []string { return h.Ops })
		catalog.Offered(c, "element type", b.DTypes, has, func(h *Backend) []string { return h.DTypes })
		catalog.Offered(c, "compute", b.Computes, has, func(h *Backend) []string { return h.Computes })
	}
}

// Worlds implements catalog.SuiteBlock.
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

// worldsOf lists the world sizes at which the platform runs overlap on any of the
// backends, ascending.
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

// Coverage implements catalog.BackendBlock: the worlds that run.
func (*Backend) Coverage(_ *catalog.Catalog, p *catalog.Platform, b *catalog.Backend) []catalog.Coverage {
	var out []catalog.Coverage
	for _, w := range worldsOf(p, []string{b.Name}) {
		out = append(out, catalog.Coverage{SKU: p.SKU, Backend: b.Name, Mode: "overlap", World: w, Runs: true})
	}
	return out
}

// Support implements catalog.BackendBlock: one rank has nobody to communicate with.
func (*Backend) Support(_ string, worlds []int) catalog.SupportBlock {
	own := slices.DeleteFunc(slices.Clone(worlds), func(w int) bool { return w < 2 })
	if len(own) == 0 {
		return nil
	}
	return &Support{Worlds: own}
}
