package collective

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// SuiteBlock requests cases for all combinations of its lists, at each world size that the platform has
// for the backend. It has either sizes or traffic.
type SuiteBlock struct {
	Backends []string       `yaml:"backends" in:"backend"`
	Ops      []string       `yaml:"ops" in:"op"`
	DTypes   []string       `yaml:"dtypes" in:"dtype"`
	RedOps   []string       `yaml:"redops" in:"redop"` // for operations that reduce
	Sizes    *catalog.Sizes `yaml:"sizes,optional"`
	// Traffic of an alltoallv; its number of ranks is the world size.
	Traffic       *Traffic `yaml:"traffic,optional"`
	Placements    []string `yaml:"placements" in:"placement"`
	Modes         []string `yaml:"modes" in:"timing mode"`
	Buffers       []string `yaml:"buffers" in:"buffers"`
	Registrations []string `yaml:"registrations" in:"registration"`
	// Algorithms are asked for in addition to the library's own choice, each for the operations that have it.
	Algorithms []string `yaml:"algorithms,optional" in:"algorithm"`
	// CTAs are numbers of CTAs, up to MaxCTAs; 0 is the library's own choice, the default.
	CTAs     []int  `yaml:"ctas" min:"0" max:"64" default:"[0]"`
	Sampling string `yaml:"sampling,optional" in:"sampling"` // default: the suite's
}

// Backend holds a backend's capabilities for the collective family.
type Backend struct {
	Ops           []string `yaml:"ops" in:"op"`
	DTypes        []string `yaml:"dtypes" in:"dtype"`
	RedOps        []string `yaml:"redops,optional" in:"redop"` // for operations that reduce
	Modes         []string `yaml:"modes" in:"timing mode"`
	Registrations []string `yaml:"registrations" in:"registration"`
	Algorithms    []string `yaml:"algorithms,optional" in:"algorithm"` // among which a case may choose
	// Ungrouped means that a group call cannot have several operations.
	Ungrouped bool `yaml:"ungrouped,optional"`
	// ByName means that `cxrun bench` uses the backend only if --backend names it, since it is not a
	// library of collectives.
	ByName bool `yaml:"by_name,optional"`
}

// Sampling holds the collective sample counts of a profile; see Counts. A window launches its graph
// once, and a group call has one operation.
type Sampling struct {
	Warmup     int `yaml:"warmup" min:"0" max:"1000000"`
	Iterations int `yaml:"iterations" min:"1" max:"1000000"`
	Trials     int `yaml:"trials" min:"1" max:"1000000"`
	Checks     int `yaml:"checks,optional" min:"2" max:"1000000"` // 0: DefaultChecks
}

// Check implements catalog.BackendBlock.
func (h *Backend) Check(c *catalog.Checker, _ *catalog.Backend) {
	if i := slices.IndexFunc(h.Ops, func(op string) bool { return vocab.Op(op).Reduces }); i >= 0 && h.RedOps == nil {
		c.Diagnose(&h.Ops[i], "%s needs the key \"redops\"", h.Ops[i])
	}
}

// Check implements catalog.SuiteBlock.
func (b *SuiteBlock) Check(c *catalog.Checker, s *catalog.Suite) {
	for i, op := range b.Ops {
		switch {
		case vocab.Op(op).Traffic && b.Traffic == nil:
			c.Diagnose(&b.Ops[i], "%s needs a block with the key \"traffic\" instead of \"sizes\"", op)
		case !vocab.Op(op).Traffic && b.Sizes == nil:
			c.Diagnose(&b.Ops[i], "%s needs a block with the key \"sizes\" instead of \"traffic\"", op)
		}
	}
	if b.Sizes != nil && b.Traffic != nil {
		c.Diagnose(b.Traffic, "a block has either \"sizes\" or \"traffic\", not both: a traffic file determines its size")
	}
	if b.Traffic != nil {
		b.Traffic.Check(c, b.Worlds(c.Catalog, s), b.DTypes)
	}
	has := catalog.Offering[Backend](c, string(Name), b.Backends)
	catalog.Offered(c, "operation", b.Ops, has, func(h *Backend) []string { return h.Ops })
	catalog.Offered(c, "element type", b.DTypes, has, func(h *Backend) []string { return h.DTypes })
	catalog.Offered(c, "reduction", b.RedOps, has, func(h *Backend) []string { return h.RedOps })
	catalog.Offered(c, "timing mode", b.Modes, has, func(h *Backend) []string { return h.Modes })
	catalog.Offered(c, "registration", b.Registrations, has, func(h *Backend) []string { return h.Registrations })
	catalog.Offered(c, "algorithm", b.Algorithms, has, func(h *Backend) []string { return h.Algorithms })
	CheckFresh(c, b.Buffers, b.Modes)
}

// CheckFresh reports timing modes that leave no time to write fresh buffers.
func CheckFresh(c *catalog.Checker, buffers, modes []string) {
	for i := range modes {
		for _, state := range buffers {
			if why := TooEarly(state, modes[i]); why != "" {
				c.Diagnose(&modes[i], "%s", why)
				break
			}
		}
	}
}

// Worlds implements catalog.SuiteBlock.
func (b *SuiteBlock) Worlds(c *catalog.Catalog, s *catalog.Suite) []int {
	return c.WorldsOn(s.Platforms, string(Name), b.Backends)
}
