package collective_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/planner"
)

var mine = planner.Filters{Only: planner.Only{"suite": {"mine"}}}

// withCTAs is the shipped definitions with a suite of algorithms and numbers of CTAs.
func withCTAs(op, backend, ctas string) (*catalog.Catalog, error) {
	defs := plantest.Definitions()
	platform := map[string]string{"nccl": "h100-dgxc", "host": "local"}[backend]
	defs["suites/mine.yaml"] = &fstest.MapFile{Data: []byte(strings.NewReplacer("PLATFORM", platform, "BACKEND", backend, "OP", op).Replace(`platforms: [PLATFORM]
sampling: smoke
collective:
  - backends: [BACKEND]
    ops: [OP]
    dtypes: [float]
    redops: [sum]
    sizes: {from: 1MiB, to: 1MiB, factor: 2}
    placements: [out_of_place]
    modes: [pipelined]
    buffers: [shifted]
    registrations: [none]
`) + ctas)}
	return catalog.Load(defs)
}

// Numbers of CTAs are a factor of a suite's cases, beside algorithms: in the id and, for the library, in the environment.
func TestSuitesHaveCTAs(t *testing.T) {
	cat, err := withCTAs("all_reduce", "nccl", "    algorithms: [ring_ll]\n    ctas: [0, 8]\n")
	require.NoError(t, err)
	env := map[string]string{}
	for q := range plantest.Resolve(cat, mine).Requested() {
		if c := q.Case; c.World == 2 {
			env[strings.TrimPrefix(c.CaseID, "h100-dgxc-nccl-all-reduce-float-sum-w2-shifted")] = c.Env["NCCL_ALGO"] + c.Env["NCCL_MIN_CTAS"] + c.Env["NCCL_MAX_CTAS"]
		}
	}
	require.Equal(t, map[string]string{"": "", "-ctas8": "88", "-algo-ring-ll": "Ring", "-algo-ring-ll-ctas8": "Ring88"}, env)
}

// What a backend does not let an operation choose is unsupported, and numbers that no library takes are refused.
func TestCTAsThatNothingTakes(t *testing.T) {
	for op, backend := range map[string]string{"all_reduce": "host", "alltoall": "nccl"} {
		cat, err := withCTAs(op, backend, "    ctas: [8]\n")
		require.NoError(t, err)
		for q := range plantest.Resolve(cat, mine).Requested() {
			require.Equal(t, 8, collective.Of(&q.Case).CTAs)
			_, detail := q.Why()
			require.Contains(t, detail, "does not let "+op+" choose its number of CTAs")
		}
	}
	for _, list := range []string{"[65]", "[-1]", "[]", "[8, 8]"} {
		_, err := withCTAs("all_reduce", "nccl", "    ctas: "+list+"\n")
		wording.Has(t, err.Error(), "suites/mine.yaml:13:")
	}
	_, err := withCTAs("all_reduce", "nccl", "    ctas: [64]\n")
	require.NoError(t, err)
	require.Equal(t, 64, collective.MaxCTAs, "the limit of the key")
}
