package run

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	"github.com/collectivex/collectivex/pkg/schedule/study"
)

// A study is written, checked, and taken over; a file that was changed, and rows that are
// missing, are named.
func TestStudy(t *testing.T) {
	const manifest = "../../../studies/all-reduce.yaml"
	dir := filepath.Join(t.TempDir(), "out")
	study := func(want int, flags ...string) (stdout, stderr string) {
		code, stdout, stderr := cxrun(t, nil, append([]string{"study", manifest, "-o", dir}, flags...)...)
		require.Equal(t, want, code, stderr)
		return stdout, stderr
	}
	_, stderr := study(cli.ExitFailed, "--fast")
	require.Contains(t, stderr, "lacks 60 rows: mesh tcm at 16 bytes, mesh tcm at 64 bytes, mesh tcm at 128 bytes and 57 more; run without --fast\n")
	stdout, _ := study(cli.ExitOK)
	require.Contains(t, stdout, "all_reduce of six ranks: 72 rows, 60 simulated and 0 measured now; 5 files in ")
	stdout, _ = study(cli.ExitOK, "--fast")
	wording.Has(t, stdout, "72 rows, 0 … 0 ")
	stdout, _ = study(cli.ExitOK, "--check")
	require.Contains(t, stdout, "5 files in "+dir+": as the manifest gives them\n")
	for _, stray := range []string{"old.svg", "old.model.yaml"} {
		path := filepath.Join(dir, stray)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		_, stderr = study(cli.ExitFailed, "--check")
		require.Contains(t, stderr, "not files of the manifest: "+stray+"; remove files of earlier manifests\n")
		require.NoError(t, os.Remove(path))
	}

	svg := filepath.Join(dir, "memory.svg")
	require.NoError(t, os.WriteFile(svg, []byte("<svg/>"), 0o600))
	_, stderr = study(cli.ExitFailed, "--check")
	require.Contains(t, stderr, "memory.svg missing or different from the manifest's; run without --check")

	path := filepath.Join(dir, "rows.ndjson")
	rows := readFile(t, path)
	edited := regexp.MustCompile(`("mesh tcm","bytes":16,"picoseconds":)\d+`).ReplaceAllString(string(rows), "${1}5000")
	require.NoError(t, os.WriteFile(path, []byte(edited), 0o600))
	_, stderr = study(cli.ExitFailed, "--check")
	require.Regexp(t, "^cxrun: "+regexp.QuoteMeta(path)+`: line 13: mesh tcm at 16 bytes: .* 5\.000 ns.* [0-9.]+ ns.*\n$`, stderr)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(rows), `"bytes":16,`, `"bytes":17,`, 1)), 0o600))
	for _, flag := range []string{"--fast=false", "--fast", "--check"} {
		_, stderr = study(cli.ExitUsage, flag)
		wording.Has(t, stderr, path+": line 13: mesh tcm: … mesh tcm at 16 bytes (simulated)")
	}
	require.NoError(t, os.WriteFile(path, []byte("{\n"), 0o600))
	_, stderr = study(cli.ExitUsage)
	wording.Has(t, stderr, "rows.ndjson: line 1: … remove the line")
	_, stderr = study(cli.ExitUsage, "--fast", "--check")
	wording.Has(t, stderr, "cxrun: … [fast check] … study --help")
	_, stderr = ran(t, cli.ExitUsage, nil, "study", manifest)
	wording.Has(t, stderr, `cxrun: … "output"`)
	_, stderr = ran(t, cli.ExitEnvironment, nil, "study", manifest, "-o", manifest)
	require.Equal(t, "cxrun: -o "+manifest+": is not a directory: name another one\n", stderr)
}

// The overlap study in a reduced form: it is measured once, and a second run takes it over.
func TestOverlapStudy(t *testing.T) {
	need.Full(t)
	data := readFile(t, "../../../studies/overlap.yaml")
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", t.TempDir()) // what failures leave
	reduced := regexp.MustCompile(`bytes: .*\]`).ReplaceAllString(string(data), "bytes: [65536]")
	require.NoError(t, os.WriteFile("study.yaml", []byte(reduced), 0o600))
	for _, tt := range []struct{ flag, want string }{
		{"--fast=false", "20 rows, 0 … 20 … 7 files in out"},
		{"--fast", "20 rows, 0 … 0 … 7 files in out"},
		{"--check", "7 files in out"},
	} {
		stdout, stderr := ran(t, cli.ExitOK, nil, "study", "study.yaml", "-o", "out", tt.flag)
		wording.Has(t, stdout, tt.want)
		shared := runtime.NumCPU() < 4 && tt.flag == "--fast=false" // two ranks with two sides each
		require.Equal(t, shared, strings.Contains(stderr, "share a processor"), stderr)
	}

	// An overlap whose sizes do not divide is named, and the others are measured.
	require.NoError(t, os.RemoveAll("out"))
	wrong := strings.Replace(reduced, "hidden: 128", "hidden: 100", 1)
	require.NoError(t, os.WriteFile("study.yaml", []byte(wrong), 0o600))
	stdout, stderr := ran(t, cli.ExitFailed, nil, "study", "study.yaml", "-o", "out")
	wording.Has(t, stdout, "14 rows, 0 … 14 ")
	wording.Has(t, stderr, "rotation communication on host: 65536 bytes … 100 elements")
}

// The all-gather study in a reduced form: its model and cases are measured once. A second run
// takes them over, and gives the same files.
func TestAllGatherStudy(t *testing.T) {
	need.Full(t)
	data := readFile(t, "../../../studies/all-gather.yaml")
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", t.TempDir()) // what failures leave
	reduced := regexp.MustCompile(`elements: .*`).ReplaceAllString(string(data), "elements: [4096, 16384]")
	reduced = strings.Replace(reduced, "last_bytes: 16777216", "last_bytes: 32768", 1)
	require.NoError(t, os.WriteFile("study.yaml", []byte(reduced), 0o600))
	study := func(want int, flags ...string) (stdout, stderr string) {
		code, stdout, stderr := cxrun(t, nil, append([]string{"study", "study.yaml", "-o", "out"}, flags...)...)
		require.Equal(t, want, code, stderr)
		return stdout, stderr
	}
	_, stderr := study(cli.ExitFailed, "--fast")
	require.Contains(t, stderr, `model "messages" of out/messages.model.yaml: not measured yet: run without --fast`+"\n")
	stdout, stderr := study(cli.ExitOK)
	warnings := 0
	if runtime.NumCPU() < 4 {
		warnings = 1
	}
	require.Equal(t, warnings, strings.Count(stderr, "warning: 4 ranks on "), stderr)
	wording.Has(t, stdout, "12 rows, 6 … 6 … 9 files in out")
	require.Regexp(t, `(?m)^rotation with model messages: .*[0-9.]+ %`, stdout)
	require.Contains(t, stdout, "\nall cases with model messages: ")
	stdout, _ = study(cli.ExitOK, "--fast")
	wording.Has(t, stdout, "12 rows, 0 … 0 … 9 files in out")
	stdout, _ = study(cli.ExitOK, "--check")
	require.Contains(t, stdout, "9 files in out")

	// A row that is missing is measured again, and --check does not measure.
	rows := readFile(t, "out/rows.ndjson")
	lines := strings.SplitAfter(string(rows), "\n")
	at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, `"origin":"measured"`) })
	require.NoError(t, os.WriteFile("out/rows.ndjson", []byte(strings.Join(slices.Delete(lines, at, at+1), "")), 0o600))
	_, stderr = study(cli.ExitFailed, "--check")
	require.Equal(t, "cxrun: out/rows.ndjson lacks 1 row: broadcast on host at 16384 bytes; run without --check\n", stderr)
	stdout, _ = study(cli.ExitOK)
	wording.Has(t, stdout, "12 rows, 0 … 1 ")

	// A model of other sizes is measured again, but not by --fast.
	wider := strings.Replace(reduced, "last_bytes: 32768", "last_bytes: 65536", 1)
	require.NoError(t, os.WriteFile("study.yaml", []byte(wider), 0o600))
	_, stderr = study(cli.ExitFailed, "--fast")
	require.Equal(t, `cxrun: out/messages.model.yaml does not begin with "# measured: {backend: host, ranks: 4, first_bytes: 4096, last_bytes: 65536, buffers: fresh}", `+
		`as the manifest measures model "messages": run without --fast to measure it again`+"\n", stderr)
	stdout, stderr = study(cli.ExitOK)
	require.Contains(t, stderr, `model "messages" was measured again: out/messages.model.yaml was of other buffers, ranks or sizes`)
	require.Contains(t, stderr, `warning: 6 rows were measured with another model "messages": remove out to measure them with this one`+"\n")
	wording.Has(t, stdout, "12 rows, 6 … 0 ")
	_, stderr = study(cli.ExitOK, "--check")
	require.NotContains(t, stderr, "again")

	// A model that was cut is refused.
	model := readFile(t, "out/messages.model.yaml")
	header, _, _ := strings.Cut(string(model), "    - src:")
	require.NoError(t, os.WriteFile("out/messages.model.yaml", []byte(header), 0o600))
	_, stderr = study(cli.ExitUsage)
	wording.Has(t, stderr, "cxrun: out/messages.model.yaml: … \"pairs\" … remove the file to measure again")
	start, _, ok := strings.Cut(string(model), "reduce:\n")
	require.True(t, ok)
	require.NoError(t, os.WriteFile("out/messages.model.yaml", []byte(start), 0o600))
	_, stderr = study(cli.ExitUsage)
	require.Contains(t, stderr, "cxrun: out/messages.model.yaml: points: ")
	require.NoError(t, os.WriteFile("out/messages.model.yaml", model, 0o600))

	// A measurement that the machine refuses is one of the manifest.
	unknown := strings.Replace(wider, "backend: host, ranks", "backend: hots, ranks", 1)
	require.NoError(t, os.WriteFile("unknown.yaml", []byte(unknown), 0o600))
	_, stderr = ran(t, cli.ExitUsage, nil, "study", "unknown.yaml", "-o", "new")
	wording.Has(t, stderr, `cxrun: unknown.yaml: model "messages": … "hots" … "host"`)

	// Cases that fail have no rows.
	require.NoError(t, os.Remove("out/rows.ndjson"))
	env := map[string]string{rank.FaultVariable: "rank=1,kind=skip-step"}
	stdout, stderr = ran(t, cli.ExitFailed, env, "study", "study.yaml", "-o", "out")
	wording.Has(t, stdout, "6 rows, 6 … 0 ")
	require.Contains(t, stderr, "hierarchical on host: was not measured; rotation on host: was not measured; broadcast on host: was not measured\n")
}

// interruptedMeasurer is interrupted while it measures a model.
type interruptedMeasurer struct {
	study.Measurer
	cancel func()
}

func (m interruptedMeasurer) Model(ctx context.Context, _ study.Pairs) (simulate.Model, error) {
	m.cancel()
	return simulate.Model{}, ctx.Err()
}

// An interrupted study says what it loses.
func TestInterruptedModel(t *testing.T) {
	data := readFile(t, "../../../studies/all-gather.yaml")
	m, err := study.Read("study.yaml", data, os.ReadFile)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r := studying{file: "study.yaml", dir: t.TempDir()}
	_, err = r.measuredModels(ctx, m, interruptedMeasurer{cancel: cancel})
	require.EqualError(t, err, `interrupted: model "messages" and the cases that were measured with it are lost; the next run measures them again`)
}

// A model and the cases that it is to predict are measured in turns; other cases by themselves.
func TestCasesOfAModelAreMeasuredWithIt(t *testing.T) {
	need.Full(t)
	t.Setenv("TMPDIR", t.TempDir())
	predicted := &study.Case{Name: "a", Collective: "all_gather", Algorithm: "ring", Ranks: 2, Backend: "host", Buffers: "fresh"}
	other := *predicted
	other.Buffers = "warm"
	sizes := []int64{2048, 4096}
	m := newStudyMeasurer(cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }}, map[*study.Case][]int64{predicted: sizes, &other: sizes})
	_, err := m.Model(t.Context(), study.Pairs{Backend: "host", Ranks: 2, First: 1024, Last: 8192, Buffers: "fresh"})
	require.NoError(t, err)
	require.Len(t, m.cases[predicted].runs, 3)
	require.Empty(t, m.cases[&other].runs)
	for _, c := range []*study.Case{predicted, &other} {
		times, err := m.Case(t.Context(), c, sizes)
		require.NoError(t, err)
		require.Len(t, times.At, 2)
		require.Len(t, m.cases[c].runs, 3)
	}
}

// The prediction studies of GPUs in a reduced form, on stand-ins: the model has a time for every message of
// the schedules, and every case is measured and simulated.
func TestPredictionOnGPUs(t *testing.T) {
	need.Full(t)
	standIns(t)
	for name, tt := range map[string]struct{ devices, want string }{
		"prediction-gpu":      {"2", "8 rows, 4 … 2 … 8 files in out"}, // three of the programs are equal
		"prediction-gpu-four": {"4", "28 rows, 14 … 14 … 12 files in out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CX_FAKE_DEVICES", tt.devices)
			data := readFile(t, "../../../studies/"+name+".yaml")
			t.Chdir(t.TempDir())
			// The largest message is half of the largest vector, as in the studies.
			require.Regexp(t, `(?s)elements: .* 67108864\].*last_bytes: 134217728}`, string(data))
			reduced := regexp.MustCompile(`elements: .*`).ReplaceAllString(string(data), "elements: [16384]")
			reduced = regexp.MustCompile(`first_bytes: .*}`).ReplaceAllString(reduced, "first_bytes: 4096, last_bytes: 32768}")
			require.NoError(t, os.WriteFile("study.yaml", []byte(reduced), 0o600))
			stdout, _ := ran(t, cli.ExitOK, nil, "study", "study.yaml", "-o", "out")
			wording.Has(t, stdout, tt.want)
			require.Contains(t, stdout, "\nall cases with model ")
			ran(t, cli.ExitOK, nil, "study", "study.yaml", "-o", "out", "--check")
		})
	}
}
