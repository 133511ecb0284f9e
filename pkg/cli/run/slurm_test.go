package run

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/slurmtest"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
)

// onSlurm makes a matrix whose cells start their ranks through Slurm, and the file of
// operator values that they need.
func onSlurm(t *testing.T) (matrix, operator string) {
	t.Helper()
	path := planned(t)
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var m plan.Matrix
	require.NoError(t, json.Unmarshal(raw, &m))
	for i := range m.Include {
		m.Include[i].Launcher = "slurm"
		m.Include[i].Launch = plan.Launch{Salloc: []string{"--exclusive"}, Requires: []string{"slurm.partition", "storage.stage"}}
	}
	raw, err = json.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	operator = filepath.Join(t.TempDir(), "operator.yaml")
	require.NoError(t, os.WriteFile(operator, fmt.Appendf(nil, "platforms:\n  local:\n    slurm: {partition: test}\n    storage: {stage: %s}\n", t.TempDir()), 0o600))
	return path, operator
}

// The ranks of a cell run in a Slurm allocation, which ends with the cell.
func TestCellOnSlurm(t *testing.T) {
	if !slurmtest.Start(t, 2) {
		return
	}
	matrix, operator := onSlurm(t)
	cell := func(env map[string]string, results string) (int, string) {
		code, _, stderr := cxrun(t, env, "shard", "--matrix", matrix, "--id", "local-host-bf16-n1", "--results", results)
		return code, stderr
	}
	gone := func() bool { return !strings.Contains(slurmtest.Jobs(t), "RUNNING") }

	results := filepath.Join(t.TempDir(), "results")
	code, stderr := cell(map[string]string{operatorVariable: operator}, results)
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Eventually(t, gone, time.Minute, 50*time.Millisecond)

	code, stderr = cell(nil, filepath.Join(t.TempDir(), "results"))
	require.Equal(t, cli.ExitEnvironment, code)
	require.Contains(t, stderr, "platform local needs operator values that nobody has given: slurm.partition, storage.stage; write them into the file that CX_OPERATOR_CONFIG names")

	wrong := filepath.Join(t.TempDir(), "operator.yaml")
	require.NoError(t, os.WriteFile(wrong, fmt.Appendf(nil, "platforms:\n  local:\n    slurm: {partition: secret}\n    storage: {stage: %s}\n", t.TempDir()), 0o600))
	code, stderr = cell(map[string]string{operatorVariable: wrong}, filepath.Join(t.TempDir(), "results"))
	require.Equal(t, cli.ExitEnvironment, code)
	require.Contains(t, stderr, "allocate nodes: salloc: exit status 1")
	require.NotContains(t, stderr, "secret")

	code, stderr = cell(map[string]string{operatorVariable: "/nowhere/operator.yaml"}, filepath.Join(t.TempDir(), "results"))
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, operatorVariable+": open /nowhere/operator.yaml")
}

// A rank that dies costs its case; the next one runs in a new step of the same allocation.
func TestADeadRankOnSlurm(t *testing.T) {
	if !slurmtest.Start(t, 1) {
		return
	}
	matrix, operator := onSlurm(t)
	results := filepath.Join(t.TempDir(), "results")
	code, _, stderr := cxrun(t, map[string]string{operatorVariable: operator, "CX_FAULT": "rank=1,kind=segv,at=record-5"},
		"shard", "--matrix", matrix, "--id", "local-host-bf16-n1", "--results", results)
	require.Equal(t, cli.ExitFailed, code, stderr)
	require.Contains(t, stderr, "rank-died: rank 1 exit 2") // as the Go runtime ends it
}
