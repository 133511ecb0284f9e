// Package plantest plans cases for tests from the shipped definitions.
package plantest

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
)

// EP returns the EP case of the smoke suite at this number of ranks: bf16 in normal mode
// on the host backend. Each change may make anything of it, valid or not; the id follows.
func EP(ranks int, change ...func(*plan.Case)) plan.Case {
	return place(plan.FamilyEP, ranks, change)
}

// Collective returns the all_reduce of the smoke suite at this number of ranks: a float
// sum on the host backend. Changes are as in EP.
func Collective(ranks int, change ...func(*plan.Case)) plan.Case {
	return place(plan.FamilyCollective, ranks, change)
}

const suite = "smoke"

var shipped = sync.OnceValue(func() *catalog.Catalog {
	cat, err := catalog.Load(matrix.FS)
	if err != nil {
		panic(err)
	}
	return cat
})

// place has the planner place the suite's first case of a family on the local platform.
func place(family plan.Family, ranks int, change []func(*plan.Case)) plan.Case {
	d := planner.Direct{Suite: suite, Backend: "host", World: ranks, Repeats: 1, Cases: []plan.Case{first(family, smoke)}}
	if e := d.Cases[0].EP(); e != nil {
		e.EPSize = ranks
	}
	c := first(family, d.Resolve)
	for _, f := range change {
		f(&c)
	}
	if c.Block != nil {
		c.CaseID = c.ID()
	}
	return c
}

func smoke(cat *catalog.Catalog, m planner.Machine) (*plan.Matrix, error) {
	return planner.Resolve(cat, planner.Filters{Only: planner.Only{planner.FilterSuite: {suite}}}, m)
}

// first returns a copy of the first case of a family, since the cases of a plan share what
// is equal in them.
func first(family plan.Family, resolve func(*catalog.Catalog, planner.Machine) (*plan.Matrix, error)) plan.Case {
	m, err := resolve(shipped(), planner.Machine{})
	if err != nil {
		panic(err)
	}
	for q := range m.Requested() {
		if q.Case.Family != family {
			continue
		}
		var c plan.Case
		text, err := json.Marshal(q.Case)
		if err == nil {
			err = json.Unmarshal(text, &c)
		}
		if err != nil {
			panic(err)
		}
		return c
	}
	panic(fmt.Sprintf("suite %s has no case of family %s", suite, family))
}
