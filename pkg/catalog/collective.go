package catalog

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/vocab"
)

// CollectiveFamily is the collective operations.
var CollectiveFamily = Family{
	Name:  vocab.FamilyCollective,
	Suite: &CollectiveSuite{}, Backend: &CollectiveBackend{}, Support: &CollectiveSupport{}, Sampling: &CollectiveSampling{},
}

// Collective returns what the backend does of the collective family, or nil.
func (b *Backend) Collective() *CollectiveBackend {
	return BlockOf[CollectiveBackend](b.Blocks, vocab.FamilyCollective)
}

// Collective returns what runs of the backend's collectives, or nil.
func (s *Support) Collective() *CollectiveSupport {
	return BlockOf[CollectiveSupport](s.Blocks, vocab.FamilyCollective)
}

// Collective returns the profile's sample counts of collective cases, or nil.
func (s *Sampling) Collective() *CollectiveSampling {
	return BlockOf[CollectiveSampling](s.Blocks, vocab.FamilyCollective)
}

// CollectiveSuite is what a suite asks of the collective family.
type CollectiveSuite []CollectiveBlock

// CollectiveBlock asks for the product of its lists, at each world size that
// the platform has for the backend. It has either sizes or traffic.
type CollectiveBlock struct {
	Backends []string `yaml:"backends" in:"backend"`
	Ops      []string `yaml:"ops" in:"op"`
	DTypes   []string `yaml:"dtypes" in:"dtype"`
	RedOps   []string `yaml:"redops" in:"redop"` // for the operations that reduce
	Sizes    *Sizes   `yaml:"sizes,optional"`
	// Traffic is what an alltoallv moves; the block runs at the world size that it
	// is of.
	Traffic       *Traffic `yaml:"traffic,optional"`
	Placements    []string `yaml:"placements" in:"placement"`
	Modes         []string `yaml:"modes" in:"timing mode"`
	Buffers       []string `yaml:"buffers" in:"buffers"`
	Registrations []string `yaml:"registrations" in:"registration"`
	Sampling      string   `yaml:"sampling,optional" in:"sampling"` // the suite's unless said
}

// Sizes is a ladder of message sizes: From, From·Factor, … up to To.
type Sizes struct {
	From   Bytes `yaml:"from" min:"1"`
	To     Bytes `yaml:"to" min:"1"`
	Factor int   `yaml:"factor" min:"2"`
}

// List returns the sizes, ascending.
func (s Sizes) List() []int64 {
	var out []int64
	for n := int64(s.From); n <= int64(s.To); n *= int64(s.Factor) {
		out = append(out, n)
		if n > int64(s.To)/int64(s.Factor) {
			break
		}
	}
	return out
}

// CollectiveBackend is what a backend does of the collective family.
type CollectiveBackend struct {
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

// CollectiveSupport lists the world sizes that run.
type CollectiveSupport struct {
	Worlds []int `yaml:",value" min:"1"`
}

// CollectiveSampling is the collective part of a profile; see plan.CollectiveTiming.
// Its graphs are launched once a window, and its groups have one operation.
type CollectiveSampling struct {
	Warmup     int `yaml:"warmup" min:"0" max:"1000000"`
	Iterations int `yaml:"iterations" min:"1" max:"1000000"`
	Trials     int `yaml:"trials" min:"1" max:"1000000"`
	Checks     int `yaml:"checks,optional" min:"2" max:"1000000"` // 0: plan.DefaultChecks
}

// Check implements SamplingBlock: any counts go together.
func (*CollectiveSampling) Check(*Checker) {}

// Check implements BackendBlock.
func (h *CollectiveBackend) Check(c *Checker, _ *Backend) {
	if i := slices.IndexFunc(h.Ops, func(op string) bool { return vocab.Op(op).Reduces }); i >= 0 && h.RedOps == nil {
		c.Diagnose(&h.Ops[i], "%s needs the key \"redops\"", h.Ops[i])
	}
}

// Check implements SupportBlock.
func (s *CollectiveSupport) Check(c *Checker, p *Platform, _ *Backend) { c.FillsNodes(p, s.Worlds) }

// Check implements SuiteBlock.
func (e *CollectiveSuite) Check(c *Checker, s *Suite) {
	for i := range *e {
		(*e)[i].check(c, s)
	}
}

func (b *CollectiveBlock) check(c *Checker, s *Suite) {
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
		b.Traffic.check(c, b.worlds(c.Catalog, s), b.DTypes)
	}
	has := Offering[CollectiveBackend](c, vocab.FamilyCollective, b.Backends)
	Offered(c, "operation", b.Ops, has, func(h *CollectiveBackend) []string { return h.Ops })
	Offered(c, "element type", b.DTypes, has, func(h *CollectiveBackend) []string { return h.DTypes })
	Offered(c, "reduction", b.RedOps, has, func(h *CollectiveBackend) []string { return h.RedOps })
	Offered(c, "timing mode", b.Modes, has, func(h *CollectiveBackend) []string { return h.Modes })
	Offered(c, "registration", b.Registrations, has, func(h *CollectiveBackend) []string { return h.Registrations })
	freshModes(c, b.Buffers, b.Modes)
}

// freshModes diagnoses timing modes that leave no time to write fresh buffers.
func freshModes(c *Checker, buffers, modes []string) {
	written := slices.IndexFunc(buffers, vocab.InputWritten)
	for i := range modes {
		if modes[i] != vocab.Blocking && written >= 0 {
			c.Diagnose(&modes[i], "buffers %s need the timing mode %s alone: only it has time to write them before an operation", buffers[written], vocab.Blocking)
		}
	}
}

// Worlds implements SuiteBlock.
func (e *CollectiveSuite) Worlds(c *Catalog, s *Suite) []int {
	var out []int
	for i := range *e {
		out = append(out, (*e)[i].worlds(c, s)...)
	}
	return out
}

// worlds lists the world sizes of a block, ascending.
func (b *CollectiveBlock) worlds(c *Catalog, s *Suite) []int {
	var out []int
	for _, sku := range s.Platforms {
		out = append(out, c.Platform(sku).CollectiveWorlds(b.Backends)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// CollectiveWorlds lists the world sizes at which the platform runs collectives of
// any of the backends, ascending.
func (p *Platform) CollectiveWorlds(backends []string) []int {
	var out []int
	for _, name := range backends {
		if sup := p.Support(name); sup != nil && sup.Collective() != nil {
			out = append(out, sup.Collective().Worlds...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Coverage implements BackendBlock: the worlds that run.
func (*CollectiveBackend) Coverage(_ *Catalog, p *Platform, b *Backend) []Coverage {
	var out []Coverage
	for _, w := range p.CollectiveWorlds([]string{b.Name}) {
		out = append(out, Coverage{SKU: p.SKU, Backend: b.Name, Mode: "collectives", World: w, Runs: true})
	}
	return out
}

// Support implements BackendBlock.
func (*CollectiveBackend) Support(_ string, worlds []int) SupportBlock {
	return &CollectiveSupport{Worlds: worlds}
}
