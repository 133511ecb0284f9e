package fleet_test

import (
	"maps"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/fleet"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
)

// runnable returns the runnable cases of a plan.
func runnable(t *testing.T, cat *catalog.Catalog, f planner.Filters) []string {
	t.Helper()
	m, err := planner.Resolve(cat, f, planner.Machine{})
	require.NoError(t, err)
	var out []string
	for q := range m.Requested() {
		if q.Disposition == plan.Runnable {
			out = append(out, q.Case.CaseID)
		}
	}
	slices.Sort(out)
	return out
}

// Whatever is missing is covered, each case once, by dispatches that run what they say and
// that GitHub's inputs can express; the cases of a whole platform cost nothing besides.
func TestCovers(t *testing.T) {
	cat := plantest.Shipped()
	every := runnable(t, cat, planner.Filters{})
	random := rand.New(rand.NewSource(1))
	for n := 1; n < 30; n *= 3 {
		var wanted []string
		for _, i := range random.Perm(len(every))[:n] {
			wanted = append(wanted, every[i])
		}
		covers, gone, err := fleet.Covers(cat, append(wanted, "of-an-older-plan"))
		require.NoError(t, err)
		require.Equal(t, []string{"of-an-older-plan"}, gone)
		covered := map[string]bool{}
		for _, c := range covers {
			require.Equal(t, runnable(t, cat, c.Filters), slices.Sorted(slices.Values(slices.Concat(c.Cases, c.Others))), c.Filters.Only)
			for _, id := range c.Cases {
				require.False(t, covered[id], id)
				covered[id] = true
			}
			for name, values := range c.Filters.Only {
				require.Len(t, values, 1, name)
			}
		}
		require.ElementsMatch(t, wanted, slices.Collect(maps.Keys(covered)))
	}

	pool := runnable(t, cat, planner.Filters{Only: planner.Only{"suite": {"ep-core"}, "sku": {"mi355x"}}})
	covers, gone, err := fleet.Covers(cat, pool)
	require.NoError(t, err)
	require.Empty(t, gone)
	for _, c := range covers {
		require.Empty(t, c.Others)
	}
}
