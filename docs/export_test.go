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
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/internal/wheels"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/export"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// The lines for DuckDB and pandas in export.md run, and find the figures of the documents.
func TestExportExamples(t *testing.T) {
	page, err := os.ReadFile("export.md")
	require.NoError(t, err)
	packages := wheels.Dataframes(t)

	dir := t.TempDir()
	other := resulttest.Attempt()
	other.RunID = "4712"
	pairs := plantest.Collective(2, func(c *plan.Case) {
		collective.Of(c).Op, collective.Of(c).RedOp, collective.Of(c).Placements = "p2p", "", []string{"out_of_place"}
	})
	measured := []*collective.Document{
		resulttest.Collective(resulttest.CollectiveCase(), other),
		resulttest.Collective(pairs, resulttest.Attempt()),
		resulttest.Collective(pairs, other),
	}
	var lines []byte
	for _, d := range []result.Document{
		resulttest.EP(resulttest.EPCase(), resulttest.Attempt()),
		resulttest.Fail(resulttest.New(resulttest.CollectiveCase(), resulttest.Attempt()), "timeout"),
		measured[0], measured[1], measured[2],
	} {
		line, err := result.EncodeDocument(d)
		require.NoError(t, err)
		lines = append(lines, line...)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run.ndjson"), lines, 0o644))
	for _, format := range []string{"csv", "parquet"} {
		_, err := export.Write([]string{filepath.Join(dir, "run.ndjson")}, nil, filepath.Join(dir, "run."+format), format, "cxrun test")
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
		{{ep, 1.0, 2.0}, {ep, 2.0, 2.0}, {ep, 4.0, 2.0}},
	}, answers)

	python := blocks("python")
	require.Len(t, python, 1)
	printed := strings.Split(strings.TrimSpace(string(run(python[0]+`
import json
print(json.dumps([sorted(set(table.run_id)), curves.stack().tolist()]))`, ""))), "\n")
	var busbw []float64
	for _, d := range measured {
		for _, r := range d.Measurement.Rows {
			busbw = append(busbw, r.Pipelined.BusBW)
		}
	}
	var runs []string
	var curves []float64
	got := printed[len(printed)-1]
	require.NoError(t, json.Unmarshal([]byte(got), &[]any{&runs, &curves}))
	require.Equal(t, []string{"4711", "4712"}, runs, "run ids are text")
	require.ElementsMatch(t, busbw, curves, "one value for each pair and run")
	require.Contains(t, strings.Join(printed, "\n"), "out_of_place")
}
