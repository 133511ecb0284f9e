// Package families lists the families of measurements. Whoever reads definitions, cases or
// documents imports it.
package families

import (
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/simulation"
	"github.com/collectivex/collectivex/pkg/transfer"
)

// Their order is that of plans, tables and messages.
func init() {
	for _, f := range []family.Family{
		ep.Family,
		{Plan: plan.CollectiveFamily, Catalog: catalog.CollectiveFamily, Planner: planner.CollectiveFamily, Result: result.CollectiveFamily},
		transfer.Family,
		{Plan: plan.ScheduleFamily, Catalog: catalog.ScheduleFamily, Planner: planner.ScheduleFamily, Result: result.ScheduleFamily},
		copies.Family,
		overlap.Family,
		simulation.Family,
	} {
		family.Register(f)
	}
}
