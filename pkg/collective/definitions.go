package collective

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// BackendOf returns what the backend does of the collective family, or nil.
func BackendOf(b *catalog.Backend) *Backend { return catalog.BlockOf[Backend](b.Blocks, string(Name)) }

// SamplingOf returns the profile's sample counts of collective cases, or nil.
func SamplingOf(s *catalog.Sampling) *Sampling {
	return catalog.BlockOf[Sampling](s.Blocks, string(Name))
}

// supportOf returns what runs of the backend's collectives, or nil.
func supportOf(s *catalog.Support) *Support { return catalog.BlockOf[Support](s.Blocks, string(Name)) }

// Suite is what a suite asks of the collective family.
type Suite []SuiteBlock

// SuiteBlock asks for the product of its lists, at each world size that
// the platform has for the backend. It has either sizes or traffic.
type SuiteBlock struct {
	Backends []string       `yaml:"backends" in:"backend"`
	Ops      []string       `yaml:"ops" in:"op"`
	DTypes   []string       `yaml:"dtypes" in:"dtype"`
	RedOps   []string       `yaml:"redops" in:"redop"` // for the operations that reduce
	Sizes    *catalog.Sizes `yaml:"sizes,optional"`
	// Traffic is what an alltoallv moves; the block runs at the world size that it
	// is of.
	Traffic       *catalog.Traffic `yaml:"traffic,optional"`
	Placements    []string         `yaml:"placements" in:"placement"`
	Modes         []string         `yaml:"modes" in:"timing mode"`
	Buffers       []string         `yaml:"buffers" in:"buffers"`
	Registrations []string         `yaml:"registrations" in:"registration"`
	Sampling      string           `yaml:"sampling,optional" in:"sampling"` // the suite's unless said
}

// Backend is what a backend does of the collective family.
type Backend struct {
	Ops           []string `yaml:"ops" in:"op"`
	DTypes        []string `yaml:"dtypes" in:"dtype"`
	RedOps        []string `yaml:"redops,optional" in:"redop"` // for the operations that reduce
	Modes         []string `yaml:"modes" in:"timing mode"`
	Registrations []string `yaml:"registrations" in:"registration"`
	// Ungrouped says that a group call cannot have several operations.
	Ungrouped bool `yaml:"ungrouped,optional"`
	// ByName says that `cxrun bench` uses the backend only if --backend names it, since it is no
	// library of collectives.
	ByName bool `yaml:"by_name,optional"`
}

// Support lists the world sizes that run.
type Support struct {
	Worlds []int `yaml:",value" min:"1"`
}

// Sampling is the collective part of a profile; see Counts.
// Its graphs are launched once a window, and its groups have one operation.
type Sampling struct {
	Warmup     int `yaml:"warmup" min:"0" max:"1000000"`
	Iterations int `yaml:"iterations" min:"1" max:"1000000"`
	Trials     int `yaml:"trials" min:"1" max:"1000000"`
	Checks     int `yaml:"checks,optional" min:"2" max:"1000000"` // 0: DefaultChecks
}

// Check implements SamplingBlock: any counts go together.
func (*Sampling) Check(*catalog.Checker) {}

// Check implements BackendBlock.
func (h *Backend) Check(c *catalog.Checker, _ *catalog.Backend) {
	if i := slices.IndexFunc(h.Ops, func(op string) bool { return vocab.Op(op).Reduces }); i >= 0 && h.RedOps == nil {
		c.Diagnose(&h.Ops[i], "%s needs the key \"redops\"", h.Ops[i])
	}
}

// Check implements SupportBlock.
func (s *Support) Check(c *catalog.Checker, p *catalog.Platform, _ *catalog.Backend) {
	c.FillsNodes(p, s.Worlds)
}

// Check implements SuiteBlock.
func (e *Suite) Check(c *catalog.Checker, s *catalog.Suite) {
	for i := range *e {
		(*e)[i].check(c, s)
	}
}

func (b *SuiteBlock) check(c *catalog.Checker, s *catalog.Suite) {
	if b.Sizes != nil && b.Sizes.From > b.Sizes.To {
		c.Diagnose(&b.Sizes.From, "\"from\" must not be larger than \"to\"")
	}
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
		b.Traffic.Check(c, b.worlds(c.Catalog, s), b.DTypes)
	}
	has := catalog.Offering[Backend](c, string(Name), b.Backends)
	catalog.Offered(c, "operation", b.Ops, has, func(h *Backend) []string { return h.Ops })
	catalog.Offered(c, "element type", b.DTypes, has, func(h *Backend) []string { return h.DTypes })
	catalog.Offered(c, "reduction", b.RedOps, has, func(h *Backend) []string { return h.RedOps })
	catalog.Offered(c, "timing mode", b.Modes, has, func(h *Backend) []string { return h.Modes })
	catalog.Offered(c, "registration", b.Registrations, has, func(h *Backend) []string { return h.Registrations })
	CheckFresh(c, b.Buffers, b.Modes)
}

// CheckFresh diagnoses timing modes that leave no time to write fresh buffers.
func CheckFresh(c *catalog.Checker, buffers, modes []string) {
	written := slices.IndexFunc(buffers, vocab.InputWritten)
	for i := range modes {
		if modes[i] != vocab.Blocking && written >= 0 {
			c.Diagnose(&modes[i], "buffers %s need the timing mode %s alone: only it has time to write them before an operation", buffers[written], vocab.Blocking)
		}
	}
}

// Worlds implements SuiteBlock.
func (e *Suite) Worlds(c *catalog.Catalog, s *catalog.Suite) []int {
	var out []int
	for i := range *e {
		out = append(out, (*e)[i].worlds(c, s)...)
	}
	return out
}

// worlds lists the world sizes of a block, ascending.
func (b *SuiteBlock) worlds(c *catalog.Catalog, s *catalog.Suite) []int {
	var out []int
	for _, sku := range s.Platforms {
		out = append(out, worldsOf(c.Platform(sku), b.Backends)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// worldsOf lists the world sizes at which the platform runs collectives of any of the backends,
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
		out = append(out, catalog.Coverage{SKU: p.SKU, Backend: b.Name, Mode: "collectives", World: w, Runs: true})
	}
	return out
}

// Support implements BackendBlock.
func (*Backend) Support(_ string, worlds []int) catalog.SupportBlock {
	return &Support{Worlds: worlds}
}
