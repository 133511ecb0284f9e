package simulation_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	"github.com/collectivex/collectivex/pkg/simulation"
)

// A simulation says that it is one, how its program was verified, and which model it follows
// from; its parts make its makespan, and it has nothing that only ranks can have.
func TestFieldsAgree(t *testing.T) {
	for want, damage := range map[string]func(*simulation.Document){
		"simulation.origin is":            func(d *simulation.Document) { d.Simulation.Origin = "measured" },
		"verification is \"\"":            func(d *simulation.Document) { d.Simulation.Verification = "" },
		"program is null":                 func(d *simulation.Document) { d.Simulation.Program = nil },
		"simulation.model does not match": func(d *simulation.Document) { d.Simulation.Model.SHA256 = strings.Repeat("0", 64) },
		"critical path take":              func(d *simulation.Document) { d.Simulation.Rows[0].Path.Reduce++ },
		"makespan of 0 ps":                func(d *simulation.Document) { d.Simulation.Rows[0].Makespan = 0 },
		"latency takes -1 ps":             func(d *simulation.Document) { d.Simulation.Rows[0].Path.Latency = -1 },
		"has 9 messages":                  func(d *simulation.Document) { d.Simulation.Rows[0].Messages++ },
		"was not requested":               func(d *simulation.Document) { d.Simulation.Rows[0].Bytes++ },
		"out of order":                    func(d *simulation.Document) { d.Simulation.Rows[1] = d.Simulation.Rows[0] },
		"with 1 rows of 5":                func(d *simulation.Document) { d.Simulation.Rows = d.Simulation.Rows[:1] },
		"op, algorithm or":                func(d *simulation.Document) { d.Simulation.Topology = "ring" },
		"entry_skew and limits":           func(d *simulation.Document) { d.Limits = []result.Limit{} },
		"no results to check": func(d *simulation.Document) {
			d.Outcome = result.Outcome{Status: result.Invalid, Reasons: resulttest.Reasons("check-failed")}
		},
		"the case's \"bought\"": func(d *simulation.Document) { simulation.Of(&d.Identity.Case).Origin = "bought" },
	} {
		d := resulttest.Simulation(plantest.Simulation(), resulttest.Attempt())
		require.NoError(t, result.Validate(d))
		damage(d)
		require.ErrorContains(t, result.Validate(d), want)
	}
}

// The comparison key of a simulation has its origin and the figures of its model, wherever they
// come from and whatever they are called; that of no measurement equals it.
func TestKeys(t *testing.T) {
	key := func(change func(*plan.Case)) string {
		k, err := result.ComparisonKey(plantest.Simulation(change), nil)
		require.NoError(t, err)
		return k
	}
	same := key(func(*plan.Case) {})
	require.NotEqual(t, same, key(func(c *plan.Case) { simulation.Of(c).Model.Pairs = []simulate.Pair{{Src: 0, Dst: 1}} }))
	c := plantest.Simulation()
	factors, err := result.ComparisonFactors(c, nil)
	require.NoError(t, err)
	require.Equal(t, `"simulated"`, factors["simulation.origin"])
	require.Equal(t, `"`+simulation.Of(&c).Model.SHA256()+`"`, factors["simulation.model_sha256"])
	measured := plantest.Schedules(8, 2)
	require.NotEmpty(t, measured)
	for _, c := range measured { // as alike as the two families can be
		c.Backend, c.Precision, c.Contract, c.Sampling = "simulator", "", simulation.Contract, ""
		c.TopologyClass, c.ScaleUpTransport, c.Transport = simulation.Simulated, simulation.Simulated, simulation.Simulated
		c.GPUsPerNode, c.ScaleUpDomain = c.World, c.World
		k, err := result.ComparisonKey(c, nil)
		require.NoError(t, err)
		require.NotEqual(t, same, k)
	}
}
