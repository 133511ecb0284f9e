package planner

import (
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/registry"
)

// Family is how one kind of measurement is planned; catalog.Family says how it is
// defined.
type Family struct {
	Name plan.Family
	// Filters are on fields that only cases of the family have.
	Filters []Filter
	// Cases requests the cases that a block of r.Suite asks for on r.Platform.
	Cases func(r *Resolver, block catalog.SuiteBlock)
	// Place changes where the ranks of a case run, if its family does not pack them onto as
	// few nodes as hold them; nil: it does.
	Place func(p *catalog.Platform, c *plan.Case)
	// Fit completes an ad hoc case with what the backend adds to it, in a block of
	// its own, or says what the backend lacks.
	Fit func(be *catalog.Backend, c *plan.Case) (lack string)
	// Key returns what the cases of one cell have in common besides platform, backend
	// and nodes; nil: nothing.
	Key func(c *plan.Case) Key
	// Lane returns over which lane a case moves data between two ranks, one of vocab.Lanes; nil:
	// cases of the family do not say.
	Lane func(c *plan.Case) string
	// Seconds estimates how long a case takes where each operation has that pace.
	Seconds func(c *plan.Case, pace catalog.Pace) float64
}

// Key is what the cases of one cell have in common, as their family says it. Cells
// are sorted by mode, nodes and precision.
type Key struct {
	Mode, Precision string
	// Label stands for both in ids of cells.
	Label string
}

// families stand in the order of plans.
var families = registry.New(func(f *Family) string { return string(f.Name) })

// Register adds a family; see package family. It is for init functions:
// it panics if the family is registered already, and once something was planned.
func Register(f Family) { families.Add(&f) }

// familyOf returns the family of a case, which must be registered.
func familyOf(c *plan.Case) *Family {
	f, ok := families.Find(string(c.Family))
	if !ok {
		panic("planner: no family is called " + string(c.Family))
	}
	return f
}
