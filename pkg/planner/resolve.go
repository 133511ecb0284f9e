// Package planner turns definitions and filters into cases and cells. Its functions are pure; the current
// machine is an argument.
package planner

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"sync"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// ReasonPlatform is the reason of a case that its platform or backend does not support.
const ReasonPlatform = "backend-platform-unsupported"

// Resolve plans every case that the definitions request and the filters keep, and the cells that run
// them. It is a pure function of its arguments. The matrix has no generator yet; see plan.Matrix.Write.
// Cases share equal slices and maps (size ladders, environment), so callers must not modify a plan.
func Resolve(cat *catalog.Catalog, f Filters, m Machine) (*plan.Matrix, error) {
	cat = m.in(cat)
	var suites []*catalog.Suite
	for i := range cat.Suites {
		if f.keeps(FilterSuite, cat.Suites[i].Name) {
			suites = append(suites, &cat.Suites[i])
		}
	}
	if err := f.check(cat, suites); err != nil {
		return nil, err
	}
	views := map[string]*catalog.Catalog{}
	for _, s := range suites {
		views[s.Capabilities] = cat.With(s.Capabilities)
	}
	parts := make([]*Resolver, len(cat.Platforms))
	var running sync.WaitGroup
	for i := range cat.Platforms {
		r := &Resolver{Platform: &cat.Platforms[i], filters: f}
		if m.GPUs != nil && r.Platform.SKU == m.GPUs.SKU() {
			r.devices = m.GPUs.Count
		}
		parts[i] = r
		if f.keeps(FilterSKU, r.Platform.SKU) {
			running.Go(func() { r.resolve(suites, views) })
		}
	}
	running.Wait()
	out, err := join(parts)
	if err != nil {
		return nil, err
	}
	if err := f.checkCases(out); err != nil {
		return nil, err
	}
	out.Include, err = cells(cat, out, f.MaxCases)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// join merges the cases of all platforms into one matrix, each once: two suites may request the same
// case. It refuses cases that differ in something that their ids do not contain.
func join(parts []*Resolver) (*plan.Matrix, error) {
	upstream, all := 0, 0 // counted first, since 100,000 cases are large
	for _, p := range parts {
		if p.err != nil {
			return nil, p.err
		}
		all += len(p.cases)
		for i := range p.cases {
			if p.cases[i].Case.Upstream() {
				upstream++
			}
		}
	}
	out := &plan.Matrix{Version: plan.MatrixVersion, RequestedCases: make([]plan.Requested, 0, upstream), RequestedOther: make([]plan.Requested, 0, all-upstream)}
	seen := make(map[string]*plan.Case, all)
	for _, p := range parts {
		for i := range p.cases {
			c := &p.cases[i].Case
			if old := seen[c.CaseID]; old != nil {
				if err := same(*old, *c); err != nil {
					return nil, err
				}
				continue
			}
			seen[c.CaseID] = c
			if c.Upstream() {
				out.RequestedCases = append(out.RequestedCases, p.cases[i])
			} else {
				out.RequestedOther = append(out.RequestedOther, p.cases[i])
			}
		}
	}
	return out, nil
}

// same refuses two cases with one id that differ in more than their suite.
func same(a, b plan.Case) error {
	first := a.Suite
	a.Suite = b.Suite
	if reflect.DeepEqual(a, b) {
		return nil
	}
	return fmt.Errorf("suites %q and %q ask for different cases with the same id %s; plan them separately", first, b.Suite, a.CaseID)
}

// Resolver collects the cases of one platform in plan order.
type Resolver struct {
	*catalog.Catalog
	Platform *catalog.Platform
	Suite    *catalog.Suite // whose cases are being collected
	devices  int            // of the current machine, if the platform is its GPUs; else 0
	filters  Filters
	cases    []plan.Requested
	err      error // the first
}

// resolve collects the cases that the suites request, family by family. views holds the definitions by
// the capabilities that suites select.
func (r *Resolver) resolve(suites []*catalog.Suite, views map[string]*catalog.Catalog) {
	for _, r.Suite = range suites {
		r.Catalog = views[r.Suite.Capabilities]
		r.Platform = r.Catalog.Platform(r.Platform.SKU)
		for _, f := range families.All() {
			if !slices.Contains(r.Suite.Platforms, r.Platform.SKU) || !r.filters.wants(f.Name) {
				continue
			}
			for _, block := range r.Suite.Blocks[string(f.Name)] {
				f.Cases(r, block)
			}
		}
	}
}

// Keeps reports whether a filter keeps a value.
func (r *Resolver) Keeps(filter, value string) bool { return r.filters.keeps(filter, value) }

// Named reports whether a filter names the values to keep.
func (r *Resolver) Named(filter string) bool { return len(r.filters.Only[filter]) > 0 }

// Pick returns the words that are in want and that the filter keeps, in the order of all.
func (r *Resolver) Pick(filter string, all, want []string) []string {
	return slices.DeleteFunc(Ordered(all, want), func(w string) bool { return !r.filters.keeps(filter, w) })
}

// Worlds returns the worlds that the filters keep, ascending. Suites are written for pools: worlds that
// exceed the devices of the current machine are not requested.
func (r *Resolver) Worlds(worlds []int) []int {
	out := slices.DeleteFunc(slices.Clone(worlds), func(w int) bool {
		return !r.filters.keeps(FilterWorld, strconv.Itoa(w)) || r.devices > 0 && w > r.devices
	})
	slices.Sort(out)
	return out
}

// Backends returns the named backends that the platform lists and the filters keep, in plan order.
func (r *Resolver) Backends(names []string) []*catalog.Backend {
	var out []*catalog.Backend
	for i := range r.Catalog.Backends {
		b := &r.Catalog.Backends[i]
		if slices.Contains(names, b.Name) && r.filters.keeps(FilterBackend, b.Name) && r.Platform.Support(b.Name) != nil {
			out = append(out, b)
		}
	}
	return out
}

// Each yields the worlds at which the platform runs cases of a family on any of the backends, each with
// every backend that runs it, if the filters keep both. The family's SupportBlock is catalog.Worlds.
func (r *Resolver) Each(family plan.Family, backends []string) iter.Seq2[int, *catalog.Backend] {
	return func(yield func(int, *catalog.Backend) bool) {
		for _, world := range r.Worlds(r.Platform.Worlds(string(family), backends...)) {
			for _, be := range r.Backends(backends) {
				if slices.Contains(r.Platform.Worlds(string(family), be.Name), world) && !yield(world, be) {
					return
				}
			}
		}
	}
}

// NewCase returns a case of a family without its block, precision and id. sampling is the profile named
// by the block of the suite; empty: the suite's.
func (r *Resolver) NewCase(family plan.Family, contract, sampling string, be *catalog.Backend, world int) plan.Case {
	c := plan.Case{Family: family, Contract: contract, Sampling: cmp.Or(sampling, r.Suite.Sampling)}
	r.Place(&c, be, world)
	return c
}

// Place sets the fields that cases of one suite, backend and world on the platform have in common: where
// the ranks run, and their environment.
func (r *Resolver) Place(c *plan.Case, be *catalog.Backend, world int) {
	c.Suite, c.Backend, c.Repeat = r.Suite.Name, be.Name, 1
	place(c, r.Platform, world)
	if own := familyOf(c).Place; own != nil {
		own(r.Platform, c)
	}
	c.Env = environment(r.Platform, be, c)
}

// Request requests a case, as runnable unless its family or lacks gives a reason against it, and as
// unsupported otherwise.
func (r *Resolver) Request(be *catalog.Backend, c *plan.Case, lacks ...string) {
	if lack := cmp.Or(familyOf(c).Fit(be, c), cmp.Or(lacks...)); lack != "" {
		r.Unsupported(c, lack)
	} else {
		r.Runnable(be, c)
	}
}

// moreMachines returns that a case needs more machines than measure together, 0 or 1 for the current one, or "" if it
// does not.
func moreMachines(c *plan.Case, together int) string {
	if c.Nodes == 1 || c.Nodes == together {
		return ""
	}
	return fmt.Sprintf("the case needs %d machines, and this is one", c.Nodes)
}

// Runnable requests a case, copied as it is, in each of its repeats. In a plan for the current machine, a case that
// needs more machines is unsupported.
func (r *Resolver) Runnable(be *catalog.Backend, c *plan.Case) {
	if lack := moreMachines(c, 1); r.devices > 0 && lack != "" {
		r.Unsupported(c, lack)
		return
	}
	_, seconds := times(r.Platform, c)
	q := plan.Requested{Disposition: plan.Runnable, Case: *c, BudgetSeconds: cmp.Or(seconds, budget(estimate(r.Platform, be, c)))}
	for q.Case.Repeat = 1; q.Case.Repeat <= r.Suite.Repeats && r.err == nil; q.Case.Repeat++ {
		r.add(&q)
	}
}

// Unsupported requests a case that cannot run. detail may be empty.
func (r *Resolver) Unsupported(c *plan.Case, detail string) {
	q := plan.Requested{Disposition: plan.Unsupported, Reason: new(ReasonPlatform), Case: *c}
	if detail != "" {
		q.Detail = &detail
	}
	r.add(&q)
}

func (r *Resolver) add(q *plan.Requested) {
	if !r.filters.keepsCase(&q.Case) {
		return
	}
	if len(r.cases) == maxCases(r.filters) {
		r.err = cmp.Or(r.err, fmt.Errorf("the plan has more than %d cases; filter it", maxCases(r.filters)))
		return
	}
	r.cases = append(r.cases, *q)
	added := &r.cases[len(r.cases)-1] // q itself stays on the stack
	added.SKU, added.Case.CaseID = added.Case.SKU, added.Case.ID()
}

// maxCases returns the capacity, in cases, of the cells of all waves.
func maxCases(f Filters) int { return plan.Waves * plan.WaveCells * max(f.MaxCases, DefaultMaxCases) }

// environment merges the environment of the definitions. More specific values override more general
// ones: platform, scale-out fabric, backend, backend on platform. Variables that the backend unsets are left out.
func environment(p *catalog.Platform, be *catalog.Backend, c *plan.Case) map[string]string {
	layers := [][]catalog.Var{p.Env}
	if out := scaleOut(p, c); out != nil {
		layers = append(layers, out.Env)
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
	for _, name := range be.Unset {
		delete(env, name)
	}
	return env
}

// scaleOutTransport joins scale-up domains.
const scaleOutTransport = "rdma"

// scaleOut returns the fabric between the scale-up domains of a platform if a case uses it, or nil. A case may
// join two nodes over the fabric inside a domain.
func scaleOut(p *catalog.Platform, c *plan.Case) *catalog.ScaleOut {
	if c.Scope == vocab.ScopeOut && *c.ScaleOutTransport != p.ScaleUp.Transport {
		return p.ScaleOut
	}
	return nil
}

// place sets where world ranks of platform p run: packed onto the fewest nodes, one rank per device.
func place(c *plan.Case, p *catalog.Platform, world int) {
	c.SKU, c.World = p.SKU, world
	c.GPUsPerNode, c.ScaleUpDomain = p.GPUsPerNode, p.ScaleUp.Domain
	c.Nodes = p.Nodes(world)
	c.RanksPerNode = world / c.Nodes
	c.Scope = p.Scope(world)
	up := p.ScaleUp.Transport
	c.ScaleUpTransport, c.Transport = up, up
	switch {
	case c.Scope == vocab.ScopeOut:
		out := scaleOutTransport
		c.ScaleOutTransport = &out
		c.Transport = up + "-" + out
		c.TopologyClass = p.Product + "-" + up + "-" + out
	case up == "mnnvl":
		c.TopologyClass = fmt.Sprintf("%s-nvl%d-mnnvl", p.Product, p.ScaleUp.Domain)
	case up == "xgmi":
		c.TopologyClass = p.Product + "-xgmi"
	default:
		c.TopologyClass = p.Product + "-" + up + "-island"
	}
}
