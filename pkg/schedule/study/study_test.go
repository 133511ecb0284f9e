package study

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const shipped = "../../../studies/all-reduce.yaml"

// manifest is the shipped study, changed.
func manifest(t *testing.T, old, changed string) (*Manifest, error) {
	t.Helper()
	data, err := os.ReadFile(shipped)
	require.NoError(t, err)
	require.Contains(t, string(data), old)
	return Read("study.yaml", []byte(strings.Replace(string(data), old, changed, 1)), os.ReadFile)
}

func rowsOf(t *testing.T, m *Manifest, known map[string]Row) ([]Row, int) {
	t.Helper()
	rows, simulations, err := m.Rows(t.Context(), known)
	require.NoError(t, err)
	return rows, simulations
}

// byKey is rows as a later run knows them.
func byKey(t *testing.T, rows []Row) map[string]Row {
	t.Helper()
	data, err := ndjson(rows)
	require.NoError(t, err)
	known, err := Known(data)
	require.NoError(t, err)
	return known
}

// The shipped study has three topologies, three memory tiers and twelve sizes, and where the
// published points lie on their line, the model meets them.
func TestAllReduceStudy(t *testing.T) {
	m, err := manifest(t, "", "")
	require.NoError(t, err)
	rows, simulations := rowsOf(t, m, nil)
	require.Equal(t, 5*12, simulations)
	at := map[string]map[int64]int64{}
	for _, r := range rows {
		if at[r.Series] == nil {
			at[r.Series] = map[int64]int64{}
		}
		at[r.Series][r.Bytes] = r.Picoseconds
	}
	met := 0
	for _, r := range rows {
		ours, ok := at[strings.TrimPrefix(r.Series, "kernbench ")][r.Bytes]
		if r.Origin == External && ok && (r.Bytes > 2048 || strings.HasSuffix(r.Series, "tcm") && r.Bytes == 2048) {
			require.InDelta(t, r.Picoseconds, ours, 10, "%s at %d bytes", r.Series, r.Bytes)
			met++
		}
	}
	require.Equal(t, 7, met)
	require.Less(t, at["torus tcm"][98304], at["ring tcm"][98304])
	require.Less(t, at["ring tcm"][98304], at["mesh tcm"][98304])
}

// With the constants of the closed forms, the algorithms take exactly what those give:
// ring_full (n−1)(α+Sβ+Sγ), torus_full (w+h−2)(α+Sβ+Sγ), mesh_chain 2(w+h−2)(α+Sβ)+(w+h−2)Sγ.
func TestClosedForms(t *testing.T) {
	m, err := manifest(t, "latency_ns: 544.346667\n    ns_per_byte: 0.052734375", "latency_ns: 1000\n    ns_per_byte: 0.02\n    reduce_ns_per_byte: 0.001")
	require.NoError(t, err)
	rows, _ := rowsOf(t, m, nil)
	want := map[string]int64{"ring tcm": 15_321_920, "torus tcm": 9_193_152, "mesh tcm": 18_091_392}
	for _, r := range rows {
		if ps, ok := want[r.Series]; ok && r.Bytes == 98304 {
			require.Equal(t, ps, r.Picoseconds, r.Series)
			delete(want, r.Series)
		}
	}
	require.Empty(t, want)
}

// A second rendering has the same bytes, also from rows that were taken over.
func TestRenderingsAreEqual(t *testing.T) {
	m, err := manifest(t, "", "")
	require.NoError(t, err)
	rows, _ := rowsOf(t, m, nil)
	first, err := m.Render(rows)
	require.NoError(t, err)
	require.Len(t, first, 4)
	again, simulations := rowsOf(t, m, byKey(t, rows))
	require.Zero(t, simulations)
	second, err := m.Render(again)
	require.NoError(t, err)
	require.Equal(t, first, second)
}

// One constant of a model changes its rows alone.
func TestOneConstantChanged(t *testing.T) {
	m, err := manifest(t, "", "")
	require.NoError(t, err)
	rows, _ := rowsOf(t, m, nil)
	known := byKey(t, rows)
	m, err = manifest(t, "overhead_ns: 24", "overhead_ns: 25")
	require.NoError(t, err)
	missing, err := m.Missing(known)
	require.NoError(t, err)
	require.Len(t, missing, 12)
	require.Equal(t, "torus hbm at 16 bytes", missing[0])
	changed, simulations := rowsOf(t, m, known)
	require.Equal(t, 12, simulations)
	for i, r := range changed {
		if r.Series == "torus hbm" {
			require.Equal(t, rows[i].Picoseconds+6_000, r.Picoseconds, "three messages, each with two overheads")
		} else {
			require.Equal(t, rows[i], r)
		}
	}
}

// A model can be in a file. Its constants are what counts, not its name.
func TestModelInAFile(t *testing.T) {
	m, err := manifest(t, "", "")
	require.NoError(t, err)
	rows, _ := rowsOf(t, m, nil)
	const constants = `
    sharing: fifo
    engines: 1
    latency_ns: 544.346667
    ns_per_byte: 0.052734375
  hbm:`
	data, err := os.ReadFile(shipped)
	require.NoError(t, err)
	require.Contains(t, string(data), constants)
	read := func(content string) (*Manifest, error) {
		text := strings.Replace(string(data), constants, "\n    file: tcm.yaml\n  hbm:", 1)
		return Read("study.yaml", []byte(text), func(file string) ([]byte, error) {
			require.Equal(t, "tcm.yaml", file)
			return []byte(content), nil
		})
	}
	m, err = read(strings.TrimSuffix(constants, "  hbm:"))
	require.NoError(t, err)
	_, simulations := rowsOf(t, m, byKey(t, rows))
	require.Zero(t, simulations)
	_, err = read("engines: x\n")
	require.ErrorContains(t, err, `study.yaml: model "tcm": tcm.yaml: yaml: unmarshal errors: line 1: cannot unmarshal`)
}

// What is wrong with a manifest is said in a line with its file.
func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ old, changed, want string }{
		{"title:", "titel:", "study.yaml: yaml: unmarshal errors: line 7: field titel not found"},
		{"algorithm: ring_full", "algorithm: ringfull", `study.yaml: case "ring": no schedule "ringfull" for all_reduce`},
		{"tcm:\n", "tcm:\n    file: a.yaml\n", `study.yaml: model "tcm": has a file and constants: leave out one of them`},
		{"width: 3", "width: 4", `study.yaml: case "torus": torus_full all_reduce: 6 ranks in rows of 4, must fill each row`},
		{"topology: ring", "topology: star", `study.yaml: case "ring": topology "star", must be one of full, switch, ring, torus, mesh`},
		{"models: [tcm]", "models: [dram]", `study.yaml: case "ring": unknown model "dram", must be one of hbm, sram, tcm`},
		{"elements: [8, 32", "elements: [32, 8", "study.yaml: elements: 8: list numbers from 1 on, in ascending order"},
		{"name: mesh", "name: ring", `study.yaml: series "ring tcm": give each case and reference a name of its own`},
		{"date: 2026-03", "date: ''", `study.yaml: reference "kernbench torus tcm": needs a source, a date and points`},
		{"series: [ring tcm", "series: [rings", `study.yaml: figure "topologies": unknown series "rings", must be one of `},
		{"name: topologies", "name: ../a", `study.yaml: figure "../a": needs a name of its own without / \ or . and series`},
	} {
		_, err := manifest(t, tt.old, tt.changed)
		require.ErrorContains(t, err, tt.want)
		require.NotContains(t, err.Error(), "\n")
	}
	m, err := manifest(t, "sharing: fifo", "sharing: none")
	require.NoError(t, err)
	_, _, err = m.Rows(t.Context(), nil)
	require.ErrorContains(t, err, `sharing "none", must be unloaded, fifo or fair`)
}
