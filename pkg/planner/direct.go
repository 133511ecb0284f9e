package planner

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
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
		return nil, fmt.Errorf("unknown backend %q%s", d.Backend, vocab.Hint(d.Backend, cat.Words("backend")))
	}
	p, err := d.platform(cat, m, be)
	if err != nil {
		return nil, err
	}
	r := &Resolver{Catalog: cat, Platform: p, Suite: &catalog.Suite{Name: d.Suite, Repeats: d.Repeats}}
	for _, c := range d.Cases {
		r.Place(&c, be, d.World)
		if len(d.Env) > 0 {
			env := map[string]string{}
			maps.Copy(env, c.Env)
			maps.Copy(env, d.Env)
			c.Env = env
		}
		if lack := familyOf(&c).Fit(be, &c); lack != "" {
			return nil, fmt.Errorf("%w: %s", ErrCannot, lack)
		}
		r.Runnable(be, &c)
	}
	out, err := join([]*Resolver{r})
	if err != nil {
		return nil, err
	}
	cell := newCell(p, be, keyOf(&r.cases[0].Case), p.Scope(d.World), 1)
	for q := range out.Requested() {
		if d.Budget > 0 {
			q.BudgetSeconds = d.Budget
		}
		cell.CaseIDs = append(cell.CaseIDs, q.Case.CaseID)
	}
	cell.Total, cell.Retries = 1, 0 // who asks by hand sees each failure
	out.Include = []plan.Cell{cell}
	return out, nil
}

// lane is that of the cases, empty if they name none.
func (d Direct) lane() string {
	c := &d.Cases[0]
	if of := familyOf(c).Lane; of != nil {
		return of(c)
	}
	return ""
}

// platform is the one that stands for the machine, and has the backend.
func (d Direct) platform(cat *catalog.Catalog, m Machine, be *catalog.Backend) (*catalog.Platform, error) {
	lane := d.lane()
	if g := m.GPUs; g != nil && !vocab.OfHost(lane) && slices.Contains(g.Backends, be.Name) && slices.Contains(be.Vendors, g.Vendor) {
		if d.World > g.Count {
			return nil, fmt.Errorf("%w: %d ranks, each with a device of its own, and this machine has %d", ErrCannot, d.World, g.Count)
		}
		return cat.Platform(g.SKU()), nil
	}
	if lane != "" && !vocab.OfHost(lane) && be.OnGPUs() {
		return nil, fmt.Errorf("%w: lane %s of backend %s joins the memory of GPUs, and no GPU here runs it", ErrCannot, lane, be.Name)
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
