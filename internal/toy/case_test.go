package toy

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
)

// block is the block of a toy case.
type block struct {
	Tone   string  `json:"tone" in:"tone"`
	Sizes  []int64 `json:"sizes"`  // bytes of a message, ascending
	Throws int     `json:"throws"` // that a rank times at each size
}

var tones = []string{"ping", "pong"}

func of(c *plan.Case) *block { return c.Block.(*block) }

// Factors implements plan.Block.
func (b *block) Factors(c *plan.Case, to []string) []string {
	return append(to, b.Tone, "w"+strconv.Itoa(c.World))
}

// suiteBlock is what a suite asks of the family.
type suiteBlock struct {
	Backends []string      `yaml:"backends" in:"backend"`
	Tones    []string      `yaml:"tones" in:"tone" default:"[ping]"`
	Sizes    catalog.Sizes `yaml:"sizes"`
}

// Check implements catalog.SuiteBlock.
func (b *suiteBlock) Check(c *catalog.Checker, s *catalog.Suite) {
	c.Sampled(b, string(Name), "", s)
	if b.Sizes.From%2 != 0 {
		c.Diagnose(&b.Sizes.From, "suite %q throws half a word", s.Name)
	}
}

// Worlds implements catalog.SuiteBlock.
func (b *suiteBlock) Worlds(c *catalog.Catalog, s *catalog.Suite) []int {
	return c.WorldsOn(s.Platforms, string(Name), b.Backends)
}

// backendBlock is what a backend does of the family.
type backendBlock struct {
	Tones []string `yaml:"tones" in:"tone"`
}

// sampling is the toy part of a profile.
type sampling struct {
	Throws int `yaml:"throws" min:"1"`
}

// cases requests the cases of a block: by world, backend and tone.
func cases(r *planner.Resolver, asked catalog.SuiteBlock) {
	b := asked.(*suiteBlock)
	for world, be := range r.Each(Name, b.Backends) {
		c := r.NewCase(Name, contract, "", be, world)
		for _, tone := range r.Pick("tone", tones, b.Tones) {
			c.Block = &block{tone, b.Sizes.List(), catalog.SamplingOf[sampling](r.SamplingProfile(c.Sampling)).Throws}
			r.Request(be, &c)
		}
	}
}

// lacks says what of a case the backend does not have, or is empty.
func lacks(be *catalog.Backend, c *plan.Case) string {
	has := catalog.BackendOf[backendBlock](be)
	if tone := of(c).Tone; has == nil || !slices.Contains(has.Tones, tone) {
		return fmt.Sprintf("backend %s has no tone %s", be.Name, tone)
	}
	return ""
}
