// Package planner turns definitions and filters into cases and cells. Everything in
// it is a pure function; what this machine is comes in as an argument.
package planner

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// ReasonPlatform is the reason of a case that its platform or backend does not run.
const ReasonPlatform = "backend-platform-unsupported"

// Resolve makes the plan: every case that the definitions ask for and the
// filters keep, and the cells that run them. It is a pure function of its
// arguments. The matrix has no generator yet; see Write. Cases share what is
// equal in them (size ladders, environment), so nobody may change a plan.
func Resolve(cat *catalog.Catalog, f Filters, m Machine) (*plan.Matrix, error) {
	cat = m.in(cat)
	var suites []*catalog.Suite
	for i := range cat.Suites {
		if keeps(f.Suites, cat.Suites[i].Name) {
			suites = append(suites, &cat.Suites[i])
		}
	}
	if err := f.check(cat, suites); err != nil {
		return nil, err
	}
	parts := make([]resolver, len(cat.Platforms))
	var running sync.WaitGroup
	for i := range cat.Platforms {
		if p := &cat.Platforms[i]; f.wantSKU(p.SKU) {
			running.Go(func() { parts[i] = resolvePlatform(cat, suites, p, f) })
		}
	}
	running.Wait()
	out, err := join(parts)
	if err != nil {
		return nil, err
	}
	out.Include, err = cells(cat, out, f.MaxCases)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// resolvePlatform gathers the cases of one platform.
func resolvePlatform(cat *catalog.Catalog, suites []*catalog.Suite, p *catalog.Platform, f Filters) resolver {
	r := resolver{cat: cat, filters: f}
	for _, s := range suites {
		if slices.Contains(s.Platforms, p.SKU) {
			r.suite(p, s)
		}
	}
	return r
}

// join puts the cases of all platforms into one matrix, each once: two suites
// may ask for the same case. Cases that differ in something their id does not
// say are refused.
func join(parts []resolver) (*plan.Matrix, error) {
	upstream, other := 0, 0
	for i := range parts {
		if parts[i].err != nil {
			return nil, parts[i].err
		}
		upstream += len(parts[i].upstream)
		other += len(parts[i].other)
	}
	out := &plan.Matrix{Version: plan.MatrixVersion, RequestedCases: make([]plan.Requested, 0, upstream), RequestedOther: make([]plan.Requested, 0, other)}
	seen := make(map[string]*plan.Case, upstream+other)
	add := func(list *[]plan.Requested, part []plan.Requested) error {
		for i := range part {
			c := &part[i].Case
			if old := seen[c.CaseID]; old != nil {
				if err := same(*old, *c); err != nil {
					return err
				}
				continue
			}
			seen[c.CaseID] = c
			*list = append(*list, part[i])
		}
		return nil
	}
	for i := range parts {
		if err := cmp.Or(add(&out.RequestedCases, parts[i].upstream), add(&out.RequestedOther, parts[i].other)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// same refuses two cases of one id that differ in more than their suite.
func same(a, b plan.Case) error {
	first := a.Suite
	a.Suite = b.Suite
	if reflect.DeepEqual(a, b) {
		return nil
	}
	return fmt.Errorf("suites %q and %q ask for different cases of the same id %s; plan them apart", first, b.Suite, a.CaseID)
}

// resolver gathers the cases of one platform in plan order.
type resolver struct {
	cat      *catalog.Catalog
	filters  Filters
	upstream []plan.Requested
	other    []plan.Requested
	err      error // the first
}

func (r *resolver) suite(p *catalog.Platform, s *catalog.Suite) {
	if r.filters.wantEP() {
		if blocks, ok := s.Blocks[string(plan.FamilyEP)].(*catalog.EPSuite); ok {
			for i := range *blocks {
				r.epBlock(p, s, &(*blocks)[i])
			}
		}
	}
	if r.filters.wantCollective() {
		if blocks, ok := s.Blocks[string(plan.FamilyCollective)].(*catalog.CollectiveSuite); ok {
			for i := range *blocks {
				r.collectiveBlock(p, s, &(*blocks)[i])
			}
		}
	}
}

// common returns a case with all that cases of one platform, suite, backend and
// world have in common.
func (r *resolver) common(p *catalog.Platform, s *catalog.Suite, be *catalog.Backend, world int) plan.Case {
	c := plan.Case{
		Suite: s.Name, Backend: be.Name, Repeat: 1,
		Env: environment(p, be, p.Scope(world)),
	}
	place(&c, p, world)
	return c
}

// runnable requests a case in each of its repeats.
func (r *resolver) runnable(p *catalog.Platform, be *catalog.Backend, c plan.Case, repeats int) {
	budget := budgetSeconds(p, be, &c)
	for n := 1; n <= repeats && r.err == nil; n++ {
		if c.Repeat = n; n > 1 {
			c.CaseID = c.ID()
		}
		r.add(plan.Requested{SKU: c.SKU, Disposition: plan.Runnable, Case: c, BudgetSeconds: budget})
	}
}

// unsupported requests a case that cannot run. detail may be empty.
func (r *resolver) unsupported(c plan.Case, detail string) {
	reason := ReasonPlatform
	q := plan.Requested{SKU: c.SKU, Disposition: plan.Unsupported, Reason: &reason, Case: c}
	if detail != "" {
		q.Detail = &detail
	}
	r.add(q)
}

// add takes a case into its list.
func (r *resolver) add(q plan.Requested) {
	if len(r.upstream)+len(r.other) == mostCases(r.filters) {
		r.err = cmp.Or(r.err, fmt.Errorf("the plan has more than %d cases; filter it", mostCases(r.filters)))
		return
	}
	if q.Case.Upstream() {
		r.upstream = append(r.upstream, q)
	} else {
		r.other = append(r.other, q)
	}
}

// mostCases is how many cases the cells of all waves can hold.
func mostCases(f Filters) int { return plan.Waves * plan.WaveCells * max(f.MaxCases, DefaultMaxCases) }

// environment merges what the definitions give the ranks, the more particular
// over the more general: platform, scale-out fabric, backend, backend on platform.
func environment(p *catalog.Platform, be *catalog.Backend, scope string) map[string]string {
	layers := [][]catalog.Var{p.Env}
	if scope == vocab.ScopeOut && p.ScaleOut != nil {
		layers = append(layers, p.ScaleOut.Env)
	}
	layers = append(layers, be.Env)
	if sup := p.Support(be.Name); sup != nil {
		layers = append(layers, sup.Env)
	}
	var env map[string]string
	for _, layer := range layers {
		for _, v := range layer {
			if env == nil {
				env = map[string]string{}
			}
			env[v.Name] = v.Value
		}
	}
	return env
}

// ordered returns the elements of all that want has, in the order of all.
func ordered(all, want []string) []string {
	var out []string
	for _, a := range all {
		if slices.Contains(want, a) {
			out = append(out, a)
		}
	}
	return out
}
