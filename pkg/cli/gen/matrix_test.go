package gen_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/golden"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/gen"
	"github.com/collectivex/collectivex/pkg/plan"
)

func TestValidate(t *testing.T) {
	stdout, _ := ran(t, cli.ExitOK, "validate", "--reasons", "--definitions", "../../catalog/testdata/base")
	golden.Equal(t, "testdata/validate.txt", stdout)

	stdout, _ = ran(t, cli.ExitOK, "validate")
	today, august, found := strings.Cut(stdout, "\nWith the capabilities upstream-2026-08:\n\n")
	require.True(t, found)
	require.Contains(t, today, "gb200        nccl-ep        low-latency  -    -    -    -    yes  yes\n")
	require.Contains(t, august, "gb200        nccl-ep        low-latency  yes  no\n")
	require.NotContains(t, stdout, "brought up at EP8", "reasons are shown on request")
}

// Reasons and names that definitions or a command line hold command no runner and
// drive no terminal.
func TestForeignTextIsPrintedAsText(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../../catalog/testdata/base")))
	path := filepath.Join(dir, "backends.yaml")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	at := bytes.Index(data, []byte("reason: "))
	require.Positive(t, at)
	end := at + bytes.IndexByte(data[at:], '\n')
	if closing := bytes.IndexByte(data[at:end], '}'); closing >= 0 {
		end = at + closing
	}
	data = slices.Concat(data[:at], []byte(`reason: "x\n::error::y ##[group]z\e[31m\u202e"`), data[end:])
	require.NoError(t, os.WriteFile(path, data, 0o644))
	stdout, _ := ran(t, cli.ExitOK, "validate", "--reasons", "--definitions", dir)
	require.Contains(t, stdout, `x\n:\:error:\:y ##\[group]z\x1b[31m\u202e`)

	_, stderr := ran(t, cli.ExitUsage, "matrix", "--definitions", "no\n::error::x\x1b[2J")
	require.NotContains(t, stderr, "::")
	require.NotContains(t, stderr, "\x1b")
}

func TestValidateShowsAllFaults(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../../../matrix")))
	for _, file := range []string{"sampling.yaml", "suites/ep-core.yaml"} {
		path := filepath.Join(dir, file)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, append([]byte("bogus: 1\n"), data...), 0o644))
	}
	stdout, stderr := ran(t, cli.ExitUsage, "validate", "--definitions", dir)
	require.Empty(t, stdout)
	wording.Has(t, stderr, "cxgen: … sampling.yaml:1:1: … bogus … suites/ep-core.yaml:1:1: … bogus")
	require.Equal(t, 3, strings.Count(stderr, "\n"), stderr)
	require.Contains(t, stderr, "\n"+filepath.Join(dir, "sampling.yaml")+":1:1: ", "a path that an editor opens")

	var errs bytes.Buffer
	onActions := func(name string) string { return map[string]string{"GITHUB_ACTIONS": "true"}[name] }
	gen.Main(t.Context(), cli.Streams{Out: io.Discard, Err: &errs, Getenv: onActions}, []string{"validate", "--definitions", dir})
	require.Equal(t, 2, strings.Count(errs.String(), "\n::error "), errs.String())
	require.Contains(t, errs.String(), "file="+filepath.Join(dir, "suites/ep-core.yaml"))
}

func TestMatrix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "matrix_full.json")
	stdout, _ := ran(t, cli.ExitOK, "matrix", "--suite", "ep-core", "-o", path)
	require.Equal(t, "88 cells, 142 runnable and 26 unsupported cases\n", stdout)
	m, err := plan.ReadFile(path, cli.Version)
	require.NoError(t, err)
	require.Equal(t, plan.Generator{Program: "cxgen", Version: cli.Version, Format: plan.Format}, m.Generator)

	stdout, _ = ran(t, cli.ExitOK, "matrix", "--suite", "ep-core")
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(file), stdout, "the file and standard output are the same")
}

func TestMatrixFilters(t *testing.T) {
	for _, tc := range []struct {
		name   string
		args   []string
		code   int
		stderr string
		cells  int
	}{
		{"comma lists", []string{"--sku", "b300,mi355x", "--ep", "8", "--mode", "normal"}, cli.ExitOK, "", 7},
		{"all is no filter", []string{"--sku", "all", "--backend", "", "--ep", "all"}, cli.ExitOK, "", 88},
		{"nothing left", []string{"--sku", "b300", "--backend", "mori"}, cli.ExitOK, "", 0},
		{"smaller cells", []string{"--sku", "b300", "--max-cases", "1"}, cli.ExitOK, "", 11},
		{"unknown name", []string{"--sku", "b301"}, cli.ExitUsage, "cxgen: … \"b301\" … \"b300\"", 0},
		{"not a size", []string{"--ep", "eight"}, cli.ExitUsage, "cxgen: … --ep … \"eight\" … cxgen matrix --help", 0},
		{"negative size", []string{"--world=-8"}, cli.ExitUsage, "cxgen: … --world … \"-8\" … cxgen matrix --help", 0},
		{"outside the sweep", []string{"--ep", "64"}, cli.ExitUsage, "cxgen: … 64 … 8, 16", 0},
		{"no job", []string{"--confirm"}, cli.ExitUsage, "cxgen: --confirm … --github-output", 0},
		{"an argument", []string{"more"}, cli.ExitUsage, "cxgen: … \"more\" … cxgen matrix --help", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := cxgen(t, append([]string{"matrix", "--suite", "ep-core"}, tc.args...)...)
			require.Equal(t, tc.code, code, stderr)
			wording.Has(t, stderr, tc.stderr)
			require.Equal(t, tc.stderr == "", stderr == "", stderr)
			if code == cli.ExitOK {
				file := filepath.Join(t.TempDir(), plan.FileName)
				require.NoError(t, os.WriteFile(file, []byte(stdout), 0o600))
				m, err := plan.ReadFile(file, cli.Version)
				require.NoError(t, err)
				require.Len(t, m.Include, tc.cells)
			}
		})
	}
}

func TestMatrixGitHubOutput(t *testing.T) {
	dir := t.TempDir()
	output := filepath.Join(dir, "output")
	summary := filepath.Join(dir, "summary")
	env := map[string]string{"GITHUB_OUTPUT": output, "GITHUB_STEP_SUMMARY": summary}
	run := func(args ...string) (int, string) {
		var errs bytes.Buffer
		s := cli.Streams{In: new(bytes.Buffer), Out: new(bytes.Buffer), Err: &errs, Getenv: func(k string) string { return env[k] }}
		return gen.Main(context.Background(), s, append([]string{"matrix", "--github-output", "-o", filepath.Join(dir, "m.json")}, args...)), errs.String()
	}
	code, stderr := run("--suite", "ep-core", "--sku", "gb200,mi355x")
	require.Equal(t, cli.ExitOK, code, stderr)
	text, err := os.ReadFile(output)
	require.NoError(t, err)
	got := parseOutputs(t, string(text))
	var wave struct{ Include []plan.Leg }
	require.NoError(t, json.Unmarshal([]byte(got["matrix_0"]), &wave))
	require.Equal(t, fmt.Sprint(len(wave.Include)), got["count_0"])
	require.Equal(t, "gb200-deepep-v2-ll-bf16-n2", wave.Include[0].ID)
	require.Equal(t, "arm64", wave.Include[0].Arch)
	require.Equal(t, "amd64 arm64", got["archs"])
	require.JSONEq(t, `{"include":[]}`, got["matrix_1"])
	require.Equal(t, "0", got["count_1"])

	text, err = os.ReadFile(summary)
	require.NoError(t, err)
	require.Contains(t, string(text), "## Plan\n\n"+got["count_0"]+" cells, ")
	require.Contains(t, string(text), "\n| gb200 | ")

	require.NoError(t, os.Remove(output))
	code, stderr = run("--suite", "ep-core", "--sku", "gb200,mi355x", "--confirm")
	require.Equal(t, cli.ExitOK, code, stderr)
	text, err = os.ReadFile(output)
	require.NoError(t, err)
	m, err := plan.ReadFile(filepath.Join(dir, "m.json"), cli.Version)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(parseOutputs(t, string(text))["matrix_0"]), &wave))
	for i, leg := range wave.Include {
		c := m.Include[i]
		require.Equal(t, min(17*c.Minutes+3*c.QueueMinutes, 5*24*60), leg.Minutes, "the cell, and eight runs in each of two stages")
	}

	delete(env, "GITHUB_OUTPUT")
	code, stderr = run()
	require.Equal(t, cli.ExitEnvironment, code)
	require.Contains(t, stderr, "GITHUB_OUTPUT is not set")
}

// parseOutputs reads the heredocs of an output file.
func parseOutputs(t *testing.T, text string) map[string]string {
	t.Helper()
	out := map[string]string{}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := 0; i < len(lines); i += 3 {
		name, delimiter, ok := strings.Cut(lines[i], "<<")
		require.True(t, ok, lines[i])
		require.Equal(t, delimiter, lines[i+2])
		out[name] = lines[i+1]
	}
	return out
}

// TestLargePlanInBounds runs the program on definitions of more than 100,000
// cases: it takes at most 256 MiB.
func TestLargePlanInBounds(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "cxgen")
	build := exec.Command("go", "build", "-o", program, "../../../cmd/cxgen")
	text, err := build.CombinedOutput()
	require.NoError(t, err, string(text))
	defs := filepath.Join(dir, "defs")
	writeLarge(t, defs, 15)

	cmd := exec.Command(program, "matrix", "--definitions", defs, "-o", filepath.Join(dir, "m.json"))
	text, err = cmd.CombinedOutput()
	require.NoError(t, err, string(text))
	require.Equal(t, "825 cells, 103680 runnable and 0 unsupported cases\n", string(text))
	used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	require.True(t, ok)
	require.Less(t, used.Maxrss, int64(256<<10), "KiB")
}

// writeLarge writes definitions of 6912 cases for each platform.
func writeLarge(t *testing.T, dir string, platforms int) {
	t.Helper()
	files := map[string]string{
		"backends.yaml": `backends:
  ring:
    vendors: [nvidia]
    maturity: candidate
    setup_seconds: 0
    collective:
      ops: [all_reduce, all_gather, reduce_scatter, alltoall, broadcast, sendrecv, reduce, gather, scatter]
      dtypes: [int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3, f8e5m2]
      redops: [sum, prod, max, min, avg, mulsum]
      modes: [pipelined, per_iteration]
      registrations: [none, local, symmetric]
`,
		"workloads.yaml": `workloads:
  unused: {hidden: 64, topk: 1, experts: 2, seed: 1, ladders: {decode: [1]}}
routings:
  uniform: each expert alike
`,
		"sampling.yaml": `profiles:
  short:
    ep: {iters_per_trial: 1, trials_per_point: 1, warmup_iters_per_trial: 1, chain_iters_per_trial: 4, chain_trials_per_point: 1, chain_drop: 1}
    collective: {warmup: 1, iterations: 2, trials: 3}
`,
	}
	var skus []string
	for i := range platforms {
		sku := fmt.Sprintf("pool-%02d", i)
		skus = append(skus, sku)
		files["platforms/"+sku+".yaml"] = `vendor: nvidia
product: h100
arch: sm90
cpu: amd64
gpus_per_node: 8
scale_up: {domain: 8, transport: nvlink, pace: {us: 10, gbps: 1000}}
scale_out: {pace: {us: 20, gbps: 1000}}
launch: {launcher: bare, container: none}
backends:
  ring: {collective: [2, 4, 8, 16]}
`
	}
	files["suites/large.yaml"] = `platforms: [` + strings.Join(skus, ", ") + `]
sampling: short
collective:
  - backends: [ring]
    ops: [all_reduce, all_gather, reduce_scatter, alltoall, broadcast, sendrecv, reduce, gather, scatter]
    dtypes: [int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3, f8e5m2]
    redops: [sum, prod, max, min, avg, mulsum]
    sizes: {from: 8, to: 8GiB, factor: 2}
    placements: [out_of_place, in_place]
    modes: [pipelined, per_iteration]
    buffers: [cold, warm]
    registrations: [none, local, symmetric]
`
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
}
