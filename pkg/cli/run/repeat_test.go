package run

import (
	"cmp"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/cli"
)

// All cells run their first repeats before any runs a second one.
func TestRepeatsAreInterleaved(t *testing.T) {
	need.Full(t)
	out := filepath.Join(t.TempDir(), "out")
	code, _, stderr := cxrun(t, nil, "sweep", "--definitions", fewSamples(t), "--out", out, "--world", "2", "--repeat", "3")
	require.Equal(t, cli.ExitOK, code, stderr)
	docs := sweptDocuments(t, out)
	first, last := map[int]string{}, map[int]string{} // document of each repeat
	cells := map[string]bool{}
	for _, d := range docs {
		h := d.Head()
		n := h.Identity.Repeat
		first[n], last[n] = min(cmp.Or(first[n], h.GeneratedAt), h.GeneratedAt), max(last[n], h.GeneratedAt)
		cells[string(h.Identity.Case.Family)] = true
	}
	require.Len(t, cells, 3)
	require.Len(t, first, 3)
	require.LessOrEqual(t, last[1], first[2])
	require.LessOrEqual(t, last[2], first[3])
	require.Len(t, runsIn(t, out), 1, "one run")

	for _, n := range []string{"0", "-1", "1001"} {
		code, _, stderr = cxrun(t, nil, "sweep", "--repeat", n)
		require.Equal(t, cli.ExitUsage, code)
		require.Equal(t, "cxrun: --repeat "+n+": want 1 to 1000\n", stderr)
	}
}

// A shard measures cases of its cell again, for a confirmation.
func TestShardMeasuresAgain(t *testing.T) {
	need.Full(t)
	results := t.TempDir()
	const id, cell = "local-host-all-reduce-float-sum-w2-warm", "local-host-collective-n1"
	code, stdout, stderr := cxrun(t, nil, "shard", "--matrix", planned(t), "--id", cell, "--case", id, "--repeat", "2", "--out", results)
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, cell+": 2 passed, 0 failed, 0 kept (0 of them failed)\n", stdout)
	for _, name := range []string{id, id + "-r2"} {
		found, err := filepath.Glob(filepath.Join(results, "*"+name+"*.json"))
		require.NoError(t, err)
		require.NotEmpty(t, found, name)
	}
	code, _, stderr = cxrun(t, nil, "shard", "--matrix", planned(t), "--id", cell, "--case", "none", "--out", t.TempDir())
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "--case none: cell "+cell+" has no such case")
}
