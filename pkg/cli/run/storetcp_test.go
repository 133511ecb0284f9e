package run

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/slurmtest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
)

// storeSuite is a suite for platforms whose ranks meet in a store of a kind.
const storeSuite = `
platforms: [over-files, over-tcp]
sampling: smoke
ep:
  - {workload: tiny, backends: [host], degrees: [4], modes: [normal], phases: [decode], precisions: [bf16], routings: [uniform]}
collective:
  - {backends: [host], ops: [all_reduce], dtypes: [float], redops: [sum], sizes: {from: 8, to: 64KiB, factor: 8192},
     placements: [out_of_place], modes: [pipelined], buffers: [warm], registrations: [none]}
`

// A cell of two nodes runs with each kind of store.
func TestStoresOfTwoNodes(t *testing.T) {
	need.Full(t)
	if !slurmtest.Start(t, 2) {
		return
	}
	defs := fewSamples(t)
	operator := filepath.Join(t.TempDir(), "operator.yaml")
	values := "platforms:\n"
	for _, store := range []string{"files", "tcp"} {
		require.NoError(t, os.WriteFile(filepath.Join(defs, "platforms", "over-"+store+".yaml"), fmt.Appendf(nil, pairPlatform, runtime.GOARCH, "store: "+store), 0o600))
		values += fmt.Sprintf("  over-%s:\n    slurm: {partition: test}\n    storage: {stage: %s}\n", store, t.TempDir())
	}
	require.NoError(t, os.WriteFile(filepath.Join(defs, "suites", "stores.yaml"), []byte(storeSuite), 0o600))
	cat, err := catalog.Load(os.DirFS(defs))
	require.NoError(t, err)
	m, err := planHere(cat, planner.Filters{Only: planner.Only{planner.FilterSuite: {"stores"}, planner.FilterSKU: {"over-files", "over-tcp"}}},
		planner.Machine{CPU: runtime.GOARCH})
	require.NoError(t, err)
	matrix := filepath.Join(t.TempDir(), matrixFile)
	require.NoError(t, m.WriteFile(matrix))
	require.Len(t, m.Include, 4)

	shard := func(operator, id string) (code int, stderr, results string) {
		results = filepath.Join(t.TempDir(), "results")
		code, _, stderr = cxrun(t, map[string]string{operatorVariable: operator}, "shard", "--matrix", matrix, "--id", id, "--results", results)
		return code, stderr, results
	}
	require.NoError(t, os.WriteFile(operator, []byte(values), 0o600))
	code, stderr, _ := shard(operator, "over-tcp-host-collective-n2")
	require.Equal(t, cli.ExitEnvironment, code)
	wording.Has(t, stderr, "platform over-tcp … network.store_address")

	require.NoError(t, os.WriteFile(operator, []byte(values+"    network: {store_address: 127.0.0.1}\n"), 0o600))
	for _, cell := range m.Include {
		code, stderr, results := shard(operator, cell.ID)
		require.Equal(t, cli.ExitOK, code, "%s: %s", cell.ID, stderr)
		docs, err := filepath.Glob(filepath.Join(results, "*.json"))
		require.NoError(t, err)
		require.Len(t, docs, len(cell.CaseIDs))
		for _, file := range docs {
			raw := readFile(t, file)
			d, err := result.Decode(raw)
			require.NoError(t, err)
			require.Equal(t, result.Success, d.Head().Outcome.Status)
		}
	}

	// srun itself starts the ranks, without the operator values that the platform needs.
	results := filepath.Join(t.TempDir(), "results")
	srun := exec.Command("srun", "--nodes=2", "--ntasks-per-node=2", "--distribution=block", "--mpi=none", "--kill-on-bad-exit=1",
		os.Args[0], "shard", "--join", "--matrix", matrix, "--id", "over-files-host-collective-n2", "--results", results)
	srun.Env = append(os.Environ(), "CX_STORE="+t.TempDir())
	out, err := srun.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, map[string]int{"success": 1}, statuses(t, results))
}
