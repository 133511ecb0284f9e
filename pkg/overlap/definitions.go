package overlap

import (
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/schedule"
)

// SuiteBlock requests cases for all combinations of its lists, at each world size that the platform has for the backend.
type SuiteBlock struct {
	Backends []string `yaml:"backends" in:"backend"`
	Forms    []string `yaml:"forms" in:"overlap form"`
	Ops      []string `yaml:"ops" in:"op" default:"[all_gather]"` // for form beside
	// Algorithms are schedules whose steps perform the collective of form beside. By default the library performs it.
	Algorithms []string `yaml:"algorithms,optional"`
	DTypes     []string `yaml:"dtypes" in:"dtype"`
	Computes   []string `yaml:"computes" in:"compute"`
	// Hidden is the number of rows and columns of the matrices of form beside, and the width of the input of a linear layer.
	Hidden int `yaml:"hidden" min:"1" max:"65536"`
	// Products and Collectives are for a window of form beside.
	Products    int           `yaml:"products" min:"1" max:"256" default:"1"`
	Collectives int           `yaml:"collectives" min:"1" max:"64" default:"1"`
	Sizes       catalog.Sizes `yaml:"sizes"`
	Sampling    string        `yaml:"sampling,optional" in:"sampling"` // default: the suite's
}

// Backend holds a backend's overlap capabilities. A backend without operations runs only schedules.
type Backend struct {
	Ops      []string `yaml:"ops,optional" in:"op"`
	DTypes   []string `yaml:"dtypes" in:"dtype"`
	Computes []string `yaml:"computes" in:"compute"`
}

// Sampling holds the overlap sample counts of a profile; see Timing.
type Sampling struct {
	Warmup     int `yaml:"warmup" min:"0" max:"10000"`
	Iterations int `yaml:"iterations" min:"1" max:"10000"`
}

// Check implements catalog.SuiteBlock.
func (b *SuiteBlock) Check(c *catalog.Checker, s *catalog.Suite) {
	c.Sampled(b, string(Name), b.Sampling, s)
	for i, name := range b.Algorithms {
		for _, op := range b.Ops {
			if _, err := schedule.Find(name, schedule.Collective(op)); err != nil {
				c.Diagnose(&b.Algorithms[i], "%v", err)
			}
		}
	}
	has := catalog.Offering[Backend](c, string(Name), b.Backends)
	catalog.Offered(c, "operation", b.Ops, has, func(h *Backend) []string { return h.Ops })
	catalog.Offered(c, "element type", b.DTypes, has, func(h *Backend) []string { return h.DTypes })
	catalog.Offered(c, "compute", b.Computes, has, func(h *Backend) []string { return h.Computes })
}

// Worlds implements catalog.SuiteBlock.
func (b *SuiteBlock) Worlds(c *catalog.Catalog, s *catalog.Suite) []int {
	return c.WorldsOn(s.Platforms, string(Name), b.Backends)
}
