package catalog

import (
	"cmp"
	"slices"

	"github.com/collectivex/collectivex/pkg/vocab"
)

// copies is copies of memory by the engines of a device.
var copies = Family{
	Name:  vocab.FamilyCopy,
	Suite: &CopySuite{}, Backend: &CopyBackend{}, Support: &CopySupport{}, Sampling: &CopySampling{},
	Added: true,
}

// Copy returns what the backend does of the copy family, or nil.
func (b *Backend) Copy() *CopyBackend { return block[CopyBackend](b.Blocks, vocab.FamilyCopy) }

// Copy returns what runs of the backend's copies, or nil.
func (s *Support) Copy() *CopySupport { return block[CopySupport](s.Blocks, vocab.FamilyCopy) }

// Copy returns the profile's sample counts of copy cases, or nil.
func (s *Sampling) Copy() *CopySampling { return block[CopySampling](s.Blocks, vocab.FamilyCopy) }

// CopySuite is what a suite asks of the copy family.
type CopySuite []CopyBlock

// CopyBlock asks for its tests on each backend, with each kind of host memory where a test
// has any, and each submission.
type CopyBlock struct {
	Backends    []string `yaml:"backends" in:"backend"`
	Tests       []string `yaml:"tests" in:"copy test"`
	HostMemory  []string `yaml:"host_memory" in:"host memory" default:"[pinned]"`
	Submissions []string `yaml:"submissions" in:"submission" default:"[loop]"`
	Sizes       Sizes    `yaml:"sizes"`
	Streams     []int    `yaml:"streams" min:"1" max:"64" default:"[1]"`
	PageBytes   Bytes    `yaml:"page_bytes,optional" min:"8"`     // one piece a stream unless said
	Victim      bool     `yaml:"victim,optional"`                 // see plan.Copy
	Sampling    string   `yaml:"sampling,optional" in:"sampling"` // the suite's unless said
}

// CopyBackend is what a backend does of the copy family.
type CopyBackend struct {
	Tests       []string `yaml:"tests" in:"copy test"`
	HostMemory  []string `yaml:"host_memory" in:"host memory"`
	Submissions []string `yaml:"submissions" in:"submission"`
	// Streams is the most streams that can share a copy.
	Streams int `yaml:"streams" min:"1" max:"64"`
	// Victim says that copies can run beside a kernel that computes.
	Victim bool `yaml:"victim,optional"`
}

// CopySupport lists the world sizes that run: 1, and 2 where devices reach each other.
type CopySupport struct {
	Worlds []int `yaml:",value" min:"1" max:"2"`
}

// CopySampling is the copy part of a profile; see plan.Copy.
type CopySampling struct {
	Warmup  int `yaml:"warmup" min:"0" max:"10000"`
	Copies  int `yaml:"copies" min:"1" max:"10000"`
	Windows int `yaml:"windows" min:"1" max:"1000"`
}

// Check implements SamplingBlock: any counts go together.
func (*CopySampling) Check(*Checker) {}

// Check implements BackendBlock: any lists go together.
func (*CopyBackend) Check(*Checker, *Backend) {}

// Check implements SupportBlock.
func (s *CopySupport) Check(c *Checker, p *Platform, _ *Backend) { c.FillsNodes(p, s.Worlds) }

// Check implements SuiteBlock.
func (e *CopySuite) Check(c *Checker, s *Suite) {
	for i := range *e {
		b := &(*e)[i]
		if profile := cmp.Or(b.Sampling, s.Sampling); c.SamplingProfile(profile).Copy() == nil {
			c.Diagnose(b, "profile %q has no sample counts of copies; give it a block %q", profile, vocab.FamilyCopy)
		}
		if b.Sizes.From > b.Sizes.To {
			c.Diagnose(&b.Sizes.From, "\"from\" must not be larger than \"to\"")
		}
		if !slices.IsSorted(b.Streams) || len(slices.Compact(slices.Clone(b.Streams))) < len(b.Streams) {
			c.Diagnose(&b.Streams, "the numbers must ascend")
		}
		has := offering[CopyBackend](c, vocab.FamilyCopy, b.Backends)
		offered(c, "test", b.Tests, has, func(h *CopyBackend) []string { return h.Tests })
		offered(c, "kind of host memory", b.HostMemory, has, func(h *CopyBackend) []string { return h.HostMemory })
		offered(c, "submission", b.Submissions, has, func(h *CopyBackend) []string { return h.Submissions })
	}
}

// Worlds implements SuiteBlock.
func (e *CopySuite) Worlds(*Catalog, *Suite) []int {
	var out []int
	for _, b := range *e {
		for _, name := range b.Tests {
			out = append(out, vocab.Copy(name).Ranks)
		}
	}
	return out
}

// Coverage implements BackendBlock: the worlds that run.
func (*CopyBackend) Coverage(_ *Catalog, p *Platform, b *Backend) []Coverage {
	s := p.Support(b.Name)
	if s == nil || s.Copy() == nil {
		return nil
	}
	var out []Coverage
	for _, w := range s.Copy().Worlds {
		out = append(out, Coverage{SKU: p.SKU, Backend: b.Name, Mode: "copies", World: w, Runs: true})
	}
	return out
}

// Support implements BackendBlock: one device, and two where there are as many.
func (*CopyBackend) Support(_ string, worlds []int) SupportBlock {
	own := []int{1}
	if slices.ContainsFunc(worlds, func(w int) bool { return w > 1 }) {
		own = append(own, 2)
	}
	return &CopySupport{Worlds: own}
}
