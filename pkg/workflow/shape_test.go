package workflow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/workflow"
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
		Environment string
		Steps       []step
	}
}

type step struct {
	ID, Name, If, Uses, Run string
	Env                     map[string]string
	With                    map[string]any
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

// verifies is an error unless steps run the downloaded program after they verified
// it, and not otherwise.
func verifies(steps []step) error {
	verified := false
	for _, s := range steps {
		switch {
		case s.ID == "programs":
			verified = strings.Contains(s.Run, "sha256sum --check --strict") && s.Env["CX_DIGESTS"] == "${{ needs.setup.outputs.digests }}"
		case !strings.Contains(s.Run, "/cxrun\""):
		case !verified:
			return fmt.Errorf("step %q runs a program that nobody verified", s.Name)
		case strings.Contains(s.If, "always()") && !strings.Contains(s.If, "steps.programs.outcome == 'success'"):
			return fmt.Errorf("step %q runs a program that failed its verification", s.Name)
		}
	}
	if !verified {
		return errors.New("no step verifies the programs")
	}
	return nil
}

// TestShape holds what act does not enforce.
func TestShape(t *testing.T) {
	for form, text := range forms(t) {
		t.Run(form, func(t *testing.T) {
			w := parse(t, text)
			require.Equal(t, "CollectiveX Sweep", w.Name, "readers find runs by it")
			events, setup := []string{"workflow_dispatch"}, map[string]string{"contents": "read"}
			if form == "nights" {
				events, setup["actions"] = append([]string{"schedule"}, events...), "read"
			}
			require.Equal(t, events, slices.Sorted(maps.Keys(w.On)), "nothing but a person with write access starts a run on the fleet, or says when")
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
					require.Equal(t, setup, job.Permissions)
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
						require.Regexp(t, `^\$\{\{ always\(\) && steps\.(cell|aggregate)\.outcome != 'skipped' }}$`, s.If, "%s: %s", name, s.Name)
					}
					if s.Uses != "" {
						require.Regexp(t, `^actions/[a-z-]+@[0-9a-f]{40}$`, s.Uses)
					}
				}
			}
			require.Equal(t, plan.Waves, sweeps)
			for _, name := range slices.Sorted(maps.Keys(w.Jobs)) {
				require.Empty(t, w.Jobs[name].Environment, name)
				if name != "setup" {
					require.NoError(t, verifies(w.Jobs[name].Steps), name)
				}
			}
			require.Equal(t, "${{ always() && needs.setup.result == 'success' }}", w.Jobs["aggregate"].If)
		})
	}
}

// TestEnvironment: where a platform names an environment, cells run in that of
// their platform, and no other job does.
func TestEnvironment(t *testing.T) {
	cat := plantest.Shipped()
	cat.Platform("h200-dgxc").Environment = "gpu-fleet"
	text, err := workflow.Emit(cat, workflow.Options{})
	require.NoError(t, err)
	require.Empty(t, lint(t, text, ""))
	for name, job := range parse(t, text).Jobs {
		want := ""
		if strings.HasPrefix(name, "sweep_") {
			want = "${{ matrix.environment }}"
		}
		require.Equal(t, want, job.Environment, name)
	}

	m, err := planner.Resolve(cat, planner.Filters{Only: planner.Only{"suite": {"collectives-core", "smoke"}}}, planner.Machine{})
	require.NoError(t, err)
	outputs, err := m.Outputs()
	require.NoError(t, err)
	require.Equal(t, "matrix_0", outputs[0].Name)
	var legs struct{ Include []plan.Leg }
	require.NoError(t, json.Unmarshal([]byte(outputs[0].Value), &legs))
	named := 0
	for _, leg := range legs.Include {
		if strings.HasPrefix(leg.ID, "h200-dgxc-") {
			named++
			require.Equal(t, "gpu-fleet", leg.Environment)
		} else {
			require.Empty(t, leg.Environment)
		}
	}
	require.NotZero(t, named)
}
