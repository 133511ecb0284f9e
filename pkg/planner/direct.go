package planner

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// ErrCannot is wrapped if the current machine, or the backend on it, cannot measure a Direct.
var ErrCannot = errors.New("cannot be measured here")

// Direct describes ad hoc measurements, outside of suites, with one backend and world on the current
// machine.
type Direct struct {
	Suite   string // used by documents in place of a suite
	Backend string
	World   int
	Repeats int // independent runs of each case
	Budget  int // maximum seconds of a case; 0: as for any plan
	// Cases set family with its block, precision, sampling and contract, and the environment that they
	// need in addition to that of the definitions. Resolve sets the other fields.
	Cases []plan.Case
}

// Resolve plans the measurements: one cell, in the order of the cases. A host accepts any number of
// ranks; otherwise each rank needs a device of its own.
func (d Direct) Resolve(cat *catalog.Catalog, m Machine) (*plan.Matrix, error) {
	cat = m.in(cat)
	be := cat.Backend(d.Backend)
	if be == nil {
		return nil, fmt.Errorf("unknown backend %q%s", d.Backend, vocab.Hint(d.Backend, cat.Words("backend")))
	}
	p, err := d.platform(cat, m, be)
	if err != nil {
		return nil, err
	}
	r := &Resolver{Catalog: cat, Platform: p, Suite: &catalog.Suite{Name: d.Suite, Repeats: d.Repeats}}
	for _, c := range d.Cases {
		own := c.Env
		r.Place(&c, be, d.World)
		c.Env = With(c.Env, own)
		if lack := cmp.Or(familyOf(&c).Fit(be, &c), moreMachines(&c, m.Nodes)); lack != "" {
			return nil, fmt.Errorf("%w: %s", ErrCannot, lack)
		}
		r.Runnable(be, &c)
	}
	out, err := join([]*Resolver{r})
	if err != nil {
		return nil, err
	}
	first := &r.cases[0].Case
	cell := newCell(p, be, keyOf(first), first, 1)
	for q := range out.Requested() {
		if d.Budget > 0 {
			q.BudgetSeconds = d.Budget
		}
		cell.CaseIDs = append(cell.CaseIDs, q.Case.CaseID)
	}
	cell.Total, cell.Retries = 1, 0 // ad hoc users should see each failure
	out.Include = []plan.Cell{cell}
	return out, nil
}

// With returns an environment with the variables of more, which override its own.
func With(env, more map[string]string) map[string]string {
	if len(more) == 0 {
		return env
	}
	out := maps.Clone(more)
	for name, value := range env {
		if _, is := more[name]; !is {
			out[name] = value
		}
	}
	return out
}

// lane returns the lane of the cases, or "" if they name none.
func (d Direct) lane() string {
	c := &d.Cases[0]
	if of := familyOf(c).Lane; of != nil {
		return of(c)
	}
	return ""
}

// platform returns the platform that represents the machine and has the backend.
func (d Direct) platform(cat *catalog.Catalog, m Machine, be *catalog.Backend) (*catalog.Platform, error) {
	lane := d.lane()
	if g := m.GPUs; g != nil && !vocab.OfHost(lane) && slices.Contains(g.Backends, be.Name) && slices.Contains(be.Vendors, g.Vendor) {
		if d.World > g.Count*max(1, m.Nodes) {
			return nil, fmt.Errorf("%w: %d ranks, each with a device of its own, and this machine has %d", ErrCannot, d.World, g.Count)
		}
		return m.over(cat, d.World, cat.Platform(g.SKU())), nil
	}
	if lane != "" && !vocab.OfHost(lane) && be.OnGPUs() {
		return nil, fmt.Errorf("%w: lane %s of backend %s joins the memory of GPUs, and no GPU here runs it", ErrCannot, lane, be.Name)
	}
	for i := range cat.Platforms {
		if p := cat.Platforms[i]; p.Local && slices.Contains(be.Vendors, p.Vendor) {
			p.GPUsPerNode = max(p.GPUsPerNode, d.World)
			p.ScaleUp.Domain = max(p.ScaleUp.Domain, d.World)
			return m.over(cat, d.World, &p), nil
		}
	}
	return nil, fmt.Errorf("%w: no device of this machine runs backend %s", ErrCannot, be.Name)
}

// over returns a platform on whose nodes world ranks are spread evenly over the machines. A scale-up domain is a node,
// unless a platform of cat with the same product has larger ones.
func (m Machine) over(cat *catalog.Catalog, world int, p *catalog.Platform) *catalog.Platform {
	if m.Nodes < 2 {
		return p
	}
	out := *p
	out.GPUsPerNode = world / m.Nodes
	out.ScaleUp.Domain = out.GPUsPerNode
	out.ScaleOut = &catalog.ScaleOut{Pace: p.ScaleUp.Pace} // used only for budgets
	for i := range cat.Platforms {
		q := &cat.Platforms[i]
		if q.Vendor == p.Vendor && q.Product == p.Product && q.ScaleUp.Domain > q.GPUsPerNode {
			out.ScaleUp.Domain, out.ScaleUp.Transport = q.ScaleUp.Domain, q.ScaleUp.Transport
		}
	}
	return &out
}
