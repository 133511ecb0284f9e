package run

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/simulation"
)

// Two sweeps of simulated cases, with other variables of ranks around them, give the same
// figures byte by byte, and comparison keys. The cell has no ranks to fail or to join.
func TestSimulatedSweep(t *testing.T) {
	need.Full(t)
	figures := func() map[string]string {
		out := filepath.Join(t.TempDir(), "out")
		ran(t, cli.ExitOK, nil, "sweep", "--suite", "schedule-simulated", "--out", out)
		found := map[string]string{}
		for id, d := range sweptDocuments(t, out) {
			require.Equal(t, simulation.Family.Result.Records[0].Type, d.Head().RecordType)
			text, err := result.Encode(d.(*simulation.Document).Simulation)
			require.NoError(t, err)
			found[id] = d.Head().ComparisonKey + " " + string(text)
		}
		return found
	}
	first := figures()
	t.Setenv("NCCL_ALGO", "Ring")
	require.Equal(t, first, figures())

	file := filepath.Join(t.TempDir(), matrixFile)
	cat := plantest.Shipped()
	m, err := planHere(cat, planner.Filters{Only: planner.Only{planner.FilterSuite: {"schedule-simulated"}}}, planner.Machine{CPU: runtime.GOARCH})
	require.NoError(t, err)
	require.Len(t, first, len(slices.Collect(m.Requested())))
	require.NoError(t, m.WriteFile(file))
	_, stderr := ran(t, cli.ExitUsage, nil, "shard", "--join", "--matrix", file, "--id", "local-simulator-simulation-n1", "--results", t.TempDir())
	require.Contains(t, stderr, "cell local-simulator-simulation-n1 has no ranks, so no process can join as one: leave out --join")
	_, stderr = ran(t, cli.ExitUsage, map[string]string{"CX_FAULT": "case=*,rank=0,kind=exit"}, "sweep", "--suite", "schedule-simulated", "--out", t.TempDir())
	require.Contains(t, stderr, "matches nothing")
}

// A suite can name the file that 'bench p2p --model' wrote.
func TestSweepWithAMeasuredModel(t *testing.T) {
	need.Full(t)
	defs := t.TempDir()
	require.NoError(t, os.CopyFS(defs, matrix.FS))
	require.NoError(t, os.Mkdir(filepath.Join(defs, "models"), 0o755))
	ran(t, cli.ExitOK, nil, "bench", "p2p", "--backend", "host", "-g", "2", "-b", "1K", "-e", "8K", "-f", "2", "--trials", "1", "-n", "4", "--model", filepath.Join(defs, "models", "host.yaml"))
	suite, err := yaml.Marshal(map[string]any{"platforms": []string{"local"}, "sampling": "smoke", "simulation": []any{map[string]any{
		"backends": []string{"simulator"}, "op": "all_gather", "algorithms": []string{"ring"}, "worlds": []int{2}, "topologies": []string{"full"},
		"models": map[string]any{"host": map[string]any{"file": "models/host.yaml"}}, "sizes": map[string]any{"from": "4KiB", "to": "8KiB", "factor": 2},
	}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(defs, "suites", "mine.yaml"), suite, 0o644))
	out := filepath.Join(t.TempDir(), "out")
	ran(t, cli.ExitOK, nil, "sweep", "--definitions", defs, "--suite", "mine", "--out", out)
	docs := sweptDocuments(t, out)
	require.Len(t, docs, 1)
	for _, d := range docs {
		s := d.(*simulation.Document).Simulation
		require.Len(t, s.Rows, 2)
		require.NotEmpty(t, s.Model.Source)
		pairs := simulation.Of(&d.Head().Identity.Case).Model.Pairs
		require.Len(t, pairs, 2)
	}
}
