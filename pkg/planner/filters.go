package planner

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Filters narrow a plan. An empty list filters nothing; a list keeps the cases
// whose field is in it. A filter on a field that only one family has keeps
// that family alone. A name that the definitions do not know is an error.
type Filters struct {
	Suites      []string
	Backends    []string
	SKUs        []string
	ExcludeSKUs []string
	EP          []int // EP sizes
	Worlds      []int
	Modes       []string // EP: normal, low-latency
	Precisions  []string // EP: bf16, fp8; naming one also brings in backends that have it off the main path
	Phases      []string // EP: decode, prefill
	Ops         []string // collectives
	DTypes      []string // collectives: element types
	RedOps      []string // collectives that reduce

	// MaxCases caps the cases of a cell; 0 is DefaultMaxCases.
	MaxCases int
}

// check refuses names and sizes that select nothing in any plan.
func (f *Filters) check(cat *catalog.Catalog, suites []*catalog.Suite) error {
	var errs []error
	names := func(what string, got, known []string) {
		for _, g := range got {
			if !slices.Contains(known, g) {
				errs = append(errs, fmt.Errorf("unknown %s %q%s", what, g, catalog.Hint(g, known)))
			}
		}
	}
	skus := catalog.Names(cat.Platforms, func(p *catalog.Platform) string { return p.SKU })
	names("suite", f.Suites, catalog.Names(cat.Suites, func(s *catalog.Suite) string { return s.Name }))
	names("backend", f.Backends, catalog.Names(cat.Backends, func(b *catalog.Backend) string { return b.Name }))
	names("sku", f.SKUs, skus)
	names("excluded sku", f.ExcludeSKUs, skus)
	names("mode", f.Modes, vocab.EPModes())
	names("precision", f.Precisions, vocab.Precisions())
	names("phase", f.Phases, vocab.Phases())
	names("op", f.Ops, vocab.Ops())
	names("dtype", f.DTypes, vocab.DTypes())
	names("redop", f.RedOps, vocab.RedOps())

	if f.MaxCases < 0 {
		errs = append(errs, fmt.Errorf("a cell cannot hold %d cases", f.MaxCases))
	}
	if len(errs) == 0 && len(f.SKUs) > 0 && !slices.ContainsFunc(f.SKUs, func(s string) bool { return !slices.Contains(f.ExcludeSKUs, s) }) {
		errs = append(errs, fmt.Errorf("every selected sku is excluded: %s", strings.Join(f.SKUs, ", ")))
	}
	if len(errs) == 0 {
		degrees, worlds := sweep(cat, suites)
		errs = append(errs, sizes("EP size", f.EP, degrees), sizes("world size", f.Worlds, worlds))
	}
	return errors.Join(errs...)
}

// sizes refuses sizes that no selected suite has.
func sizes(what string, got, known []int) error {
	var errs []error
	for _, g := range got {
		if !slices.Contains(known, g) {
			words := make([]string, len(known))
			for i, k := range known {
				words[i] = strconv.Itoa(k)
			}
			errs = append(errs, fmt.Errorf("%s %d is in none of the selected suites%s", what, g, list(words)))
		}
	}
	return errors.Join(errs...)
}

func list(words []string) string {
	if len(words) == 0 {
		return "; they have none"
	}
	return "; they have " + strings.Join(words, ", ")
}

// Sizes returns the EP degrees and the world sizes that any suite has, ascending.
func Sizes(cat *catalog.Catalog) (degrees, worlds []int) {
	suites := make([]*catalog.Suite, len(cat.Suites))
	for i := range cat.Suites {
		suites[i] = &cat.Suites[i]
	}
	return sweep(cat, suites)
}

// sweep returns the EP degrees and the world sizes of suites, ascending.
func sweep(cat *catalog.Catalog, suites []*catalog.Suite) (degrees, worlds []int) {
	for _, s := range suites {
		for family, block := range s.Blocks {
			asked := block.Worlds(cat, s)
			worlds = append(worlds, asked...)
			if family == string(plan.FamilyEP) {
				degrees = append(degrees, asked...)
			}
		}
	}
	slices.Sort(degrees)
	slices.Sort(worlds)
	return slices.Compact(degrees), slices.Compact(worlds)
}

func (f *Filters) wantSKU(sku string) bool {
	return keeps(f.SKUs, sku) && !slices.Contains(f.ExcludeSKUs, sku)
}

// wantEP reports whether any EP case can pass.
func (f *Filters) wantEP() bool {
	return len(f.Ops) == 0 && len(f.DTypes) == 0 && len(f.RedOps) == 0
}

// wantCollective reports whether any collective case can pass.
func (f *Filters) wantCollective() bool {
	return len(f.EP) == 0 && len(f.Modes) == 0 && len(f.Precisions) == 0 && len(f.Phases) == 0
}

func keeps[T comparable](filter []T, v T) bool {
	return len(filter) == 0 || slices.Contains(filter, v)
}
