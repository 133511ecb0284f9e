package run

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
)

// All cells run their first repeats before any runs a second one.
func TestRepeatsAreInterleaved(t *testing.T) {
	need.Full(t)
	out := filepath.Join(t.TempDir(), "out")
	ran(t, cli.ExitOK, nil, "sweep", "--definitions", fewSamples(t), "--out", out, "--world", "2", "--repeat", "3")
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
		_, stderr := ran(t, cli.ExitUsage, nil, "sweep", "--repeat", n)
		require.Equal(t, "cxrun: --repeat "+n+": want 1 to 1000\n", stderr)
	}
}

// A shard measures cases of its cell again, for a confirmation.
func TestShardMeasuresAgain(t *testing.T) {
	need.Full(t)
	results := t.TempDir()
	const id, cell = "local-host-all-reduce-float-sum-w2-warm", "local-host-collective-n1"
	stdout, _ := ran(t, cli.ExitOK, nil, "shard", "--matrix", planned(t), "--id", cell, "--case", id, "--repeat", "2", "--out", results)
	require.Equal(t, cell+": 2 passed, 0 failed, 0 kept (0 of them failed)\n", stdout)
	for _, name := range []string{id, id + "-r2"} {
		found, err := filepath.Glob(filepath.Join(results, "*"+name+"*.json"))
		require.NoError(t, err)
		require.NotEmpty(t, found, name)
	}
}

// A few cases of a long cell have the time of their budgets, and never more than all cases.
func TestMinutesOfASelection(t *testing.T) {
	cell := plan.Cell{Minutes: 300}
	cases := []plan.Requested{{Case: resulttest.CollectiveCase(), BudgetSeconds: 61}, {Case: resulttest.EPCase(), BudgetSeconds: 5400}}
	a, b := firstID(cases[0].Case), firstID(cases[1].Case)
	for _, tc := range []struct {
		only    []string
		repeat  int
		minutes int
	}{{nil, 0, 300}, {nil, 8, 2400}, {[]string{a}, 0, 15 + 2}, {[]string{a}, 8, 15 + 9}, {[]string{a, b}, 8, 15 + 729}, {[]string{b}, 100, 15 + 9000}} {
		r := sharding{only: tc.only, repeat: tc.repeat}
		require.Equal(t, tc.minutes, r.minutes(cell, cases))
	}
	require.Equal(t, 20, (&sharding{only: []string{b}}).minutes(plan.Cell{Minutes: 20}, cases))
}

// A shard refuses to select nothing.
func TestShardRefusesToSelectNothing(t *testing.T) {
	const id, cell = "local-host-all-reduce-float-sum-w2-warm", "local-host-collective-n1"
	for args, says := range map[string]string{
		"--case none":                     "--case none: cell " + cell + " has no such case",
		"--case " + id + "-r2 --repeat 2": "--case " + id + "-r2: cell " + cell + " has no such case",
		"--repeat 0":                      "--repeat 0: want 1 to 1000",
	} {
		code, _, stderr := cxrun(t, nil, append([]string{"shard", "--matrix", planned(t), "--id", cell, "--out", t.TempDir()}, strings.Fields(args)...)...)
		require.Equal(t, cli.ExitUsage, code, args)
		require.Contains(t, stderr, says)
	}
}

// Cases are selected by the id of the first repeat, which may be in another cell.
func TestSelectedByTheFirstRepeat(t *testing.T) {
	var cases []plan.Requested
	for _, repeat := range []int{2, 3} {
		cases = append(cases, plan.Requested{Case: plantest.Collective(2, func(c *plan.Case) { c.Repeat = repeat })})
	}
	id := plantest.Collective(2, func(*plan.Case) {}).CaseID
	ids := func(r cellRun) (ids []string) {
		for _, q := range r.selected(slices.Clone(cases)) {
			ids = append(ids, q.Case.CaseID)
		}
		return ids
	}
	require.Equal(t, []string{id + "-r2", id + "-r3"}, ids(cellRun{only: []string{id}}))
	require.Equal(t, []string{id, id + "-r2"}, ids(cellRun{only: []string{id}, repeats: 2}))
	require.Empty(t, ids(cellRun{only: []string{"other"}}))
}
