package planner

import (
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/registry"
)

// Family describes how one kind of measurement is planned; see also catalog.Family.
type Family struct {
	Name plan.Family
	// Filters select by fields that only cases of the family have.
	Filters []Filter
	// Cases requests the cases of a block of r.Suite on r.Platform.
	Cases func(r *Resolver, block catalog.SuiteBlock)
	// Place overrides where the ranks of a case run; nil: packed onto the fewest nodes.
	Place func(p *catalog.Platform, c *plan.Case)
	// Fit adds backend-specific values to the block of an ad hoc case, or returns what the backend
	// lacks.
	Fit func(be *catalog.Backend, c *plan.Case) (lack string)
	// Key returns what the cases of one cell have in common besides platform, backend
	// and nodes; nil: nothing.
	Key func(c *plan.Case) Key
	// Lane returns the lane, one of vocab.Lanes, over which a case moves data between two ranks; nil:
	// cases of the family do not name it.
	Lane func(c *plan.Case) string
	// Seconds estimates the time of a case if each operation has the given pace.
	Seconds func(c *plan.Case, pace catalog.Pace) float64
	// Times returns the job timeout of the cell of a case in minutes, and the seconds after which the case
	// counts as hung; zero, or nil: by Seconds. A case that has them has its cell to itself.
	Times func(p *catalog.Platform, c *plan.Case) (minutes, seconds int)
}

// times is Times.
func times(p *catalog.Platform, c *plan.Case) (minutes, seconds int) {
	if own := familyOf(c).Times; own != nil {
		return own(p, c)
	}
	return 0, 0
}

// Key is the family's part of what the cases of one cell have in common. Cells are sorted by mode,
// nodes and precision.
type Key struct {
	Mode, Precision string
	// Label represents both in ids of cells.
	Label string
}

// families are in the order of plans.
var families = registry.New(func(f *Family) string { return string(f.Name) })

// Register adds a family; see package family. Call it from init functions only: it panics if the family
// is already registered, and once something was planned.
func Register(f Family) { families.Add(&f) }

// familyOf returns the family of a case, which must be registered.
func familyOf(c *plan.Case) *Family {
	f, ok := families.Find(string(c.Family))
	if !ok {
		panic("planner: no family is called " + string(c.Family))
	}
	return f
}
