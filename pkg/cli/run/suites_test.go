package run

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// TestEverySuiteRunsHere runs every shipped suite that the local platform is in: of its
// cases, as the planner makes them, as few as show every value of every field, with few
// samples at their smallest sizes.
func TestEverySuiteRunsHere(t *testing.T) {
	need.Full(t)
	const sku = "local"
	cat, err := catalog.Load(os.DirFS(fewSamples(t)))
	require.NoError(t, err)
	swept := 0
	for _, suite := range cat.Suites {
		if !slices.Contains(suite.Platforms, sku) {
			continue
		}
		swept++
		t.Run(suite.Name, func(t *testing.T) {
			m, err := planHere(cat, planner.Filters{Only: planner.Only{"suite": {suite.Name}, "sku": {sku}}}, planner.Machine{CPU: runtime.GOARCH})
			require.NoError(t, err)
			want := keepEveryValue(t, m)
			out := t.TempDir()
			require.NoError(t, m.WriteFile(filepath.Join(out, matrixFile)))
			ran(t, cli.ExitOK, nil, "sweep", "--resume", out)
			docs := sweptDocuments(t, out)
			require.ElementsMatch(t, want, slices.Collect(maps.Keys(docs)))
			for id, d := range docs {
				require.Equal(t, result.Success, d.Head().Outcome.Status, id)
			}
		})
	}
	require.Positive(t, swept)
}

// keepEveryValue leaves in m each runnable case in which a field has a value that it has
// in no case before, and returns their ids.
func keepEveryValue(t *testing.T, m *plan.Matrix) (ids []string) {
	t.Helper()
	seen := map[string]bool{}
	drop := func(q plan.Requested) bool {
		if q.Disposition != plan.Runnable {
			return true
		}
		text, err := json.Marshal(q.Case)
		require.NoError(t, err)
		var fields map[string]any
		require.NoError(t, json.Unmarshal(text, &fields))
		delete(fields, "case_id")
		before := len(seen)
		for name, value := range fields {
			seen[fmt.Sprint(name, "=", value)] = true
		}
		if len(seen) > before {
			ids = append(ids, q.Case.CaseID)
			return false
		}
		return true
	}
	m.RequestedCases = slices.DeleteFunc(m.RequestedCases, drop)
	m.RequestedOther = slices.DeleteFunc(m.RequestedOther, drop)
	for i := range m.RequestedCases {
		m.RequestedCases[i].BudgetSeconds *= 10 // budgets are for a machine that does nothing else
	}
	for i := range m.Include {
		cell := &m.Include[i]
		cell.CaseIDs = slices.DeleteFunc(cell.CaseIDs, func(id string) bool { return !slices.Contains(ids, id) })
	}
	m.Include = slices.DeleteFunc(m.Include, func(c plan.Cell) bool { return len(c.CaseIDs) == 0 })
	return ids
}

// fewSamples returns a copy of the shipped definitions with few samples in every
// profile, two small rungs in every ladder, one small size of every collective, one
// burst of every transfer, the smallest size of every copy and overlap, and few blocks of every swap. Of a suite's blocks
// of collectives the last alone empties caches, which takes a second a case where they are
// large.
func fewSamples(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, matrix.FS))
	edit := func(name string, change func(map[string]any)) {
		path := filepath.Join(dir, name)
		data := readFile(t, path)
		var root map[string]any
		require.NoError(t, yaml.Unmarshal(data, &root))
		change(root)
		data, err := yaml.Marshal(root)
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
				"transfer":   map[string]any{"warmup": 0, "reps": 1, "trials": 1, "sustain_ms": 1},
				"copy":       map[string]any{"warmup": 0, "copies": 1, "windows": 1, "swap_warmup": 0, "swaps": 1},
				"overlap":    map[string]any{"warmup": 0, "iterations": 1},
			}
		}
	})
	edit("workloads.yaml", func(root map[string]any) {
		for _, w := range root["workloads"].(map[string]any) {
			for phase := range w.(map[string]any)["ladders"].(map[string]any) {
				w.(map[string]any)["ladders"].(map[string]any)[phase] = []int{1, 4}
			}
		}
	})
	suites, err := filepath.Glob(filepath.Join(dir, "suites", "*.yaml"))
	require.NoError(t, err)
	for _, path := range suites {
		edit(filepath.Join("suites", filepath.Base(path)), func(root map[string]any) {
			experts, _ := root["ep"].([]any)
			for _, b := range experts {
				ladders, _ := b.(map[string]any)["ladders"].(map[string]any)
				for phase := range ladders {
					ladders[phase] = []int{1, 4}
				}
			}
			transfers, _ := root["transfer"].([]any)
			for _, b := range transfers {
				b.(map[string]any)["isl"], b.(map[string]any)["batches"] = []int{256}, []int{1}
				b.(map[string]any)["page_tokens"] = []int{256}
				b.(map[string]any)["sampling"] = "smoke"
			}
			copies, _ := root["copy"].([]any)
			overlaps, _ := root["overlap"].([]any)
			for _, b := range slices.Concat(copies, overlaps) {
				if swap, ok := b.(map[string]any)["swap"].(map[string]any); ok {
					swap["num_blocks"] = []int{1, 4}
				} else {
					sizes := b.(map[string]any)["sizes"].(map[string]any)
					sizes["to"] = sizes["from"]
				}
			}
			blocks, _ := root["collective"].([]any)
			for i, b := range blocks {
				if i < len(blocks)-1 {
					b.(map[string]any)["buffers"] = []string{vocab.Warm}
				}
				if sizes, ok := b.(map[string]any)["sizes"].(map[string]any); ok {
					sizes["from"], sizes["to"] = "1KiB", "1KiB"
				}
			}
		})
	}
	return dir
}
