package copies

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/catalog"
)

// SuiteBlock requests its tests on each backend, with each kind of host memory if a test has any, and each
// submission.
type SuiteBlock struct {
	Backends    []string      `yaml:"backends" in:"backend"`
	Tests       []string      `yaml:"tests" in:"copy test"`
	HostMemory  []string      `yaml:"host_memory" in:"host memory" default:"[pinned]"`
	Submissions []string      `yaml:"submissions" in:"submission" default:"[loop]"`
	Sizes       catalog.Sizes `yaml:"sizes,optional"`
	Streams     []int         `yaml:"streams" min:"1" max:"64" default:"[1]"`
	PageBytes   catalog.Bytes `yaml:"page_bytes,optional" min:"8"`     // default: one piece per stream
	Victim      bool          `yaml:"victim,optional"`                 // see Block
	Each        bool          `yaml:"each,optional"`                   // see Block; at each world from 2 on
	Swap        *Grid         `yaml:"swap,optional"`                   // of swaps of blocks, in the place of sizes
	Sampling    string        `yaml:"sampling,optional" in:"sampling"` // default: the suite's
}

// MaxBlocks is the maximum of Grid.NumBlocks.
const MaxBlocks = 65536

// Grid asks for swaps of each number of blocks of each size in each layout, but for those above a payload.
type Grid struct {
	Profile    string          `yaml:"profile" in:"swap profile"`
	Layouts    []string        `yaml:"layouts" in:"block layout"`
	BlockBytes []catalog.Bytes `yaml:"block_bytes" min:"1"`
	NumBlocks  []int           `yaml:"num_blocks" min:"1" max:"65536"`
	MaxPayload catalog.Bytes   `yaml:"max_payload" min:"1"`
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
	// Swaps of blocks have one window.
	SwapWarmup int `yaml:"swap_warmup" min:"0" max:"10000" default:"4"`
	Swaps      int `yaml:"swaps" min:"1" max:"10000" default:"20"`
}

// Check implements catalog.SuiteBlock.
func (b *SuiteBlock) Check(c *catalog.Checker, s *catalog.Suite) {
	c.Sampled(b, string(Name), b.Sampling, s)
	c.Ascend(&b.Streams)
	b.checkGrid(c)
	has := catalog.Offering[Backend](c, string(Name), b.Backends)
	catalog.Offered(c, "test", b.Tests, has, func(h *Backend) []string { return h.Tests })
	catalog.Offered(c, "kind of host memory", b.HostMemory, has, func(h *Backend) []string { return h.HostMemory })
	catalog.Offered(c, "submission", b.Submissions, has, func(h *Backend) []string { return h.Submissions })
}

// checkGrid reports copies without sizes, swaps without a grid, and what the other kind has.
func (b *SuiteBlock) checkGrid(c *catalog.Checker) {
	swaps := len(b.Tests) - len(slices.DeleteFunc(slices.Clone(b.Tests), func(name string) bool { return TestOf(name).Swap }))
	g := b.Swap
	switch {
	case g == nil && swaps > 0:
		c.Diagnose(b, "swaps of blocks need the key \"swap\"")
	case g == nil && b.Sizes.Factor == 0:
		c.Diagnose(b, "copies need the key \"sizes\"")
	case g == nil:
	case swaps < len(b.Tests):
		c.Diagnose(&b.Tests, "a block with \"swap\" has swaps of blocks alone; move the other tests to another block")
	case b.Sizes.Factor != 0 || b.PageBytes > 0 || b.Victim:
		c.Diagnose(b, "swaps of blocks have \"swap\" in the place of \"sizes\" and \"page_bytes\", and no victim")
	default:
		c.Ascend(&g.NumBlocks)
		if !slices.IsSorted(g.BlockBytes) {
			c.Diagnose(&g.BlockBytes, "the numbers must ascend")
		}
	}
}

// Worlds implements catalog.SuiteBlock.
func (b *SuiteBlock) Worlds(c *catalog.Catalog, s *catalog.Suite) (out []int) {
	for _, world := range c.WorldsOn(s.Platforms, string(Name), b.Backends) {
		if slices.ContainsFunc(b.Tests, func(name string) bool { return TestOf(name).Runs(world, b.Each) }) {
			out = append(out, world)
		}
	}
	return out
}

// Support returns what a machine runs: one device, and as many as other families.
func (*Backend) Support(_ string, worlds []int) catalog.SupportBlock {
	out := catalog.Worlds(slices.Compact(slices.Sorted(slices.Values(append([]int{1}, worlds...)))))
	return &out
}
