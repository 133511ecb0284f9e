package copies

import (
	"github.com/collectivex/collectivex/pkg/catalog"
)

// SuiteBlock requests its tests on each backend, with each kind of host memory if a test has any, and each
// submission.
type SuiteBlock struct {
	Backends    []string      `yaml:"backends" in:"backend"`
	Tests       []string      `yaml:"tests" in:"copy test"`
	HostMemory  []string      `yaml:"host_memory" in:"host memory" default:"[pinned]"`
	Submissions []string      `yaml:"submissions" in:"submission" default:"[loop]"`
	Sizes       catalog.Sizes `yaml:"sizes"`
	Streams     []int         `yaml:"streams" min:"1" max:"64" default:"[1]"`
	PageBytes   catalog.Bytes `yaml:"page_bytes,optional" min:"8"`     // default: one piece per stream
	Victim      bool          `yaml:"victim,optional"`                 // see Block
	Sampling    string        `yaml:"sampling,optional" in:"sampling"` // default: the suite's
}

// Backend holds a backend's capabilities for the copy family.
type Backend struct {
	Tests       []string `yaml:"tests" in:"copy test"`
	HostMemory  []string `yaml:"host_memory" in:"host memory"`
	Submissions []string `yaml:"submissions" in:"submission"`
	// Streams is the maximum number of streams that can share a copy.
	Streams int `yaml:"streams" min:"1" max:"64"`
	// Victim: copies can run next to a computing kernel.
	Victim bool `yaml:"victim,optional"`
}

// Sampling holds the copy sample counts of a profile; see Block.
type Sampling struct {
	Warmup  int `yaml:"warmup" min:"0" max:"10000"`
	Copies  int `yaml:"copies" min:"1" max:"10000"`
	Windows int `yaml:"windows" min:"1" max:"1000"`
}

// Check implements catalog.SuiteBlock.
func (b *SuiteBlock) Check(c *catalog.Checker, s *catalog.Suite) {
	c.Sampled(b, string(Name), b.Sampling, s)
	c.Ascend(&b.Streams)
	has := catalog.Offering[Backend](c, string(Name), b.Backends)
	catalog.Offered(c, "test", b.Tests, has, func(h *Backend) []string { return h.Tests })
	catalog.Offered(c, "kind of host memory", b.HostMemory, has, func(h *Backend) []string { return h.HostMemory })
	catalog.Offered(c, "submission", b.Submissions, has, func(h *Backend) []string { return h.Submissions })
}

// Worlds implements catalog.SuiteBlock.
func (b *SuiteBlock) Worlds(*catalog.Catalog, *catalog.Suite) []int {
	var out []int
	for _, name := range b.Tests {
		out = append(out, TestOf(name).Ranks)
	}
	return out
}
