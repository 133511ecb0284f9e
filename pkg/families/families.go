// Package families lists the families of measurements. Whoever reads definitions, cases or
// documents imports it.
package families

import (
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/simulation"
	"github.com/collectivex/collectivex/pkg/steps"
	"github.com/collectivex/collectivex/pkg/transfer"
)

// They are in the order of plans, tables and messages.
func init() {
	for _, f := range []family.Family{
		ep.Family,
		collective.Family,
		transfer.Family,
		steps.Family,
		copies.Family,
		overlap.Family,
		simulation.Family,
	} {
		family.Register(f)
	}
}
