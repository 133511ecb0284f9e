package export_test

import (
	"bytes"
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/export"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

const (
	ep        = "local-host-deepseek-v3-normal-decode-ep2-uniform-bf16"
	allReduce = "local-host-all-reduce-float-sum-w2-warm"
)

// write writes documents as an NDJSON file and returns its path.
func write(t *testing.T, docs ...result.Document) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.ndjson")
	var lines []byte
	for _, d := range docs {
		line, err := result.EncodeDocument(d)
		require.NoError(t, err)
		lines = append(lines, line...)
	}
	require.NoError(t, os.WriteFile(path, lines, 0o644))
	return path
}

// pairs is a document with a row for each pair of ranks.
func pairs() result.Document {
	return resulttest.Collective(plantest.Collective(2, func(c *plan.Case) {
		collective.Of(c).Op, collective.Of(c).RedOp, collective.Of(c).Placements = "p2p", "", []string{"out_of_place"}
	}), resulttest.Attempt())
}

// keyed is a document whose rows have keys of their own.
func keyed(t *testing.T) *collective.Document {
	t.Helper()
	d := resulttest.Collective(resulttest.CollectiveCase(), resulttest.Attempt())
	for i := range d.Measurement.Rows {
		key, err := collective.RowKey(d.ComparisonKey, &d.Measurement.Rows[i])
		require.NoError(t, err)
		d.Measurement.Rows[i].Key = key
	}
	return d
}

// documents are a successful case of each form of rows, and one that failed without rows
// after it had failed before.
func documents(t *testing.T) string {
	t.Helper()
	second := resulttest.Attempt()
	second.Ordinal = 2
	failing := plantest.Collective(2, func(c *plan.Case) { c.Precision = "half" })
	return write(t,
		resulttest.EP(resulttest.EPCase(), resulttest.Attempt()),
		keyed(t),
		pairs(),
		resulttest.Fail(resulttest.New(failing, resulttest.Attempt()), "rank-died"),
		resulttest.Fail(resulttest.New(failing, second), "timeout", "skipped"),
	)
}

// others are documents of the families that documents lacks.
func others(t *testing.T) string {
	t.Helper()
	a := resulttest.Attempt()
	return write(t,
		resulttest.Simulation(plantest.Simulation(), a),
		resulttest.Transfer(plantest.Transfer(), a),
		resulttest.Copy(plantest.Copy("ce", "device_to_device_bidirectional_memcpy_read_ce"), a),
		resulttest.Copy(plantest.Copy("ce", "device_local_copy", func(c *plan.Case) { copies.Of(c).Victim = true }), a),
		resulttest.Copy(plantest.Copy("ce", "swap_blocks_h2d"), a),
		resulttest.Copy(plantest.Copy("sm", "host_device_latency_sm", func(c *plan.Case) { copies.Of(c).Sizes = []int64{4096} }), a),
		resulttest.Overlap(plantest.Overlap("host", overlap.LinearRotation, 2), a),
	)
}

// table exports path as CSV and returns its rows by column.
func table(t *testing.T, path string) (rows []map[string]string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run.csv")
	_, err := export.Write([]string{path}, nil, out, "csv", "cxrun test")
	require.NoError(t, err)
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	require.NotContains(t, string(text), "\r")
	cells, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, export.Columns(), cells[0])
	for _, line := range cells[1:] {
		row := map[string]string{}
		for i, c := range line {
			row[cells[0][i]] = c
		}
		rows = append(rows, row)
	}
	return rows
}

// pick returns the rows that have the given columns.
func pick(rows []map[string]string, want map[string]string) (out []map[string]string) {
	for _, r := range rows {
		if matches := func() bool {
			for k, v := range want {
				if r[k] != v {
					return false
				}
			}
			return true
		}(); matches {
			out = append(out, r)
		}
	}
	return out
}

func TestTheTableHasOneFigurePerRow(t *testing.T) {
	rows := table(t, documents(t))

	got := pick(rows, map[string]string{"case_id": ep, "x": "4", "metric": "pair_period", "stat": "p50"})
	require.Len(t, got, 1)
	d := resulttest.EP(resulttest.EPCase(), resulttest.Attempt())
	require.Equal(t, map[string]string{
		"run_id": "4711", "run_attempt": "1", "generated_at": "2026-01-02T03:04:05.006Z", "case_id": ep, "comparison_key": d.ComparisonKey,
		"sku": "local", "backend": "host", "library_version": "", "family": "ep", "op_or_phase": "decode", "mode": "normal", "dtype": "bf16",
		"world": "2", "nodes": "1", "repeat": "1", "attempt_ordinal": "1", "outcome": "success", "reason": "", "run": "4711",
		"x_name": "tokens_per_rank", "x": "4", "placement": "", "src": "", "dst": "", "timing": "chained", "metric": "pair_period",
		"stat": "p50", "unit": "us", "value": "21", "sample_count": "24", "complete": "true", "passed": "true",
	}, got[0])

	got = pick(rows, map[string]string{"case_id": allReduce, "x": "1048576", "placement": "in_place", "timing": "pipelined", "metric": "busbw"})
	require.Len(t, got, 1)
	row := keyed(t).Measurement.Rows[5]
	require.Equal(t, strconv.FormatFloat(row.Pipelined.BusBW, 'g', -1, 64), got[0]["value"])
	require.Equal(t, row.Key, got[0]["comparison_key"], "of the row, not of the document")

	for _, src := range []string{"0", "1"} {
		require.NotEmpty(t, pick(rows, map[string]string{"op_or_phase": "p2p", "src": src, "metric": "latency", "stat": "p50"}))
	}
	require.Empty(t, pick(rows, map[string]string{"op_or_phase": "p2p", "src": "", "metric": "latency"}))

	// Every figure has a row of its own.
	seen := map[string]bool{}
	for _, r := range rows {
		id := strings.Join([]string{r["run_id"], r["case_id"], r["x"], r["placement"], r["src"], r["dst"], r["timing"], r["metric"], r["stat"]}, "|")
		require.False(t, seen[id], id)
		seen[id] = true
	}
}

// The clocks of a copy have rows of their own, and so have the opposite direction and both together.
func TestCopiesInTheTable(t *testing.T) {
	d := resulttest.Copy(plantest.Copy("ce", "device_to_device_bidirectional_memcpy_read_ce"), resulttest.Attempt())
	d.Measurement.Rows[0].Device = nil // as with more pieces than a device queues
	rows := table(t, write(t, d))
	rates := func(x, timing string) []map[string]string {
		return pick(rows, map[string]string{"op_or_phase": "device_to_device_bidirectional_memcpy_read_ce", "x_name": "bytes", "x": x, "timing": timing, "unit": "GB/s"})
	}
	require.Len(t, rates("4096", "host"), 3)
	require.Len(t, pick(rows, map[string]string{"x": "4096", "timing": "host", "metric": "overlap"}), 1)
	require.Empty(t, rates("4096", "device"))
	require.Len(t, rates("1048576", "device"), 2)
	got := pick(rows, map[string]string{"x": "1048576", "timing": "device", "metric": "latency", "stat": "p50"})
	require.Len(t, got, 1)
	require.Equal(t, "loop streams1 pieces1", got[0]["placement"])
}

// A case that left no row is in the table, with its newest attempt.
func TestFailedCasesAreInTheTable(t *testing.T) {
	got := pick(table(t, documents(t)), map[string]string{"outcome": "failed"})
	require.Len(t, got, 1)
	require.Equal(t, []string{"attempts", "2", "2", "timeout", "false"},
		[]string{got[0]["metric"], got[0]["value"], got[0]["attempt_ordinal"], got[0]["reason"], got[0]["passed"]})
}

// The runs below a path have its name, in every row of CSV and Parquet.
func TestRunsHaveNames(t *testing.T) {
	second := resulttest.Attempt()
	second.RunID = "4712"
	in := []string{write(t, resulttest.EP(resulttest.EPCase(), resulttest.Attempt())), write(t, resulttest.EP(resulttest.EPCase(), second))}
	names := map[string]bool{}
	var text bytes.Buffer
	_, err := export.To(&text, in, []string{"before", "after"}, "csv", "cxrun test")
	require.NoError(t, err)
	cells, err := csv.NewReader(&text).ReadAll()
	require.NoError(t, err)
	run := slices.Index(cells[0], "run")
	for _, row := range cells[1:] {
		names[row[slices.Index(cells[0], "run_id")]+" "+row[run]] = true
	}
	require.Equal(t, map[string]bool{"4711 before": true, "4712 after": true}, names)
	out := filepath.Join(t.TempDir(), "run.parquet")
	_, err = export.Write(in, []string{"before", "after"}, out, "parquet", "cxrun test")
	require.NoError(t, err)
	rows, err := parquet.ReadFile[export.Row](out)
	require.NoError(t, err)
	for _, r := range rows {
		require.Equal(t, map[string]string{"4711": "before", "4712": "after"}[r.RunID], r.Run)
	}
}

func TestParquetHoldsTheSameTable(t *testing.T) {
	in := documents(t)
	want := table(t, in)
	out := filepath.Join(t.TempDir(), "run.parquet")
	_, err := export.Write([]string{in}, nil, out, "parquet", "cxrun test")
	require.NoError(t, err)
	rows, err := parquet.ReadFile[export.Row](out)
	require.NoError(t, err)
	require.Len(t, rows, len(want))
	again := filepath.Join(t.TempDir(), "again.parquet")
	_, err = export.Write([]string{in}, nil, again, "parquet", "cxrun test")
	require.NoError(t, err)
	one, err := os.ReadFile(out)
	require.NoError(t, err)
	two, err := os.ReadFile(again)
	require.NoError(t, err)
	require.Equal(t, one, two, "the same documents give the same bytes")

	for i, r := range rows {
		require.Equal(t, want[i]["value"], strconv.FormatFloat(r.Value, 'g', -1, 64))
		require.Equal(t, []string{want[i]["case_id"], want[i]["metric"], want[i]["stat"], want[i]["reason"]}, []string{r.CaseID, r.Metric, r.Stat, r.Reason})
		if x := want[i]["x"]; x == "" {
			require.Nil(t, r.X)
		} else {
			require.Equal(t, x, strconv.FormatInt(*r.X, 10))
		}
	}
	require.Equal(t, resulttest.At, rows[0].GeneratedAt.UTC())
}

func TestPrometheus(t *testing.T) {
	in := documents(t)
	out := filepath.Join(t.TempDir(), "run.prom")
	_, err := export.Write([]string{in}, nil, out, "prom", "cxrun test")
	require.NoError(t, err)
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(text), "\n"))

	help := regexp.MustCompile(`^# HELP ([a-z_]+) .+$`)
	kind := regexp.MustCompile(`^# TYPE ([a-z_]+) gauge$`)
	line := regexp.MustCompile(`^([a-z_]+)\{[a-z_]+="[^"\\\n]*"(?:,[a-z_]+="[^"\\\n]*")*\} [-+0-9.e]+$`)
	var metrics []string
	seen := map[string]bool{}
	for l := range strings.Lines(string(text)) {
		l = strings.TrimSuffix(l, "\n")
		series, _, _ := strings.Cut(l, " ")
		require.False(t, series != "#" && seen[series], l)
		seen[series] = true
		if m := help.FindStringSubmatch(l); m != nil {
			require.NotContains(t, metrics, m[1], "the lines of a metric stand together")
			metrics = append(metrics, m[1])
			continue
		}
		m := kind.FindStringSubmatch(l)
		if m == nil {
			m = line.FindStringSubmatch(l)
		}
		require.NotNil(t, m, l)
		require.Equal(t, metrics[len(metrics)-1], m[1])
	}
	require.Contains(t, string(text), `collectivex_pair_period_seconds{case_id="`+ep+`",sku="local",backend="host",family="ep",op_or_phase="decode",mode="normal",dtype="bf16",world="2",nodes="1",tokens_per_rank="4",timing="chained",stat="p50"} 2.1e-05`+"\n")
	require.Contains(t, string(text), `collectivex_case_success{case_id="local-host-all-reduce-half-sum-w2-warm",sku="local",backend="host",family="collective",world="2",nodes="1",stat="count"} 0`+"\n")
	require.Contains(t, string(text), `collectivex_case_success{case_id="`+ep+`",sku="local",backend="host",family="ep",world="2",nodes="1",stat="count"} 1`+"\n")

	// The newest figures of two runs cannot both be the newest.
	other := resulttest.Attempt()
	other.RunID = "4712"
	two := write(t, resulttest.EP(resulttest.EPCase(), resulttest.Attempt()), resulttest.EP(resulttest.EPCase(), other))
	before, err := os.ReadFile(out)
	require.NoError(t, err)
	_, err = export.Write([]string{two}, nil, out, "prom", "cxrun test")
	require.ErrorContains(t, err, "these documents are of runs 4711 and 4712; export one run")
	after, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, before, after, "a failed export leaves the older file")
}

// Prometheus' own linter has nothing to say about the gauges of any family.
func TestPromtool(t *testing.T) {
	cmd := exec.Command(need.Tool(t, "promtool"), "check", "metrics")
	var gauges bytes.Buffer
	_, err := export.To(&gauges, []string{documents(t), others(t)}, nil, "prom", "cxrun test")
	require.NoError(t, err)
	cmd.Stdin = &gauges
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Empty(t, string(said))
}

// Rows that did not pass are in the table as such, and are not gauges.
func TestInvalidRowsAreNoGauges(t *testing.T) {
	d := resulttest.Collective(resulttest.CollectiveCase(), resulttest.Attempt())
	d.Measurement.Rows[0].Check = collective.Check{Passed: false, Wrong: 7, Checked: 8}
	d.Outcome = result.Outcome{Status: result.Invalid, Reasons: result.Reasons{result.ReasonCheck.With("data 8 bytes")}}
	in := write(t, d)
	wrong := pick(table(t, in), map[string]string{"metric": "wrong_elements", "value": "7"})
	require.Len(t, wrong, 1)
	require.Equal(t, []string{"true", "false", "invalid"}, []string{wrong[0]["complete"], wrong[0]["passed"], wrong[0]["outcome"]})

	out := filepath.Join(t.TempDir(), "run.prom")
	_, err := export.Write([]string{in}, nil, out, "prom", "cxrun test")
	require.NoError(t, err)
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	require.NotContains(t, string(text), `bytes="8",placement="out_of_place"`)
	require.Contains(t, string(text), `bytes="8",placement="in_place"`)
}

// A cell that a spreadsheet would compute is made harmless; numbers stay numbers.
func TestFormulasAreGuarded(t *testing.T) {
	d := resulttest.EP(resulttest.EPCase(), resulttest.Attempt())
	version := `=HYPERLINK("x")`
	d.Implementation.LibraryVersion = &version
	d.Measurement.Rows[0].ChainHealth.SettleDrift.Percentiles.P50 = -0.5
	rows := table(t, write(t, d))
	require.Equal(t, `'=HYPERLINK("x")`, rows[0]["library_version"])
	drift := pick(rows, map[string]string{"metric": "settle_drift", "stat": "p50", "x": "1"})
	require.Equal(t, "-0.5", drift[0]["value"])
}

// Without a document, and in an unknown format, an older file stays as it is.
func TestNothingToWrite(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run.csv")
	require.NoError(t, os.WriteFile(out, []byte("older"), 0o644))
	_, err := export.Write([]string{t.TempDir()}, nil, out, "csv", "cxrun test")
	require.ErrorIs(t, err, export.ErrNone)
	_, err = export.Write([]string{documents(t)}, nil, out, "xlsx", "cxrun test")
	require.ErrorContains(t, err, "xlsx")
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, "older", string(text))
}

// docs/export.md describes every column in its order and every metric, and nothing else.
func TestTheDocumentedTable(t *testing.T) {
	data, err := os.ReadFile("../../docs/export.md")
	require.NoError(t, err)
	names := func(head string) (out []string) {
		_, body, found := strings.Cut(string(data), head)
		require.True(t, found, head)
		body, _, _ = strings.Cut(body, "\n\n")
		for _, row := range regexp.MustCompile("(?m)^\\| ((?:`[a-z_0-9]+`(?:, )?)+) \\|").FindAllStringSubmatch(body, -1) {
			for _, name := range regexp.MustCompile("`([a-z_0-9]+)`").FindAllStringSubmatch(row[1], -1) {
				out = append(out, name[1])
			}
		}
		return out
	}
	require.Equal(t, export.Columns(), names("| Column | Content |"))
	var metrics []string
	for _, r := range slices.Concat(table(t, documents(t)), table(t, others(t))) {
		metrics = append(metrics, r["metric"])
	}
	slices.Sort(metrics)
	documented := names("| Metric | Timing | Content |")
	for _, optional := range []string{"stage", "enqueue", "compute_slowdown"} { // the documents of this test have none
		documented = slices.DeleteFunc(documented, func(name string) bool { return name == optional })
	}
	require.ElementsMatch(t, slices.Compact(metrics), documented)
}

// No metric of a simulated case is that of a measured one, so that no series has both.
func TestSimulationsStandAlone(t *testing.T) {
	measured, simulated := plantest.Twins()
	path := write(t, resulttest.Schedule(measured, resulttest.Attempt()), resulttest.Simulation(simulated, resulttest.Attempt()))
	metrics := map[string]map[string]bool{}
	for _, row := range table(t, path) {
		if row["metric"] == "attempts" {
			continue
		}
		if metrics[row["metric"]] == nil {
			metrics[row["metric"]] = map[string]bool{}
		}
		metrics[row["metric"]][row["case_id"]] = true
		require.Equal(t, row["case_id"] == simulated.CaseID, row["timing"] == "simulated", row)
	}
	for metric, cases := range metrics {
		require.Len(t, cases, 1, metric)
	}
	require.Contains(t, metrics, "makespan")
	require.Contains(t, metrics, "latency")
	var sum, makespan float64
	for _, row := range table(t, path) {
		value, err := strconv.ParseFloat(row["value"], 64)
		require.NoError(t, err)
		switch {
		case row["metric"] == "makespan":
			makespan += value
		case strings.HasPrefix(row["metric"], "critical_path_"):
			sum += value
		}
	}
	require.InEpsilon(t, makespan, sum, 1e-9)

	out := filepath.Join(t.TempDir(), "run.prom")
	_, err := export.Write([]string{path}, nil, out, "prom", "cxrun test")
	require.NoError(t, err)
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Contains(t, string(text), "collectivex_makespan_seconds{")
	for line := range strings.Lines(string(text)) {
		name, labels, found := strings.Cut(line, "{")
		if found && !strings.HasPrefix(name, "collectivex_case_") {
			require.Equal(t, strings.Contains(labels, simulated.CaseID), strings.Contains(labels, `stat="simulated"`), line)
		}
	}
}

// The table has no percentile that its samples cannot give.
func TestPercentilesOfFewSamples(t *testing.T) {
	for n, want := range map[int][]string{9: {"p50"}, 19: {"p50", "p90"}, 99: {"p50", "p90", "p95"}, 100: {"p50", "p90", "p95", "p99"}} {
		c := resulttest.CollectiveCase()
		collective.Of(&c).Measure.Trials, collective.Of(&c).Sizes = n, []int64{1024}
		in := write(t, resulttest.Collective(c, resulttest.Attempt()))
		var stats []string
		for _, row := range pick(table(t, in), map[string]string{"timing": "pipelined", "metric": "latency", "placement": "out_of_place"}) {
			if strings.HasPrefix(row["stat"], "p") {
				stats = append(stats, row["stat"])
			}
		}
		require.Equal(t, want, stats, "%d windows", n)
	}
}

// A case that is invalid as a whole, although each of its rows passed, exports no figure that passed.
func TestFiguresOfAnInvalidCase(t *testing.T) {
	const rate = "collectivex_rate_bytes_per_second"
	gauges := func(path string) string {
		var out bytes.Buffer
		_, err := export.To(&out, []string{path}, nil, "prom", "cxrun test")
		require.NoError(t, err)
		return out.String()
	}
	d := resulttest.Transfer(plantest.Transfer(), resulttest.Attempt())
	require.Contains(t, gauges(write(t, d)), rate)
	d.Outcome = result.Outcome{Status: result.Invalid, Reasons: resulttest.Reasons("implausible: first pull of 0.1 us")}
	path := write(t, d)
	require.NotContains(t, gauges(path), rate)
	for _, row := range table(t, path) {
		require.Equal(t, "false", row["passed"])
	}
}
