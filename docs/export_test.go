package docs_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/internal/wheels"
	"github.com/collectivex/collectivex/pkg/export"
	"github.com/collectivex/collectivex/pkg/result"
)

// The lines for DuckDB and pandas in export.md run, and find the figures of the documents.
func TestExportExamples(t *testing.T) {
	page, err := os.ReadFile("export.md")
	require.NoError(t, err)
	packages := wheels.Dataframes(t)

	dir := t.TempDir()
	var lines []byte
	for _, d := range []result.Document{
		resulttest.EP(resulttest.EPCase(), resulttest.Attempt()),
		resulttest.Fail(resulttest.New(resulttest.CollectiveCase(), resulttest.Attempt()), "timeout"),
	} {
		line, err := result.EncodeDocument(d)
		require.NoError(t, err)
		lines = append(lines, line...)
	}
	other := resulttest.Attempt()
	other.RunID = "4712"
	c := resulttest.Collective(resulttest.CollectiveCase(), other)
	line, err := result.EncodeDocument(c)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run.ndjson"), append(lines, line...), 0o644))
	for _, name := range []string{"run.csv", "run.parquet"} {
		_, err := export.Write([]string{filepath.Join(dir, "run.ndjson")}, filepath.Join(dir, name), "cxrun test")
		require.NoError(t, err)
	}

	run := func(script, input string) []byte {
		cmd := exec.Command(need.Tool(t, "python3"), "-c", script)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+packages)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, "%s", stderr.String())
		return out
	}
	blocks := func(language string) (out []string) {
		for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
			out = append(out, m[1])
		}
		return out
	}

	queries, err := json.Marshal(blocks("sql"))
	require.NoError(t, err)
	var answers [][][]any
	require.NoError(t, json.Unmarshal(run(`
import duckdb, json, sys
print(json.dumps([duckdb.sql(query).fetchall() for query in json.load(sys.stdin)]))`, string(queries)), &answers))
	const ep = "local-host-deepseek-v3-normal-decode-ep2-uniform-bf16"
	require.Equal(t, [][][]any{
		{ // 1.5 × (10 + tokens) µs
			{"local", "host", "normal", "bf16", 2.0, 1.0, 16.5},
			{"local", "host", "normal", "bf16", 2.0, 2.0, 18.0},
			{"local", "host", "normal", "bf16", 2.0, 4.0, 21.0},
		},
		{{"local-host-all-reduce-float-sum-w2-warm", "failed", "timeout", 1.0}},
		{{ep, 1.0, 2.0}, {ep, 2.0, 2.0}, {ep, 4.0, 2.0}},
	}, answers)

	python := blocks("python")
	require.Len(t, python, 1)
	printed := strings.Split(strings.TrimSpace(string(run(python[0]+`
import json
print(json.dumps([sorted(set(table.run_id)), busbw.value.tolist()]))`, ""))), "\n")
	var busbw []any
	for _, r := range c.Measurement.Rows {
		busbw = append(busbw, r.Pipelined.BusBW)
	}
	var got []any
	require.NoError(t, json.Unmarshal([]byte(printed[len(printed)-1]), &got))
	require.Equal(t, []any{[]any{"4711", "4712"}, busbw}, got, "run ids are text")
	require.Contains(t, strings.Join(printed, "\n"), "out_of_place")
}
