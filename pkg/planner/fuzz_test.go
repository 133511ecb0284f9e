package planner_test

import (
	"io/fs"
	"maps"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
)

// FuzzResolve plans any suite that the loader lets pass: planning never panics,
// and what is planned fits into the outputs of a job.
func FuzzResolve(f *testing.F) {
	defs := plantest.Definitions()
	suites, err := fs.Glob(defs, "suites/*.yaml")
	require.NoError(f, err)
	for _, s := range suites {
		f.Add(defs[s].Data)
	}
	f.Fuzz(func(t *testing.T, suite []byte) {
		own := maps.Clone(defs)
		own["suites/fuzz.yaml"] = &fstest.MapFile{Data: suite}
		cat, err := catalog.Load(own)
		if err != nil {
			return
		}
		m, err := planner.Resolve(cat, planner.Filters{Only: planner.Only{"suite": {"fuzz"}}}, planner.Machine{})
		if err != nil {
			return
		}
		m.Generator = plan.Generator{Program: "cxgen", Version: "v1", Format: plan.Format}
		_, err = m.Outputs()
		require.NoError(t, err)
	})
}
