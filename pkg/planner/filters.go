package planner

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Filters narrow a plan. A filter on a field of one family keeps only that family.
type Filters struct {
	Only Only
	// Cases are the ids of the cases to keep, each with all its repeats under the id of the first; empty:
	// every case. An id that is not in the plan is an error.
	Cases []string
	// MaxCases caps the cases of a cell; 0 is DefaultMaxCases.
	MaxCases int
}

// Only holds, by the name of a filter, the values to keep; empty: all. A value that selects nothing in
// any plan is an error.
type Only map[string][]string

// Filter is one criterion for narrowing a plan: a flag of every command that plans, and an input of the
// workflow.
type Filter struct {
	Name     string
	What     string // the name in messages; default: Name
	Usage    string // of the flag
	Input    string // description of the workflow's input
	Kind     string // kind of its words, as in tags of definitions
	Asked    bool   // the workflow offers only the words that suites use
	Excludes string // the filter that removes the named values; empty: the filter keeps them
	// Numbers lists the positive numbers that suites have for the filter; nil: its values are
	// words.
	Numbers func(cat *catalog.Catalog, suites []*catalog.Suite) []int
}

// Names of the filters on fields of every case.
const (
	FilterSuite   = "suite"
	FilterBackend = "backend"
	FilterSKU     = "sku"
	FilterWorld   = "world"
)

// common are the filters on fields of every case.
var common = []Filter{
	{Name: FilterSuite, Kind: "suite", Usage: "only these suites", Input: "Suite of cases"},
	{Name: FilterBackend, Kind: "backend", Usage: "only these backends", Input: "Library to measure"},
	{Name: FilterSKU, Kind: "platform", Usage: "only these platforms", Input: "Pool of machines"},
	{Name: "exclude-sku", Kind: "platform", Usage: "not these platforms", Input: "Pools to leave out, separated by commas", What: "excluded sku", Excludes: FilterSKU},
	{Name: FilterWorld, Numbers: WorldsOf(""), Usage: "only these world sizes", Input: "Ranks", What: "world size"},
}

// AllFilters lists the filters on fields of every case, then the filters of each family.
func AllFilters() []Filter {
	all := slices.Clone(common)
	for _, f := range families.All() {
		all = append(all, f.Filters...)
	}
	return all
}

// values lists all words, or the numbers that suites have.
func (w Filter) values(cat *catalog.Catalog, suites []*catalog.Suite) []string {
	if w.Numbers != nil {
		return numbers(w.Numbers(cat, suites))
	}
	return cat.Words(w.Kind)
}

// Choices lists the values of the filter that the workflow offers.
func (w Filter) Choices(cat *catalog.Catalog) []string {
	suites := make([]*catalog.Suite, len(cat.Suites))
	for i := range cat.Suites {
		suites[i] = &cat.Suites[i]
	}
	if w.Asked {
		return Ordered(w.values(cat, suites), cat.Asked(w.Kind))
	}
	return w.values(cat, suites)
}

// WorldsOf lists the numbers of ranks that suites request, ascending, for one family, or for all if it
// is empty.
func WorldsOf(family plan.Family) func(*catalog.Catalog, []*catalog.Suite) []int {
	return func(cat *catalog.Catalog, suites []*catalog.Suite) []int {
		var worlds []int
		for _, s := range suites {
			for name, blocks := range s.Blocks {
				for _, b := range blocks {
					if family == "" || string(family) == name {
						worlds = append(worlds, b.Worlds(cat, s)...)
					}
				}
			}
		}
		slices.Sort(worlds)
		return slices.Compact(worlds)
	}
}

// check refuses values that select nothing in any plan.
func (f *Filters) check(cat *catalog.Catalog, suites []*catalog.Suite) error {
	var errs []error
	filters := AllFilters()
	for _, name := range slices.Sorted(maps.Keys(f.Only)) {
		if !slices.ContainsFunc(filters, func(w Filter) bool { return w.Name == name }) {
			errs = append(errs, fmt.Errorf("unknown filter %q", name))
		}
	}
	refuse := func(number bool, format string, hint func(got string, known []string) string) {
		for _, w := range filters {
			for _, got := range f.Only[w.Name] {
				if known := w.values(cat, suites); number == (w.Numbers != nil) && !slices.Contains(known, got) {
					errs = append(errs, fmt.Errorf(format, cmp.Or(w.What, w.Name), got, hint(got, known)))
				}
			}
		}
	}
	refuse(false, "unknown %s %q%s", vocab.Hint)
	if f.MaxCases < 0 {
		errs = append(errs, fmt.Errorf("invalid maximum of %d cases in a cell: want a positive number", f.MaxCases))
	}
	if len(errs) == 0 {
		for name, all := range f.Only {
			if len(all) > 0 && !slices.ContainsFunc(all, func(v string) bool { return f.keeps(name, v) }) {
				errs = append(errs, fmt.Errorf("every selected %s is excluded: %s", name, strings.Join(all, ", ")))
			}
		}
	}
	if len(errs) == 0 {
		refuse(true, "%s %s is in none of the selected suites; they have %s", func(_ string, known []string) string {
			return cmp.Or(strings.Join(known, ", "), "none")
		})
	}
	return errors.Join(errs...)
}

// keepsCase reports whether the filter on ids keeps a case.
func (f *Filters) keepsCase(c *plan.Case) bool {
	if len(f.Cases) == 0 {
		return true
	}
	first := *c
	first.Repeat = 1
	return slices.Contains(f.Cases, first.ID())
}

// checkCases refuses ids that are not in the plan.
func (f *Filters) checkCases(m *plan.Matrix) error {
	planned := map[string]bool{}
	if len(f.Cases) > 0 {
		for q := range m.Requested() {
			planned[q.Case.CaseID] = true
		}
	}
	var errs []error
	for _, id := range f.Cases {
		if !planned[id] {
			errs = append(errs, fmt.Errorf("case %q is not in the plan, as narrowed by the other filters", id))
		}
	}
	return errors.Join(errs...)
}

// wants reports whether the filters may keep a case of the family.
func (f *Filters) wants(family plan.Family) bool {
	for _, other := range families.All() {
		for _, w := range other.Filters {
			if other.Name != family && len(f.Only[w.Name]) > 0 {
				return false
			}
		}
	}
	return true
}

// keeps reports whether a filter, and the filters that exclude from it, keep a value.
func (f *Filters) keeps(filter, value string) bool {
	for _, w := range common {
		if w.Excludes == filter && slices.Contains(f.Only[w.Name], value) {
			return false
		}
	}
	only := f.Only[filter]
	return len(only) == 0 || slices.Contains(only, value)
}

// Ordered returns the elements of all that are in want, in the order of all.
func Ordered(all, want []string) []string {
	var out []string
	for _, a := range all {
		if slices.Contains(want, a) {
			out = append(out, a)
		}
	}
	return out
}

func numbers(ns []int) []string {
	out := make([]string, len(ns))
	for i, n := range ns {
		out[i] = strconv.Itoa(n)
	}
	return out
}
