package workflow_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/workflow"
)

// GitHub's limits.
const (
	maxMatrixJobs = 256
	maxInputs     = 25
)

// full is a plan that fills every wave.
func full(id func(n int) string) *plan.Matrix {
	m := &plan.Matrix{}
	for n := range plan.Waves * plan.WaveCells {
		m.Include = append(m.Include, plan.Cell{ID: id(n), Runner: "h200-dgxc", Arch: "amd64", Minutes: 350, Wave: n / plan.WaveCells, Index: n})
	}
	return m
}

// TestWaves shows that the workflow's jobs read exactly what a full plan says:
// no cell is lost, and no matrix is larger than GitHub runs.
func TestWaves(t *testing.T) {
	outputs, err := full(func(n int) string { return fmt.Sprintf("h200-dgxc-deepep-v2-ll-fp8-n2-c%d", n) }).Outputs()
	require.NoError(t, err)
	text := string(emit(t, workflow.Options{}))
	value := map[string]string{}
	for _, o := range outputs {
		value[o.Name] = o.Value
	}

	cells := map[string]bool{}
	jobs := regexp.MustCompile(`fromJSON\(needs\.setup\.outputs\.(matrix_[0-9]+)\)`).FindAllStringSubmatch(text, -1)
	for _, job := range jobs {
		var m struct{ Include []plan.Leg }
		require.NoError(t, json.Unmarshal([]byte(value[job[1]]), &m))
		require.LessOrEqual(t, len(m.Include), maxMatrixJobs)
		require.Equal(t, fmt.Sprint(len(m.Include)), value[strings.Replace(job[1], "matrix", "count", 1)])
		for _, leg := range m.Include {
			require.False(t, cells[leg.ID], leg.ID)
			cells[leg.ID] = true
		}
	}
	require.Len(t, cells, plan.Waves*plan.WaveCells)
	for name := range value {
		require.Contains(t, text, "steps.plan.outputs."+name, "the workflow does not read it")
	}
	for _, read := range regexp.MustCompile(`steps\.plan\.outputs\.([a-z_0-9]+)`).FindAllStringSubmatch(text, -1) {
		require.Contains(t, value, read[1], "the workflow reads an output that the plan does not set")
	}
}

// A small fleet gets a workflow of one sweep job, without inputs that offer nothing to choose.
func TestSmallFleet(t *testing.T) {
	cat, err := catalog.Load(os.DirFS("../catalog/testdata/base"))
	require.NoError(t, err)
	text, err := workflow.Emit(cat, workflow.Options{})
	require.NoError(t, err)
	w := parse(t, text)
	require.Contains(t, w.Jobs, "sweep_0")
	require.NotContains(t, w.Jobs, "sweep_1")
	require.Contains(t, string(text), "--waves=1")
	for name, in := range w.On["workflow_dispatch"].(map[string]any)["inputs"].(map[string]any) {
		if in := in.(map[string]any); in["type"] == "choice" && name != planner.FilterSuite {
			require.NotEqual(t, []any{catalog.All}, in["options"], name)
		}
	}
	require.Empty(t, lint(t, text, ""))
}

func TestOutputsTooLarge(t *testing.T) {
	_, err := full(func(n int) string { return fmt.Sprintf("%0600d", n) }).Outputs()
	require.ErrorContains(t, err, "GitHub allows 1048576")
}

func TestInputs(t *testing.T) {
	var w struct {
		On struct {
			WorkflowDispatch struct {
				Inputs map[string]struct {
					Type    string
					Default any
					Options []string
				}
			} `yaml:"workflow_dispatch"`
		}
	}
	require.NoError(t, yaml.Unmarshal(emit(t, workflow.Options{}), &w))
	inputs := w.On.WorkflowDispatch.Inputs
	require.NotEmpty(t, inputs)
	require.LessOrEqual(t, len(inputs), maxInputs)
	for name, in := range inputs {
		if in.Type == "choice" {
			require.Contains(t, in.Options, in.Default, name)
		} else {
			require.Contains(t, []string{"exclude_sku", "max_cases", workflow.RequestInput}, name)
		}
	}
	require.Contains(t, inputs["sku"].Options, "mi355x")
	require.Equal(t, "number", inputs["max_cases"].Type)
}

func TestFileTooLarge(t *testing.T) {
	need.Full(t)
	cat := plantest.Shipped()
	p := cat.Platforms[0]
	for n := range 20_000 {
		p.SKU = fmt.Sprintf("pool-with-a-name-%d", n)
		cat.Platforms = append(cat.Platforms, p)
	}
	_, err := workflow.Emit(cat, workflow.Options{})
	require.ErrorContains(t, err, "GitHub takes at most 500000")
}
