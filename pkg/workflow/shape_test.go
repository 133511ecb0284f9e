package workflow_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/pkg/plan"
)

// shape is what the tests read of a workflow.
type shape struct {
	Name        string
	On          map[string]any
	Permissions map[string]string
	Concurrency concurrency
	Jobs        map[string]struct {
		If             string
		Needs          any
		Permissions    map[string]string
		Concurrency    *concurrency
		TimeoutMinutes any `yaml:"timeout-minutes"`
		Strategy       *struct {
			FailFast    *bool `yaml:"fail-fast"`
			MaxParallel any   `yaml:"max-parallel"`
			Matrix      string
		}
		Steps []struct {
			Name, If, Uses string
			With           map[string]any
		}
	}
}

type concurrency struct {
	Group  string
	Cancel *bool `yaml:"cancel-in-progress"`
}

func parse(t *testing.T, text []byte) shape {
	t.Helper()
	var w shape
	require.NoError(t, yaml.Unmarshal(text, &w))
	return w
}

// TestShape holds what act does not enforce.
func TestShape(t *testing.T) {
	for form, text := range forms(t) {
		t.Run(form, func(t *testing.T) {
			w := parse(t, text)
			require.Equal(t, "CollectiveX Sweep", w.Name, "readers find runs by it")
			require.Len(t, w.On, 1, "nothing but a person with write access starts a run on the fleet")
			require.Contains(t, w.On, "workflow_dispatch")
			require.NotNil(t, w.Permissions)
			require.Empty(t, w.Permissions)
			require.Contains(t, w.Concurrency.Group, "${{ github.run_id }}", "a group of its own")
			require.False(t, *w.Concurrency.Cancel)

			sweeps := 0
			for name, job := range w.Jobs {
				require.NotNil(t, job.TimeoutMinutes, name)
				require.Nil(t, job.Concurrency, name)
				require.NotNil(t, job.Permissions, name)
				if name == "setup" {
					require.Equal(t, map[string]string{"contents": "read"}, job.Permissions)
				} else {
					require.Empty(t, job.Permissions, name)
				}
				if wave, ok := strings.CutPrefix(name, "sweep_"); ok {
					sweeps++
					require.Equal(t, "${{ needs.setup.outputs.count_"+wave+" != '0' }}", job.If)
					require.Equal(t, "${{ fromJSON(needs.setup.outputs.matrix_"+wave+") }}", job.Strategy.Matrix)
					require.False(t, *job.Strategy.FailFast, name)
					require.Nil(t, job.Strategy.MaxParallel, name)
					require.Equal(t, "${{ matrix.minutes }}", job.TimeoutMinutes)
					require.Contains(t, w.Jobs["aggregate"].Needs, name)
				}
				for _, s := range job.Steps {
					switch {
					case strings.HasPrefix(s.Uses, "actions/checkout@"):
						require.Equal(t, false, s.With["persist-credentials"])
						require.Equal(t, "setup", name, "no other job runs what it checks out")
					case strings.HasPrefix(s.Uses, "actions/upload-artifact@") && name != "setup":
						require.Equal(t, "${{ always() }}", s.If, "%s: %s", name, s.Name)
					}
					if s.Uses != "" {
						require.Regexp(t, `^actions/[a-z-]+@[0-9a-f]{40}$`, s.Uses)
					}
				}
			}
			require.Equal(t, plan.Waves, sweeps)
			require.Equal(t, "${{ always() && needs.setup.result == 'success' }}", w.Jobs["aggregate"].If)
		})
	}
}
