package run

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
)

// TestEverySuiteRunsHere sweeps every shipped suite that the local platform is in.
// Its cases are those that ship, with few samples at their smallest sizes.
func TestEverySuiteRunsHere(t *testing.T) {
	if os.Getenv("CX_E2E") == "" {
		t.Skip("takes a minute or two: .ci/run does, or set CX_E2E=1")
	}
	const sku = "local"
	shipped, err := catalog.Load(matrix.FS)
	require.NoError(t, err)
	dir := fewSamples(t)
	swept := 0
	for _, suite := range shipped.Suites {
		if !slices.Contains(suite.Platforms, sku) {
			continue
		}
		swept++
		t.Run(suite.Name, func(t *testing.T) {
			m, err := planner.Resolve(shipped, planner.Filters{Only: planner.Only{"suite": {suite.Name}, "sku": {sku}}}, planner.Machine{})
			require.NoError(t, err)
			var want []string
			for _, q := range m.Requested() {
				if q.Disposition == plan.Runnable {
					want = append(want, q.Case.CaseID)
				}
			}
			out := filepath.Join(t.TempDir(), "out")
			code, _, stderr := cxrun(t, nil, "sweep", "--definitions", dir, "--suite", suite.Name, "--sku", sku, "--out", out)
			require.Equal(t, cli.ExitOK, code, stderr)
			docs := sweptDocuments(t, out)
			require.ElementsMatch(t, want, slices.Collect(maps.Keys(docs)))
			for id, d := range docs {
				require.Equal(t, result.Success, d.Head().Outcome.Status, id)
			}
		})
	}
	require.Positive(t, swept)
}

// fewSamples returns a copy of the shipped definitions with few samples in every
// profile, two small rungs in every ladder and one small size of every collective.
func fewSamples(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, matrix.FS))
	edit := func(name string, change func(map[string]any)) {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		var root map[string]any
		require.NoError(t, yaml.Unmarshal(data, &root))
		change(root)
		data, err = yaml.Marshal(root)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, data, 0o644))
	}
	edit("sampling.yaml", func(root map[string]any) {
		for name := range root["profiles"].(map[string]any) {
			root["profiles"].(map[string]any)[name] = map[string]any{
				"ep": map[string]any{
					"iters_per_trial": 2, "trials_per_point": 1, "warmup_iters_per_trial": 1,
					"chain_iters_per_trial": 4, "chain_trials_per_point": 1, "chain_drop": 1,
				},
				"collective": map[string]any{"warmup": 0, "iterations": 2, "trials": 1},
			}
		}
	})
	edit("workloads.yaml", func(root map[string]any) {
		for _, w := range root["workloads"].(map[string]any) {
			for phase := range w.(map[string]any)["ladders"].(map[string]any) {
				w.(map[string]any)["ladders"].(map[string]any)[phase] = []int{1, 16}
			}
		}
	})
	suites, err := filepath.Glob(filepath.Join(dir, "suites", "*.yaml"))
	require.NoError(t, err)
	for _, path := range suites {
		edit(filepath.Join("suites", filepath.Base(path)), func(root map[string]any) {
			blocks, _ := root["collective"].([]any)
			for _, b := range blocks {
				if sizes, ok := b.(map[string]any)["sizes"].(map[string]any); ok {
					sizes["from"], sizes["to"] = "1KiB", "1KiB"
				}
			}
		})
	}
	return dir
}
