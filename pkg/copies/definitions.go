package copies

import (
	"cmp"
	"slices"

	"github.com/collectivex/collectivex/pkg/catalog"
)

// BackendOf returns what the backend does of copies, or nil.
func BackendOf(b *catalog.Backend) *Backend { return catalog.BlockOf[Backend](b.Blocks, string(Name)) }

// SamplingOf returns the profile's sample counts of copies, or nil.
func SamplingOf(s *catalog.Sampling) *Sampling {
	return catalog.BlockOf[Sampling](s.Blocks, string(Name))
}

// supportOf returns what runs of the backend's copies, or nil.
func supportOf(s *catalog.Support) *Support { return catalog.BlockOf[Support](s.Blocks, string(Name)) }

// Suite is what a suite asks of the copy family.
type Suite []SuiteBlock

// SuiteBlock asks for its tests on each backend, with each kind of host memory where a test
// has any, and each submission.
type SuiteBlock struct {
	Backends    []string      `yaml:"backends" in:"backend"`
	Tests       []string      `yaml:"tests" in:"copy test"`
	HostMemory  []string      `yaml:"host_memory" in:"host memory" default:"[pinned]"`
	Submissions []string      `yaml:"submissions" in:"submission" default:"[loop]"`
	Sizes       catalog.Sizes `yaml:"sizes"`
	Streams     []int         `yaml:"streams" min:"1" max:"64" default:"[1]"`
	PageBytes   catalog.Bytes `yaml:"page_bytes,optional" min:"8"`     // one piece a stream unless said
	Victim      bool          `yaml:"victim,optional"`                 // see Block
	Sampling    string        `yaml:"sampling,optional" in:"sampling"` // the suite's unless said
}

// Backend is what a backend does of the copy family.
type Backend struct {
	Tests       []string `yaml:"tests" in:"copy test"`
	HostMemory  []string `yaml:"host_memory" in:"host memory"`
	Submissions []string `yaml:"submissions" in:"submission"`
	// Streams is the most streams that can share a copy.
	Streams int `yaml:"streams" min:"1" max:"64"`
	// Victim says that copies can run beside a kernel that computes.
	Victim bool `yaml:"victim,optional"`
}

// Support lists the world sizes that run: 1, and 2 where devices reach each other.
type Support struct {
	Worlds []int `yaml:",value" min:"1" max:"2"`
}

// Sampling is the copy part of a profile; see Block.
type Sampling struct {
	Warmup  int `yaml:"warmup" min:"0" max:"10000"`
	Copies  int `yaml:"copies" min:"1" max:"10000"`
	Windows int `yaml:"windows" min:"1" max:"1000"`
}

// Check implements SamplingBlock: any counts go together.
func (*Sampling) Check(*catalog.Checker) {}

// Check implements BackendBlock: any lists go together.
func (*Backend) Check(*catalog.Checker, *catalog.Backend) {}

// Check implements SupportBlock.
func (s *Support) Check(c *catalog.Checker, p *catalog.Platform, _ *catalog.Backend) {
	c.FillsNodes(p, s.Worlds)
}

// Check implements SuiteBlock.
func (e *Suite) Check(c *catalog.Checker, s *catalog.Suite) {
	for i := range *e {
		b := &(*e)[i]
		if profile := cmp.Or(b.Sampling, s.Sampling); SamplingOf(c.SamplingProfile(profile)) == nil {
			c.Diagnose(b, "profile %q has no sample counts of copies; give it a block %q", profile, string(Name))
		}
		if b.Sizes.From > b.Sizes.To {
			c.Diagnose(&b.Sizes.From, "\"from\" must not be larger than \"to\"")
		}
		if !slices.IsSorted(b.Streams) || len(slices.Compact(slices.Clone(b.Streams))) < len(b.Streams) {
			c.Diagnose(&b.Streams, "the numbers must ascend")
		}
		has := catalog.Offering[Backend](c, string(Name), b.Backends)
		catalog.Offered(c, "test", b.Tests, has, func(h *Backend) []string { return h.Tests })
		catalog.Offered(c, "kind of host memory", b.HostMemory, has, func(h *Backend) []string { return h.HostMemory })
		catalog.Offered(c, "submission", b.Submissions, has, func(h *Backend) []string { return h.Submissions })
	}
}

// Worlds implements SuiteBlock.
func (e *Suite) Worlds(*catalog.Catalog, *catalog.Suite) []int {
	var out []int
	for _, b := range *e {
		for _, name := range b.Tests {
			out = append(out, TestOf(name).Ranks)
		}
	}
	return out
}

// Coverage implements BackendBlock: the worlds that run.
func (*Backend) Coverage(_ *catalog.Catalog, p *catalog.Platform, b *catalog.Backend) []catalog.Coverage {
	s := p.Support(b.Name)
	if s == nil || supportOf(s) == nil {
		return nil
	}
	var out []catalog.Coverage
	for _, w := range supportOf(s).Worlds {
		out = append(out, catalog.Coverage{SKU: p.SKU, Backend: b.Name, Mode: "copies", World: w, Runs: true})
	}
	return out
}

// Support implements BackendBlock: one device, and two where there are as many.
func (*Backend) Support(_ string, worlds []int) catalog.SupportBlock {
	own := []int{1}
	if slices.ContainsFunc(worlds, func(w int) bool { return w > 1 }) {
		own = append(own, 2)
	}
	return &Support{Worlds: own}
}
