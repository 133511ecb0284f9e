package toy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/internal/schema"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/run"
	"github.com/collectivex/collectivex/pkg/export"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// cxrun runs a command in this process, with the same environment as its ranks.
func cxrun(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run.Main(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: os.Getenv}, args)
	return code, out.String(), errs.String()
}

// passes runs a command that must pass, and returns what it prints.
func passes(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := cxrun(t, args...)
	require.Equal(t, cli.ExitOK, code, "%s%s", stdout, stderr)
	return stdout
}

// playground is a directory with the definitions of a host, and a ball.
func playground(t *testing.T) (defs string) {
	t.Helper()
	dir := t.TempDir()
	defs = filepath.Join(dir, "definitions")
	require.NoError(t, os.CopyFS(defs, definitions(t, toys, "host")))
	library := filepath.Join(dir, "ball")
	require.NoError(t, os.WriteFile(library, []byte("1.5\n"), 0o644))
	t.Setenv(ballVariable, library)
	t.Setenv("TMPDIR", dir)
	return defs
}

// swept runs the suite on two ranks and returns its directory.
func swept(t *testing.T, defs string, wantCode int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "swept")
	code, stdout, stderr := cxrun(t, "sweep", "--definitions", defs, "--suite", "toys", "--tone", "ping", "--world", "2", "--out", dir)
	require.Equal(t, wantCode, code, "%s%s", stdout, stderr)
	return dir
}

// read returns the documents of an NDJSON file.
func read(t *testing.T, ndjson string) (all []*document) {
	t.Helper()
	for line := range bytes.Lines(fileOf(t, ndjson)) {
		d, err := result.Decode(line)
		require.NoError(t, err)
		all = append(all, d.(*document))
	}
	return all
}

func fileOf(t *testing.T, path ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return data
}

// A family that registers itself and nothing else goes from its definitions through ranks to
// documents, and to all that people make of them.
func TestAFamilyFromElsewhereFromDefinitionToExport(t *testing.T) {
	dir := swept(t, playground(t), cli.ExitOK)
	cells, matrix, out := filepath.Join(dir, "cells"), filepath.Join(dir, "matrix_full.json"), t.TempDir()
	ndjson := filepath.Join(out, "run.ndjson")
	passes(t, "aggregate", "--in", cells, "--matrix", matrix, "-o", ndjson)
	for _, d := range read(t, ndjson) {
		require.Equal(t, result.Success, d.Outcome.Status)
		require.Equal(t, "1.5", *d.Implementation.LibraryVersion)
		require.Len(t, d.Rows, 2)
		for i, size := range []int64{8, 64} {
			require.Equal(t, size, d.Rows[i].Bytes)
			require.Equal(t, 4, d.Rows[i].Micros.N)
			require.Equal(t, 2*4*size, d.Rows[i].Checked)
		}
	}

	require.Regexp(t, `(?s)Toys\n.*local-ball-ping-w2 +2 +64 B`, passes(t, "summarize", "--in", ndjson, "--matrix", matrix, "--gate"))
	require.Contains(t, passes(t, "summarize", "--in", ndjson, "--format", "json"), `"toys":[{"case_id":"local-ball-ping-w2","rows":2,"bytes":64,`)
	passes(t, "report", "--in", ndjson, "-o", filepath.Join(out, "page.html"), "--figures", out)
	require.Contains(t, string(fileOf(t, out, "page.html")), "Toys there and back")
	require.Contains(t, string(fileOf(t, out, "toys.svg")), "Toys there and back")

	for _, format := range export.Formats() {
		in := ndjson
		if format == "json" { // a trace is of one case
			documents, err := filepath.Glob(filepath.Join(cells, "*", "*.json"))
			require.NoError(t, err)
			in = documents[0]
		}
		passes(t, "export", "--in", in, "-o", filepath.Join(out, "toys."+format))
	}
	require.Equal(t, 2*2, strings.Count(string(fileOf(t, out, "toys.csv")), ",latency,p50,us,"), "cases and sizes")
	require.Equal(t, "PAR1", string(fileOf(t, out, "toys.parquet")[:4]))
	require.Contains(t, string(fileOf(t, out, "toys.prom")), `op_or_phase="echo"`)
	var trace struct {
		Events []struct {
			Name  string `json:"name"`
			Phase string `json:"ph"`
			Rank  int    `json:"pid"`
		} `json:"traceEvents"`
	}
	require.NoError(t, json.Unmarshal(fileOf(t, out, "toys.json"), &trace))
	throws := map[string]int{}
	for _, e := range trace.Events {
		if e.Phase == "X" {
			throws[fmt.Sprintf("rank %d, %s", e.Rank, e.Name)]++
		}
	}
	require.Equal(t, map[string]int{"rank 0, 8 bytes": 4, "rank 0, 64 bytes": 4, "rank 1, 8 bytes": 4, "rank 1, 64 bytes": 4}, throws)
}

// A rank that throws back something else makes the case invalid, and no figure of the size counts.
func TestAFamilyFromElsewhereFindsALie(t *testing.T) {
	defs := playground(t)
	t.Setenv(rank.FaultVariable, "case=local-ball-ping-w2,rank=1,kind="+wrongEcho)
	dir := swept(t, defs, cli.ExitFailed)
	of := map[string]*document{}
	for _, d := range read(t, filepath.Join(dir, "run.ndjson")) {
		of[d.Identity.CaseID] = d
	}
	d := of["local-ball-ping-w2"]
	require.Equal(t, result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonCheck, Detail: "wrong echo, 8 bytes"}}}, d.Outcome)
	require.Equal(t, int64(4), d.Rows[0].Wrong, "a byte of each throw, which rank 0 finds")
	require.False(t, figures(d)[0].Passed)
	require.Equal(t, result.Success, of["local-ball-ping-w2-r2"].Outcome.Status)

	d.Outcome = result.Outcome{Status: result.Success, Reasons: result.Reasons{}}
	require.ErrorContains(t, result.Validate(d), "4 of 64 bytes wrong", "what it shows, a document cannot deny")

	t.Setenv(rank.FaultVariable, "rank=1,kind=victim")
	_, _, stderr := cxrun(t, "bench", "toy", "--definitions", defs)
	wording.Has(t, stderr, "unknown kind … "+wrongEcho)
}

// `cxrun bench` measures the family on what is here, and refuses what its backend does not have.
func TestAFamilyFromElsewhereByHand(t *testing.T) {
	defs := playground(t)
	args := []string{"bench", "toy", "--definitions", defs, "-b", "8", "-e", "64", "-f", "8"}
	require.Regexp(t, `(?s)toys on backend ball .*\n +64 +[0-9.]+  OK\n`, passes(t, args...))
	var r report
	require.NoError(t, json.Unmarshal([]byte(passes(t, append(args, "ping", "--backend", "ball", "--json")...)), &r))
	require.True(t, r.Passed)
	require.Equal(t, "ball", r.Backend)
	require.Len(t, r.Cases[0].Rows, 2)

	code, _, stderr := cxrun(t, append(args, "pong")...)
	require.Equal(t, cli.ExitEnvironment, code)
	wording.Has(t, stderr, "backend ball has no tone pong")
	code, _, stderr = cxrun(t, append(args, "pin")...)
	require.Equal(t, cli.ExitUsage, code)
	wording.Has(t, stderr, `unknown tone "pin"; did you mean "ping"?`)

	t.Setenv(rank.FaultVariable, "rank=0,kind="+wrongEcho)
	code, stdout, _ := cxrun(t, args...)
	require.Equal(t, cli.ExitFailed, code)
	wording.Has(t, stdout, "FAILED … # INVALID: check-failed: wrong echo")
}

// doctor names the library of the family's backend or, without it, what to do. So does bench.
func TestAFamilyFromElsewhereAtTheDoctor(t *testing.T) {
	defs := playground(t)
	require.Regexp(t, `(?m)^ball +ready +.*, Ball 1\.5$`, passes(t, "doctor", "--definitions", defs, "--backend", "ball"))

	t.Setenv(ballVariable, "/nowhere")
	code, stdout, _ := cxrun(t, "doctor", "--definitions", defs, "--backend", "ball")
	require.Equal(t, cli.ExitEnvironment, code)
	require.Regexp(t, `(?m)^ball +missing +no ball: set `+ballVariable, stdout)
	code, _, stderr := cxrun(t, "bench", "toy", "--definitions", defs, "--backend", "ball")
	require.Equal(t, cli.ExitEnvironment, code)
	wording.Has(t, stderr, "ball … set "+ballVariable)
}

// played writes the documents of five runs into a directory, whose echoes of both sizes take so many
// microseconds.
func played(t *testing.T, micros float64) (dir string) {
	t.Helper()
	cat, err := catalog.Load(definitions(t, toys, "host"))
	require.NoError(t, err)
	m := resolve(t, cat, planner.Filters{Only: planner.Only{"suite": {"toys"}, "tone": {"ping"}, "world": {"2"}}})
	c := m.RequestedOther[0].Case
	dir = t.TempDir()
	for i := range 5 {
		made, err := result.New(c, result.Attempt{RunID: fmt.Sprintf("%v-%d", micros, i), RunAttempt: "1", Ordinal: 1, At: time.Unix(1e9, 0).UTC(), Vendor: "host", Generator: "toy v1"})
		require.NoError(t, err)
		d := made.(*document)
		d.Outcome = result.Outcome{Status: result.Success, Reasons: result.Reasons{}}
		for _, size := range of(&c).Sizes {
			us := []float64{micros, micros + float64(i), micros, micros}
			d.Rows = append(d.Rows, row{Bytes: size, Micros: result.NewBurst(us), Checked: 8 * size})
		}
		require.NoError(t, result.Validate(d))
		_, err = result.Write(dir, d, i, func([]byte) error { return nil })
		require.NoError(t, err)
	}
	return dir
}

// Two sides of a family from elsewhere are compared by its figures, and are in the charts of one page.
func TestAFamilyFromElsewhereIsCompared(t *testing.T) {
	before, after := played(t, 12.5), played(t, 25)
	require.Regexp(t, `(?m)^local-ball-ping-w2\n +echo p50 +slower\? +\+100\.0 % .* 64 bytes$`, passes(t, "compare", before, after))

	html := filepath.Join(t.TempDir(), "page.html")
	passes(t, "report", "--in", before, "--in", after, "-o", html)
	_, view, _ := strings.Cut(string(fileOf(t, html)), `id="view-toys"`)
	view, _, _ = strings.Cut(view, "</section>")
	for _, want := range []string{"Toys there and back", "bytes of a message", "toy rate at p50 MB/s", ">12.5<", ">25<", ">ping<", fmt.Sprintf(">%v<", 2*64/12.5)} {
		require.Contains(t, view, want)
	}
}

// The documents of a family from elsewhere have a JSON Schema, with the comments of its types.
func TestAFamilyFromElsewhereHasASchema(t *testing.T) {
	files, err := schema.Files()
	require.NoError(t, err)
	const name = "toy-attempt.schema.json"
	i := slices.IndexFunc(files, func(f schema.File) bool { return f.Name == name })
	require.GreaterOrEqual(t, i, 0)
	require.Contains(t, string(files[i].Data), "there and back")
	documents, err := filepath.Glob(filepath.Join(played(t, 1), "*.json"))
	require.NoError(t, err)
	for _, path := range documents {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(fileOf(t, path)))
		require.NoError(t, err)
		require.NoError(t, resulttest.Schemas(t)[name].Validate(v))
	}
}
