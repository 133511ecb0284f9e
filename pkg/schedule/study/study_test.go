package study

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/chart"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
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

func plan(t *testing.T, m *Manifest, known map[string]Row) *Plan {
	t.Helper()
	p, err := m.Plan(known)
	require.NoError(t, err)
	return p
}

// made returns the rows of a manifest, and how many are new.
func made(ctx context.Context, t *testing.T, m *Manifest, known map[string]Row, measurer Measurer) ([]Row, Made, error) {
	t.Helper()
	return plan(t, m, known).Rows(ctx, measurer, false)
}

// rowsOf returns the rows of a manifest that measures nothing, and how many were simulated.
func rowsOf(t *testing.T, m *Manifest, known map[string]Row) ([]Row, int) {
	t.Helper()
	rows, n, err := made(t.Context(), t, m, known, nil)
	require.NoError(t, err)
	require.Zero(t, n.Measured)
	return rows, n.Simulated
}

// standIn measures by functions.
type standIn struct {
	cases    func(ctx context.Context, c *Case, sizes []int64) ([]simulate.Picoseconds, error)
	overlaps func(o *Overlap, sizes []int64) ([]map[string]simulate.Picoseconds, error)
	device   string
}

func (s standIn) Case(ctx context.Context, c *Case, sizes []int64) (Times, error) {
	out := Times{Device: s.device}
	times, err := s.cases(ctx, c, sizes)
	for _, ps := range times {
		out.At = append(out.At, map[string]simulate.Picoseconds{"": ps})
	}
	return out, err
}

func (s standIn) Overlap(_ context.Context, o *Overlap, sizes []int64) (Times, error) {
	times, err := s.overlaps(o, sizes)
	return Times{s.device, times}, err
}

// byKey is rows as a later run knows them.
func byKey(t *testing.T, rows []Row) map[string]Row {
	t.Helper()
	known, err := Known(ndjson(rows))
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
	require.Len(t, first, 5)
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
	m, err = manifest(t, "memory_setup_ns: 9.6", "memory_setup_ns: 9.7")
	require.NoError(t, err)
	missing := plan(t, m, known).Missing(Simulated, Measured)
	require.Len(t, missing, 12)
	require.Equal(t, "torus hbm at 16 bytes", missing[0])
	changed, simulations := rowsOf(t, m, known)
	require.Equal(t, 12, simulations)
	for i, r := range changed {
		if r.Series == "torus hbm" {
			require.Equal(t, rows[i].Picoseconds+1_500, r.Picoseconds, "15 reads and writes, each 0.1 ns longer")
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
	require.ErrorContains(t, err, `study.yaml:12:3: model "tcm": tcm.yaml:1:10: `)
}

var lineOfMistake = regexp.MustCompile(`:\d+:\d+: `)

// What is wrong with a part of a manifest is said with its place.
func TestLinesOfMistakes(t *testing.T) {
	data, err := os.ReadFile(shipped)
	require.NoError(t, err)
	lines := strings.Split(string(data), "\n")
	for _, tt := range []struct{ old, changed, at string }{
		{"tcm:\n", "tcm:\n    file: a.yaml\n", "  tcm:"},
		{"topology: ring", "topology: star", "  - {name: ring,"},
		{"date: 2026-03", "date: March", "    date: 2026-03"},
		{"name: memory", "name: topologies", "  - name: memory"},
	} {
		at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, tt.at) })
		require.GreaterOrEqual(t, at, 0, tt.at)
		_, err := manifest(t, tt.old, tt.changed)
		require.ErrorContains(t, err, fmt.Sprintf("study.yaml:%d:", at+1))
	}
	_, err = manifest(t, "title: ", "title: '' #")
	require.EqualError(t, err, `study.yaml:7:8: "title" is empty`)
}

// What is wrong with a manifest is said in a line with its file.
func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ old, changed, want string }{
		{"title:", "titel:", `study.yaml: unknown key "titel"; did you mean "title"?`},
		{"algorithm: ring_full", "algorithm: ringfull", `study.yaml: case "ring": no schedule "ringfull"`},
		{"tcm:\n", "tcm:\n    file: a.yaml\n", `study.yaml: model "tcm": give only one of a file, a measurement and constants`},
		{"width: 3", "width: 4", `study.yaml: case "torus": torus_full all_reduce: `},
		{"algorithm: torus_full, ranks: 6, width: 3, topology: torus", "algorithm: ring, ranks: 6, width: 3, topology: ring", `study.yaml: case "torus": width 3 `},
		{"topology: ring", "topology: star", `study.yaml: case "ring": unknown topology "star", must be one of full, switch, ring, torus, mesh, hosts`},
		{"models: [tcm]", "models: [dram]", `study.yaml: case "ring": unknown model "dram", must be one of hbm, sram, tcm`},
		{"elements: [8, 32", "elements: [32, 8", "study.yaml: 8: list numbers in ascending order"},
		{"name: mesh", "name: ring", `study.yaml: series "ring tcm" is a duplicate: give each case, overlap and reference a different name`},
		{"date: 2026-03", "date: ''", `study.yaml: "date" must be YYYY, YYYY-MM or YYYY-MM-DD, such as 2026-03, not ""`},
		{"date: 2026-03", "date: 2026-13", `study.yaml: "date" must be YYYY, YYYY-MM or YYYY-MM-DD, such as 2026-03, not "2026-13"`},
		{"date: 2026-03", "date: March 2026", `such as 2026-03, not "March 2026"`},
		{"source: kernbench2, committed table of buffer kinds on a torus of six devices", "source: ' '", `study.yaml: "source" is empty`},
		{"source: kernbench2", `source: "a\nb" #`, `study.yaml: source "a\nb": name it in one line`},
		{"series: [ring tcm", "series: [rings", `study.yaml: figure "topologies": unknown series "rings", must be one of `},
		{"name: topologies", "name: ../a", `study.yaml: figure "../a": the name must not contain dots and slashes`},
		{"name: memory", "name: topologies", `study.yaml: figure "topologies": duplicate name`},
		{"series: [ring tcm, torus tcm, mesh tcm]", "topology: star", `study.yaml: figure "topologies": unknown case "star", must be one of mesh, ring, torus`},
		{", series: [ring tcm, torus tcm, mesh tcm]", "", `study.yaml: figure "topologies": give exactly one of series, the topology of a case, and an overlap`},
		{"topology: ring, models: [tcm]", "topology: ring", `study.yaml: case "ring": name at least one model or a backend`},
		{"topology: ring,", "topology: ring, backend: host,", `study.yaml: case "ring" is measured with elements of 4 bytes, but element_bytes is 2`},
		{"topology: ring,", "topology: ring, buffers: warm,", `study.yaml: buffers "warm", must be fresh or fresh-cold`},
		{"models:\n", "models:\n  here: {measure: {backend: host, ranks: 2, first_bytes: 4, last_bytes: 8, buffers: cold}}\n", `study.yaml: buffers "cold", must be fresh or fresh-cold`},
		{"tcm:\n", "tcm:\n    measure: {backend: host, ranks: 2, first_bytes: 4, last_bytes: 8}\n", `study.yaml: model "tcm": give only one of a file, a measurement and constants`},
		{"models:\n", "models:\n  here: {measure: {backend: host, ranks: 2, first_bytes: 4, last_bytes: 2}}\n", `study.yaml: first_bytes 4 is above last_bytes 2: give the smaller size first`},
		{"models:\n", "models:\n  here: {measure: {backend: host, ranks: 2, last_bytes: 2}}\n", `study.yaml: "measure" lacks the key "first_bytes"`},
		{"models:\n", "models:\n  here: {sharing: fifo, engines: 1}\n", `study.yaml: model "here": `},
		{"models:\n", "models:\n  here: {sharing: fifo, latency_ns: -1}\n", `study.yaml: model "here": latency_ns: -1`},
		{"sharing: fifo", "sharing: none", `study.yaml: model "tcm": sharing "none"`},
		{"title:", "title: a\n---\ntitle:", "study.yaml: "},
		{"models:\n", "models:\n  a/b: {sharing: fifo, latency_ns: 1}\n", `study.yaml: model "a/b": the name must not contain dots and slashes`},
	} {
		_, err := manifest(t, tt.old, tt.changed)
		require.Error(t, err)
		message := lineOfMistake.ReplaceAllString(err.Error(), ": ")
		require.Contains(t, message, tt.want)
		require.NotContains(t, message, "\n")
	}
	_, err := manifest(t, "algorithm: torus_full", "algorithm: ring")
	require.NoError(t, err, "the topology has the width")
}

// A reference has the date of its publication as exactly as it is known.
func TestDatesOfReferences(t *testing.T) {
	for _, date := range []string{"2026", "2026-03", "2026-03-31"} {
		m, err := manifest(t, "date: 2026-03", "date: "+date)
		require.NoError(t, err)
		require.Equal(t, Date(date), m.References[0].Date)
	}
}

// A width and segments of 0 are all ranks and the segments of every other command.
func TestDefaultShape(t *testing.T) {
	for _, algorithm := range []string{"torus_2d", "double_tree"} {
		m, err := manifest(t, "algorithm: ring_full", "algorithm: "+algorithm)
		require.NoError(t, err)
		got, err := m.Cases[0].program()
		require.NoError(t, err)
		want, err := schedule.Generate(algorithm, schedule.AllReduce, schedule.Shape{Ranks: 6, Width: 6, Segments: schedule.DefaultSegments})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// A case is measured with buffers of the state of its measured model.
func TestStatesOfBuffersAgree(t *testing.T) {
	data, err := os.ReadFile("../../../studies/prediction-host.yaml")
	require.NoError(t, err)
	_, err = Read("study.yaml", data, os.ReadFile)
	require.NoError(t, err)
	_, err = Read("study.yaml", []byte(strings.Replace(string(data), "16777216, buffers: fresh-cold", "16777216", 1)), os.ReadFile)
	require.EqualError(t, err, `study.yaml:16:5: case "ring of four" is measured with fresh-cold buffers, but its model "four" with fresh buffers: give both the same`)
}

// A measured model is of the ranks of its cases: messages of other ranks take other times.
func TestRanksAgree(t *testing.T) {
	data, err := os.ReadFile("../../../studies/prediction-gpu.yaml")
	require.NoError(t, err)
	_, err = Read("study.yaml", []byte(strings.Replace(string(data), "backend: nccl, ranks: 2", "backend: nccl, ranks: 3", 1)), os.ReadFile)
	require.ErrorContains(t, err, ` has 2 ranks, but its model "`)
	require.ErrorContains(t, err, `" is measured with 3: give both the same number`)
}

// A study of measured and simulated series measures each case once, and takes its rows over.
func TestMeasuredStudy(t *testing.T) {
	data, err := os.ReadFile("../../../studies/all-gather.yaml")
	require.NoError(t, err)
	m, err := Read("study.yaml", data, os.ReadFile)
	require.NoError(t, err)
	pairs := m.Measured()["messages"]
	require.Equal(t, int64(4096), pairs.Sizes()[0])
	require.Equal(t, int64(16<<20), pairs.Sizes()[12])
	model := simulate.Model{Sharing: "unloaded", Engines: 1}
	for src := range pairs.Ranks {
		for dst := range pairs.Ranks {
			if src != dst {
				points := []simulate.Point{{Bytes: pairs.First, Nanoseconds: 500}, {Bytes: pairs.Last, Nanoseconds: 1e6}}
				model.Pairs = append(model.Pairs, simulate.Pair{Src: src, Dst: dst, Classes: []simulate.Class{{Points: points}}})
			}
		}
	}
	m.SetModel("messages", model)
	var measured []string
	measure := func(_ context.Context, c *Case, sizes []int64) (times []simulate.Picoseconds, err error) {
		measured = append(measured, c.Name)
		for _, n := range sizes {
			times = append(times, simulate.Picoseconds(n))
		}
		return times, nil
	}
	rows, n, err := made(t.Context(), t, m, nil, standIn{cases: measure})
	require.NoError(t, err)
	require.Equal(t, Made{Simulated: 21, Measured: 21}, n)
	require.Equal(t, []string{"hierarchical", "rotation", "broadcast"}, measured)
	for _, r := range rows {
		if r.Origin == Measured {
			require.Equal(t, r.Bytes, r.Picoseconds)
			require.Equal(t, "host", r.Backend)
			require.Empty(t, r.Model)
		} else {
			require.Equal(t, "messages", r.Model)
			require.Empty(t, r.Backend)
		}
	}
	first, err := m.Render(rows)
	require.NoError(t, err)
	require.Len(t, first, 3+1+5)
	require.Contains(t, string(first["messages.model.yaml"]), "{bytes: 4096, ns: 500}")
	require.Contains(t, string(first["rotation.svg"]), "rotation on host (measured)")
	require.Contains(t, string(first["rotation.svg"]), "rotation messages (simulated)")

	// One of the measured rows is missing: its case is measured at that size alone.
	known := byKey(t, rows)
	maps.DeleteFunc(known, func(_ string, r Row) bool { return r.Series == "rotation on host" && r.Bytes == 1<<20 })
	missing := plan(t, m, known).Missing(Simulated, Measured)
	require.Equal(t, []string{"rotation on host at 1048576 bytes"}, missing)
	missing = plan(t, m, known).Missing(Simulated)
	require.Empty(t, missing)
	predicted := plan(t, m, known).Predicted("messages")
	require.Equal(t, 20, predicted)
	measured = nil
	again, n, err := made(t.Context(), t, m, known, standIn{cases: measure})
	require.NoError(t, err)
	require.Equal(t, Made{Measured: 1}, n)
	require.Equal(t, []string{"rotation"}, measured)
	second, err := m.Render(again)
	require.NoError(t, err)
	require.Equal(t, first, second)

	// A case that fails leaves a gap, and those after it are measured.
	broken, n, err := made(t.Context(), t, m, nil, standIn{cases: func(ctx context.Context, c *Case, sizes []int64) ([]simulate.Picoseconds, error) {
		if c.Name == "hierarchical" {
			return nil, errors.New("a rank died")
		}
		return measure(ctx, c, sizes)
	}})
	require.EqualError(t, err, "hierarchical on host: a rank died")
	require.Equal(t, Made{Simulated: 21, Measured: 14}, n)
	require.Len(t, broken, 35)
	_, _, err = made(t.Context(), t, m, nil, standIn{cases: func(context.Context, *Case, []int64) ([]simulate.Picoseconds, error) {
		return nil, errors.New("a rank died")
	}})
	require.EqualError(t, err, "hierarchical on host: a rank died; rotation on host: a rank died; broadcast on host: a rank died")

	// What a measurer has when the study is interrupted has rows.
	ctx, cancel := context.WithCancel(t.Context())
	kept, n, err := made(ctx, t, m, nil, standIn{cases: func(ctx context.Context, c *Case, sizes []int64) ([]simulate.Picoseconds, error) {
		cancel()
		if c.Name == "rotation" {
			return nil, ctx.Err()
		}
		return measure(ctx, c, sizes)
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, Made{Simulated: 21, Measured: 14}, n)
	require.Len(t, kept, 35)
	for _, f := range []Figure{{Series: []string{"hierarchical on host", "hierarchical messages"}}, {Series: []string{"hierarchical on host"}}} {
		require.Contains(t, string(f.draw(broken)), "hierarchical on host (no rows)")
	}
}

// An overlap is measured once for all of its contenders, at the sizes that lack a row. Its bars
// show how much of the communication is exposed, and a size without all of them is a gap.
func TestOverlaps(t *testing.T) {
	data, err := os.ReadFile("../../../studies/overlap.yaml")
	require.NoError(t, err)
	m, err := Read("study.yaml", data, os.ReadFile)
	require.NoError(t, err)
	type call struct {
		name  string
		sizes []int64
	}
	var calls []call
	at := standIn{device: "a processor", overlaps: func(o *Overlap, sizes []int64) (out []map[string]simulate.Picoseconds, err error) {
		calls = append(calls, call{o.Name, sizes})
		for _, n := range sizes {
			times := map[string]simulate.Picoseconds{}
			for i, contender := range overlap.Contenders(o.Form) {
				times[contender] = simulate.Picoseconds(1_000_000*(1+i) + int(n))
			}
			out = append(out, times)
		}
		return out, nil
	}}
	rows, n, err := made(t.Context(), t, m, nil, at)
	require.NoError(t, err)
	require.Equal(t, Made{Measured: 3 * (4 + 4 + 6 + 6)}, n)
	require.Equal(t, []call{
		{"library", []int64{65536, 524288, 4194304}},
		{"schedule", []int64{65536, 524288, 4194304}},
		{"rotation", []int64{16384, 65536, 262144}},
		{"broadcast", []int64{16384, 65536, 262144}},
	}, calls)
	first, err := m.Render(rows)
	require.NoError(t, err)
	require.Contains(t, string(first["library.svg"]), "together − compute: exposed")
	require.Contains(t, string(first["library.svg"]), ">512K</text>")
	require.Contains(t, string(first["rows.csv"]), "measured,schedule together on host,all_gather,rotation,2,,,host,a processor,65536,3065.536,,,")

	known := byKey(t, rows)
	maps.DeleteFunc(known, func(_ string, r Row) bool { return r.Series == "rotation serial on host" && r.Bytes == 65536 })
	calls = nil
	again, n, err := made(t.Context(), t, m, known, at)
	require.NoError(t, err)
	require.Equal(t, Made{Measured: 1}, n)
	require.Equal(t, []call{{"rotation", []int64{65536}}}, calls)
	second, err := m.Render(again)
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.Equal(t, []string{"a processor"}, Devices(again))

	// Rows say what they were measured on, also those that are taken over on another machine.
	at.device = "another processor"
	mixed, _, err := made(t.Context(), t, m, known, at)
	require.NoError(t, err)
	require.Equal(t, []string{"a processor", "another processor"}, Devices(mixed))

	// The bars of a size need all of its contenders.
	figure := func(rows []Row) string {
		return string(m.drawOverlap(&Figure{Overlap: "library"}, rows))
	}
	require.NotContains(t, figure(rows), ` y="-`, "the axis reaches to the highest bar")
	full := strings.Count(figure(rows), "<rect")
	gap := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Series == "library serial on host" && r.Bytes == 65536 })
	require.Equal(t, full, strings.Count(figure(gap), "<rect"), "bars of no height")
	require.NotEqual(t, figure(rows), figure(gap))
	require.Contains(t, figure(nil), "library (no rows)")
	require.NotContains(t, figure(gap), "(no rows)")

	for _, tt := range []struct{ old, changed, want string }{
		{"form: beside", "form: aside", `form "aside", must be one of beside, linear-rotation, linear-broadcast`},
		{"products: 2", "products: 0", `form beside needs a collective, products and collectives`},
		{"form: beside", "form: linear-rotation", `a linear layer has no collective`},
		{"ranks: 2", "ranks: 1", `"ranks" must be at least 2, not 1`},
		{"[65536, 524288", "[65536, 65536", `"bytes" lists "65536" twice`},
		{"overlap: library", "overlap: layer", `figure "library": unknown overlap "layer", must be one of broadcast, library, rotation, schedule`},
		{"name: schedule, form", "name: library, form", `series "library compute on host" is a duplicate: `},
	} {
		require.Contains(t, string(data), tt.old)
		_, err := Read("study.yaml", []byte(strings.Replace(string(data), tt.old, tt.changed, 1)), os.ReadFile)
		require.Error(t, err)
		require.Contains(t, lineOfMistake.ReplaceAllString(err.Error(), ": "), "study.yaml: "+tt.want)
	}
}

// Simulated times are compared with the measured ones of the same case and size.
func TestCompare(t *testing.T) {
	m := &Manifest{ElementBytes: 4, Elements: []int64{1, 2}, Cases: []Case{
		{Name: "ring", Backend: "host", Models: []string{"here", "there"}},
		{Name: "tree", Backend: "host", Models: []string{"here"}},
		{Name: "only simulated", Models: []string{"here"}},
	}}
	var rows []Row
	for _, r := range []struct {
		series string
		bytes  int64
		ps     int64
	}{
		{"ring on host", 4, 1000},
		{"ring on host", 8, 1000},
		{"tree on host", 4, 1000},
		{"ring here", 4, 2000},
		{"ring here", 8, 500},
		{"ring there", 4, 1100},
		{"tree here", 4, 1000},
		{"tree here", 8, 1000},
		{"only simulated here", 4, 7},
	} {
		rows = append(rows, Row{Series: r.series, Bytes: r.bytes, Picoseconds: r.ps})
	}
	var lines []string
	for _, c := range m.Compare(rows) {
		lines = append(lines, c.String())
	}
	require.Equal(t, []string{
		"ring with model here: simulated times are 100.0 % off measured ones in the geometric mean, and 100.0 % at worst (ring at 4 bytes)",
		"ring with model there: simulated times are 10.0 % off measured ones in the geometric mean, and 10.0 % at worst (ring at 4 bytes)",
		"tree with model here: simulated times are 0.0 % off measured ones in the geometric mean, and 0.0 % at worst (tree at 4 bytes)",
		"all cases with model here: simulated times are 58.7 % off measured ones in the geometric mean, and 100.0 % at worst (ring at 4 bytes)",
	}, lines) // 58.7 = 100 · (4^⅓ − 1)
	table := m.errorsTable(rows)
	require.Equal(t, "case,model,bytes,measured_ns,simulated_ns,simulated/measured\n"+
		"ring,here,4,1.000,2.000,2.000\nring,here,8,1.000,0.500,0.500\nring,there,4,1.000,1.100,1.100\ntree,here,4,1.000,1.000,1.000\n", string(table))
	require.Nil(t, m.errorsTable(rows[:3]))
}

// Damaged rows are refused with their line, and a row of another name is taken over.
func TestDamagedRows(t *testing.T) {
	m, err := manifest(t, "", "")
	require.NoError(t, err)
	rows, _ := rowsOf(t, m, nil)
	data := ndjson(rows)
	lines := strings.SplitAfter(string(data), "\n")
	at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, `"series":"mesh tcm","bytes":16,`) })
	require.NotEqual(t, -1, at)
	time := regexp.MustCompile(`"picoseconds":\d+`).FindString(lines[at])
	for _, tt := range []struct{ old, changed, want string }{
		{`"bytes":16,`, `"bytes":"16",`, "bytes: unexpected string: remove the line"},
		{lines[at], "[]\n", "the row: unexpected array: remove the line"},
		{lines[at], "{}\n", "the row has no key or no series: remove the line"},
		{time, `"picoseconds":0`, "mesh tcm: 16 bytes in 0 picoseconds, must both be above 0: remove the line"},
		{time, `"picoseconds":-5`, "mesh tcm: 16 bytes in -5 picoseconds"},
		{`"bytes":16,`, `"bytes":17,`, "mesh tcm: the row differs from mesh tcm at 16 bytes (simulated), which has the same key: remove the line"},
		{`"simulated"`, `"measured"`, "mesh tcm: "},
		{`"simulated"`, `"guessed"`, `mesh tcm: origin "guessed", must be simulated, measured or external`},
		{`"ranks":6`, `"ranks":7`, "mesh tcm: "},
		{`"series":"mesh tcm"`, `"series":"grid tcm"`, ""},
		{lines[at], lines[at] + strings.Replace(lines[at], `"series":"mesh tcm"`, `"series":"grid tcm"`, 1), ""},
	} {
		require.Contains(t, lines[at], tt.old)
		damaged := slices.Clone(lines)
		damaged[at] = strings.Replace(lines[at], tt.old, tt.changed, 1)
		known, err := Known([]byte(strings.Join(damaged, "")))
		if err == nil {
			err = plan(t, m, known).CheckKnown()
		}
		if tt.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, fmt.Sprintf("line %d: %s", at+1, tt.want))
	}
}

// A key has one row. Only a case of another name can have the same row again.
func TestRepeatedRows(t *testing.T) {
	row := func(series string, ps int64) Row {
		return Row{Key: "k", Origin: Measured, Series: series, Bytes: 64, Picoseconds: ps}
	}
	for _, tt := range []struct {
		second Row
		want   string
	}{
		{row("ring on host", 7), "line 2: ring on host at 64 bytes: the row has the same key as line 1: remove one of the two lines"},
		{row("ring on host", 8), "line 2: ring on host at 64 bytes: the row has the same key as line 1: remove one of the two lines"},
		{row("tree on host", 8), "line 2: tree on host at 64 bytes: the row has the same key as line 1: remove one of the two lines"},
		{row("tree on host", 7), ""},
	} {
		data := ndjson([]Row{row("ring on host", 7), tt.second})
		_, err := Known(data)
		if tt.want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, tt.want)
	}
}

// Cases whose programs are equal, such as a ring and a direct all_gather of two ranks, are one case to
// measure: they share its times, so that a later run can take these over.
func TestEqualCasesAreMeasuredOnce(t *testing.T) {
	m := &Manifest{ElementBytes: 4, Elements: []int64{64, 128}}
	for _, name := range []string{"ring", "direct"} {
		m.Cases = append(m.Cases, Case{Name: name, Collective: "all_gather", Algorithm: name, Ranks: 2, Backend: "host", Buffers: "fresh"})
	}
	unmeasured := plan(t, m, nil).Unmeasured()
	require.Equal(t, map[*Case][]int64{&m.Cases[1]: {256, 512}}, unmeasured)
	now := simulate.Picoseconds(0)
	rows, n, err := made(t.Context(), t, m, nil, standIn{cases: func(_ context.Context, _ *Case, sizes []int64) (out []simulate.Picoseconds, err error) {
		for range sizes {
			now++
			out = append(out, now)
		}
		return out, nil
	}})
	require.NoError(t, err)
	require.Equal(t, Made{Measured: 2}, n)
	require.Len(t, rows, 4)
	known := byKey(t, rows)
	require.NoError(t, plan(t, m, known).CheckKnown())
	again, _ := rowsOf(t, m, known)
	require.Equal(t, rows, again)
}

// A known row whose time is not the simulated one is named with its line and both times.
func TestTimesOfKnownRows(t *testing.T) {
	m, err := manifest(t, "", "")
	require.NoError(t, err)
	rows, _ := rowsOf(t, m, nil)
	known := byKey(t, rows)
	require.NoError(t, plan(t, m, known).CheckTimes(rows))
	for _, n := range []int{40, 20} { // the first line counts
		r := known[rows[n].Key]
		require.Equal(t, Simulated, r.Origin)
		r.Picoseconds = 1
		known[rows[n].Key] = r
	}
	require.EqualError(t, plan(t, m, known).CheckTimes(rows), fmt.Sprintf("line 21: %s at %d bytes: the row has 0.001 ns, but the simulator gives %s ns: remove the line",
		rows[20].Series, rows[20].Bytes, nanoseconds(rows[20].Picoseconds)))
}

// A time that rounds to 0 has no place on a logarithmic axis: the row is named.
func TestTimesOfZero(t *testing.T) {
	m, err := manifest(t, "latency_ns: 544.346667\n    ns_per_byte: 0.052734375", "ns_per_byte: 1e-9")
	require.NoError(t, err)
	_, _, err = made(t.Context(), t, m, nil, nil)
	require.EqualError(t, err, "mesh tcm at 16 bytes: the model gives a time of 0.000 ns: raise its constants")
}

// A figure can have a single point, at one byte and one nanosecond.
func TestFigureOfOnePoint(t *testing.T) {
	f := Figure{Series: []string{"a"}}
	drawing := string(f.draw([]Row{{Series: "a", Origin: Measured, Bytes: 1, Picoseconds: 1000}}))
	require.NotRegexp(t, "NaN|Inf", drawing)
	for _, tick := range []string{">1</text>", ">2</text>", ">0.5</text>"} {
		require.Contains(t, drawing, tick)
	}
}

// What others published has larger marks than a model, which is drawn above them.
func TestPublishedMarks(t *testing.T) {
	f := Figure{Series: []string{"a", "b"}}
	drawing := string(f.draw([]Row{{Series: "a", Origin: Simulated, Bytes: 64, Picoseconds: 1000}, {Series: "b", Origin: External, Bytes: 64, Picoseconds: 1000}}))
	colour := chart.Colours[1]
	filled := strings.Index(drawing, `fill="`+colour+`" stroke="`+colour+`" stroke-width="5"`)
	dashed := strings.Index(drawing, "stroke-dasharray")
	require.Positive(t, filled)
	require.Less(t, filled, dashed)
}
