package planner

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
)

// ErrCannot is wrapped by errors that say that the machine at hand, or the
// backend on it, cannot do what a Direct asks for.
var ErrCannot = errors.New("cannot be measured here")

// Direct is measurements that no suite asks for, with one backend and world on
// the machine at hand.
type Direct struct {
	Suite   string // what documents say in place of a suite
	Backend string
	World   int
	Repeats int               // independent runs of each case
	Env     map[string]string // on top of what the definitions give the ranks
	Budget  int               // seconds that a case may take; 0 is as for any plan
	// Cases have what is theirs: family with its block, precision, sampling and
	// contract. The rest is filled in here.
	Cases []plan.Case
}

// Resolve makes the plan of the measurements: one cell, in the order of the
// cases. A host takes as many ranks as it is asked to; of devices, each rank has
// one.
func (d Direct) Resolve(cat *catalog.Catalog, m Machine) (*plan.Matrix, error) {
	cat = m.in(cat)
	be := cat.Backend(d.Backend)
	if be == nil {
		return nil, fmt.Errorf("unknown backend %q%s", d.Backend, catalog.Hint(d.Backend, catalog.Names(cat.Backends, func(b *catalog.Backend) string { return b.Name })))
	}
	p, err := d.platform(cat, m, be)
	if err != nil {
		return nil, err
	}
	r := resolver{cat: cat}
	for _, c := range d.Cases {
		c.Suite, c.Backend, c.Repeat = d.Suite, be.Name, 1
		c.Env = environment(p, be, p.Scope(d.World))
		if len(d.Env) > 0 {
			env := maps.Clone(d.Env)
			for name, value := range c.Env {
				if _, over := env[name]; !over {
					env[name] = value
				}
			}
			c.Env = env
		}
		place(&c, p, d.World)
		switch c.Family {
		case plan.FamilyEP:
			if c, err = directEP(c, be); err != nil {
				return nil, err
			}
		default:
			if lack := lacks(be, &c); lack != "" {
				return nil, fmt.Errorf("%w: %s", ErrCannot, lack)
			}
			c.CaseID = c.ID()
		}
		if r.runnable(p, be, c, d.Repeats); r.err != nil {
			return nil, r.err
		}
	}
	out, err := join([]resolver{r})
	if err != nil {
		return nil, err
	}
	first := &d.Cases[0]
	k := key{sku: p.SKU, backend: be.Name, family: first.Family, nodes: 1}
	if first.EP() != nil {
		k.mode, k.precision = first.EP().Mode, first.Precision
	}
	cell := newCell(p, be, k, p.Scope(d.World), 1)
	for _, list := range [][]plan.Requested{out.RequestedCases, out.RequestedOther} {
		for i := range list {
			if d.Budget > 0 {
				list[i].BudgetSeconds = d.Budget
			}
			cell.CaseIDs = append(cell.CaseIDs, list[i].Case.CaseID)
		}
	}
	cell.Total, cell.Retries = 1, 0 // who asks by hand sees each failure
	out.Include = []plan.Cell{cell}
	return out, nil
}

// platform is the one that stands for the machine, and has the backend.
func (d Direct) platform(cat *catalog.Catalog, m Machine, be *catalog.Backend) (*catalog.Platform, error) {
	if g := m.GPUs; g != nil && slices.Contains(g.Backends, be.Name) && slices.Contains(be.Vendors, g.Vendor) {
		if d.World > g.Count {
			return nil, fmt.Errorf("%w: %d ranks, each with a device of its own, and this machine has %d", ErrCannot, d.World, g.Count)
		}
		return cat.Platform(g.SKU()), nil
	}
	for i := range cat.Platforms {
		if p := cat.Platforms[i]; p.Local && slices.Contains(be.Vendors, p.Vendor) {
			p.GPUsPerNode = max(p.GPUsPerNode, d.World)
			p.ScaleUp.Domain = max(p.ScaleUp.Domain, d.World)
			return &p, nil
		}
	}
	return nil, fmt.Errorf("%w: no device of this machine runs backend %s", ErrCannot, be.Name)
}

// directEP completes an EP case where the backend has what it asks for.
func directEP(c plan.Case, be *catalog.Backend) (plan.Case, error) {
	lack := ""
	switch {
	case be.EP() == nil:
		lack = fmt.Sprintf("backend %s has no dispatch and combine", be.Name)
	case be.EP().Mode(c.EP().Mode) == nil:
		lack = fmt.Sprintf("backend %s has no mode %s", be.Name, c.EP().Mode)
	case !slices.Contains(be.EP().Precisions, c.Precision):
		lack = fmt.Sprintf("backend %s has no precision %s", be.Name, c.Precision)
	case !slices.Contains(be.EP().Contracts, c.Contract):
		lack = fmt.Sprintf("backend %s has no timing contract %s", be.Name, c.Contract)
	default:
		return epCase(c, *c.EP(), be, c.EP().Mode, c.EP().Routing, c.Precision), nil
	}
	return c, fmt.Errorf("%w: %s", ErrCannot, lack)
}
