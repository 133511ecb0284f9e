package run

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// shards writes the documents of a run with one failed case and its matrix.
func shards(t *testing.T) (dir, matrix string) {
	dir = t.TempDir()
	matrix = filepath.Join(dir, "matrix")
	e, c := resulttest.EPCase(), resulttest.CollectiveCase()
	m := plan.Matrix{
		Version:        plan.MatrixVersion,
		Generator:      plan.Generator{Program: "cxgen", Version: cli.Version, Format: plan.Format},
		RequestedCases: []plan.Requested{{SKU: "local", Disposition: plan.Runnable, Case: e}},
		RequestedOther: []plan.Requested{{SKU: "local", Disposition: plan.Runnable, Case: c}},
		Include:        []plan.Cell{{ID: "a", CaseIDs: []string{e.CaseID, c.CaseID}}},
	}
	require.NoError(t, m.WriteFile(matrix))
	attempt := resulttest.Attempt()
	attempt.MatrixSHA256 = m.SHA256
	for i, d := range []result.Document{
		resulttest.EP(e, attempt),
		resulttest.Fail(resulttest.New(c, attempt), string(result.ReasonTimeout)),
	} {
		_, err := result.Write(dir, d, i, func([]byte) error { return nil })
		require.NoError(t, err)
	}
	return dir, matrix
}

func TestAggregate(t *testing.T) {
	dir, matrix := shards(t)
	out := filepath.Join(dir, "run.ndjson")
	stdout, stderr := ran(t, cli.ExitFailed, nil, "aggregate", "--in", dir, "--matrix", matrix, "-o", out)
	require.Equal(t, "2 documents of 2 cases, 0 duplicates and 0 files left out\n", stdout)
	require.Equal(t, "failed: local-host-all-reduce-float-sum-w2-warm: timeout\ncxrun: 1 case failed\n", stderr)
	data := readFile(t, out)
	require.Equal(t, 2, bytes.Count(data, []byte("\n")))

	_, stderr = ran(t, cli.ExitFailed, nil, "aggregate", "--in", dir, "--matrix", matrix, "--run-id", "4711", "--source-sha", resulttest.Attempt().SourceSHA, "-o", out)
	require.Contains(t, stderr, "cxrun: 1 case failed\n")
	_, stderr = ran(t, cli.ExitFailed, nil, "aggregate", "--in", dir, "--run-id", "4712", "-o", out)
	wording.Has(t, stderr, `"4711" … "4712"`)
	_, stderr = ran(t, cli.ExitUsage, nil, "aggregate", "--in", dir)
	wording.Has(t, stderr, "\"output\" not set")
	ran(t, cli.ExitUsage, nil, "aggregate", "--in", dir, "--matrix", out, "-o", out)
	ran(t, cli.ExitUsage, nil, "aggregate", "--in", filepath.Join(dir, "none"), "-o", out)
}

// What a command line says and cannot mean is an error that says what to do.
func TestCommandLines(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o644))
	missing := filepath.Join(dir, "missing")
	broken := filepath.Join(dir, "broken.json") // is named where it is read
	require.NoError(t, os.WriteFile(broken, []byte("{"), 0o644))
	two, _ := shards(t)
	for _, tc := range []struct {
		args string
		says string
	}{
		{"help nosuch", `"nosuch"`},
		{"help sweep nosuch", `"sweep nosuch"`},
		{"completion klingon", `"klingon" … bash, fish, powershell, zsh`},
		{"repor", `"repor" … "report"`},
		{"export --in " + two + " -o " + filepath.Join(dir, "x.json"), "raw samples"},
		{"report " + broken, broken + "\" … --in " + broken},
		{"export run.ndjson -o x.csv", `"run.ndjson" … --in run.ndjson`},
		{"summarize run.ndjson", "--in run.ndjson"},
		{"aggregate run.ndjson -o x", "--in run.ndjson"},
		{"prune results --to x", "--in results"},
		{"compare --in run.ndjson", "--in … cxrun compare --help"},
		{"schedule simulate --topolgy hosts", "--topolgy … --topology"},
		{"bench kv --blocks 4K", "--blocks … --block"},
		{"bench kv -q", "-q … cxrun bench kv --help"},
		{"compare a b c", "OLD … NEW"},
		{"sweep smoke", `"smoke" … cxrun sweep --help`},
		{"sweep --max-cases 0", `"0" … --max-cases`},
		{"shard --matrix " + empty + " --id x --results x --limit 0", "--limit 0s: … 90m"},
		{"sweep --out=", "--out … empty"},
		{"sweep --definitions=", "--definitions … empty"},
		{"sweep --out -", "--out -: "},
		{"aggregate --in " + dir + " -o -", "--output -: "},
		{"aggregate --in " + missing + " -o x", "missing: no such file or directory"},
		{"aggregate --in " + dir + " -o x --matrix " + missing, "missing: no such file … cxgen matrix -o"},
		{"aggregate --in " + dir + " -o x --matrix " + empty, "matrix: empty … cxgen matrix -o"},
		{"summarize --in " + missing, "missing: no such file or directory"},
		{"summarize --in " + dir + " --matrix=", "--matrix … empty"},
		{"summarize --in=", "--in … empty"},
		{"summarize --in " + dir + " --in=", "--in … empty"},
		{"aggregate --in= -o x", "--in … empty"},
		{"summarize --in " + broken + " --format nosuch", `--format "nosuch": … markdown, text or json`},
	} {
		code, _, stderr := cxrun(t, nil, strings.Fields(tc.args)...)
		require.Equal(t, cli.ExitUsage, code, "%s: %s", tc.args, stderr)
		wording.Has(t, stderr, tc.says)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	}
	for _, args := range []string{"help", "help sweep", "completion", "completion bash"} {
		ran(t, cli.ExitOK, nil, strings.Fields(args)...)
	}
}

// The names of files in a downloaded artifact are somebody else's text.
func TestFileNamesAreForeignText(t *testing.T) {
	dir := t.TempDir()
	name := "x\n::error::forged\x1b[31m ##[add-mask]\u202e.json"
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o644))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "y"+name)))
	c, deeper := resulttest.CollectiveCase(), filepath.Join(dir, "torn"+name)
	require.NoError(t, os.Mkdir(deeper, 0o755))
	for i, to := range []string{deeper, dir} { // the case of the torn one is measured again
		a := resulttest.Attempt()
		a.Ordinal, a.At = i+1, a.At.Add(time.Duration(i)*time.Minute)
		path, err := result.Write(to, resulttest.Collective(c, a), 0, func([]byte) error { return nil })
		require.NoError(t, err)
		if to == deeper {
			require.NoError(t, os.Truncate(path, 100))
		}
	}
	for _, args := range [][]string{{"aggregate", "--in", dir, "-o", filepath.Join(dir, "x.ndjson")}, {"summarize", "--in", dir}} {
		_, stdout, stderr := cxrun(t, nil, args...)
		require.Contains(t, stderr, `x\n:\:error:\:forged\x1b[31m ##\[add-mask]\u202e.json: ends in the middle`)
		require.Contains(t, stderr, `yx\n:\:error:\:forged\x1b[31m ##\[add-mask]\u202e.json: no such file`)
		require.Regexp(t, `measured again: .*/tornx\\n:\\:error`, stderr)
		require.NotRegexp(t, `::|##\[|\x1b|\x{202e}`, stdout+stderr)
	}
}

func TestSummarize(t *testing.T) {
	dir, matrix := shards(t)
	stdout, _ := ran(t, cli.ExitOK, nil, "summarize", "--in", dir, "--matrix", matrix)
	require.Contains(t, stdout, "1 of 2 cases passed, 1 failed")
	require.Contains(t, stdout, string(result.ReasonTimeout))

	_, stderr := ran(t, cli.ExitFailed, nil, "summarize", "--in", dir, "--gate")
	require.Contains(t, stderr, "1 case failed")

	page := filepath.Join(dir, "summary.md")
	require.NoError(t, os.WriteFile(page, []byte("before\n"), 0o644))
	stdout, _ = ran(t, cli.ExitOK, map[string]string{"GITHUB_STEP_SUMMARY": page}, "summarize", "--in", dir)
	require.Empty(t, stdout)
	data := readFile(t, page)
	require.Contains(t, string(data), "before\n## CollectiveX")

	full := filepath.Join(dir, "full.md")
	require.NoError(t, os.WriteFile(full, make([]byte, 1<<20-100), 0o644))
	stdout, stderr = ran(t, cli.ExitOK, map[string]string{"GITHUB_STEP_SUMMARY": full}, "summarize", "--in", dir)
	require.Contains(t, stderr, "100 bytes left")
	require.Contains(t, stdout, "1 of 2 cases passed")

	stdout, _ = ran(t, cli.ExitOK, map[string]string{"GITHUB_STEP_SUMMARY": page}, "summarize", "--in", dir, "--format", "json")
	require.Regexp(t, `"failed":\[{[^}]*"case_id":"local-host-all-reduce-float-sum-w2-warm"`, stdout)

	_, stderr = ran(t, cli.ExitFailed, map[string]string{"GITHUB_STEP_SUMMARY": dir}, "summarize", "--in", dir)
	require.Contains(t, stderr, "job summary")
	ran(t, cli.ExitUsage, nil, "summarize", "--in", dir, "--format", "html")

	stdout, _ = ran(t, cli.ExitOK, nil, "summarize", "--in", t.TempDir())
	require.Equal(t, "no document\n", stdout)
}

func TestExport(t *testing.T) {
	dir, _ := shards(t)
	out := filepath.Join(t.TempDir(), "run.csv")
	stdout, _ := ran(t, cli.ExitOK, nil, "export", "--in", dir, "-o", out)
	require.Equal(t, out+": 2 cases of 1 run\n", stdout)
	require.FileExists(t, out)

	// In a pipe there are only the figures.
	file := readFile(t, out)
	stdout, stderr := ran(t, cli.ExitOK, nil, "export", "--in", dir, "-o", "-", "--format", "csv")
	require.Equal(t, string(file), stdout)
	require.Equal(t, "cxrun: 2 cases of 1 run\n", stderr)

	// A table that lacks a file says so.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "torn.json"), []byte(`{"version":1,`), 0o644))
	_, stderr = ran(t, cli.ExitFailed, nil, "export", "--in", dir, "-o", out)
	require.Contains(t, stderr, "left out: "+filepath.Join(dir, "torn.json"))
	wording.Has(t, stderr, "cxrun: 1 file or line … left out")

	for args, says := range map[string]string{
		"-o run.xlsx":              "cxrun: -o run.xlsx: … .csv, .parquet, .prom, .json",
		"-o -":                     "cxrun: -o -: … --format … csv, parquet, prom, json",
		"-o run.csv --format xlsx": `cxrun: … --format "xlsx" … csv, parquet, prom, json`,
	} {
		_, stderr := ran(t, cli.ExitUsage, nil, append([]string{"export", "--in", dir}, strings.Fields(args)...)...)
		wording.Has(t, stderr, says)
	}
}

func TestReportInAPipe(t *testing.T) {
	dir, _ := shards(t)
	file := filepath.Join(t.TempDir(), "page")
	ran(t, cli.ExitOK, nil, "report", "--in", dir, "-o", file, "--format", "html")
	page := readFile(t, file)
	stdout, stderr := ran(t, cli.ExitOK, nil, "report", "--in", dir, "-o", "-")
	require.Equal(t, string(page), stdout)
	require.Equal(t, "cxrun: 2 cases of 1 run\n", stderr)

	pdf := filepath.Join(t.TempDir(), "x.pdf")
	_, stderr = ran(t, cli.ExitUsage, nil, "report", "--in", dir, "-o", pdf)
	wording.Has(t, stderr, "x.pdf: … .html")
	require.NoFileExists(t, pdf)
}

// What shows documents ends alike where there are none, and where some were left out: what
// there is is shown, the exit code is 1, and the last line says what to do.
func TestDamagedAndEmptyInput(t *testing.T) {
	dir := t.TempDir()
	sound, _ := shards(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	ndjson := filepath.Join(dir, "run.ndjson")
	ran(t, cli.ExitFailed, nil, "aggregate", "--in", sound, "-o", ndjson)
	lines := readFile(t, ndjson)
	empty, torn, partly := write("empty.ndjson", ""), write("torn.ndjson", "{\n{\n"), write("partly.ndjson", string(lines)+"{\n")
	for _, command := range []string{"report -o " + filepath.Join(dir, "x.html") + " --in ", "export -o " + filepath.Join(dir, "x.csv") + " --in ", "compare " + ndjson + " "} {
		for _, tc := range []struct {
			in, says string
			left     int
		}{
			{dir + "/none", "", 0},
			{empty, "cxrun: no document in " + empty + "; name a directory that", 0},
			{torn, "cxrun: no document in " + torn + "; name a directory that", 2},
			{partly, "cxrun: 1 file or line that is not a document was left out; fetch or measure damaged documents again", 1},
			{ndjson, "", 0},
		} {
			code, stdout, stderr := cxrun(t, nil, strings.Fields(command+tc.in)...)
			want := cli.ExitFailed
			switch tc.in {
			case ndjson:
				want = cli.ExitOK
			case dir + "/none":
				want = cli.ExitUsage
			}
			require.Equal(t, want, code, "%s%s: %s", command, tc.in, stderr)
			require.Contains(t, stderr, tc.says)
			if words := strings.Fields(command); tc.in == torn && words[0] != "compare" {
				require.NoFileExists(t, words[2])
			}
			require.Equal(t, tc.left, strings.Count(stderr, "left out: "), stderr)
			if tc.in == partly {
				require.NotEmpty(t, stdout, "what is sound is shown")
			}
		}
	}
}

// A run of which nothing was requested, or nothing came, has a report if the matrix says so.
func TestReportOfAMatrixAlone(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.ndjson")
	require.NoError(t, os.WriteFile(empty, nil, 0o644))
	_, matrix := shards(t)
	stdout, _ := ran(t, cli.ExitOK, nil, "report", "--in", empty, "--matrix", matrix, "-o", filepath.Join(t.TempDir(), "x.html"))
	require.Contains(t, stdout, "x.html: ")
}

// A report names runs as --in does, and finds the matrix of a sweep beside its documents.
func TestReportNamesRuns(t *testing.T) {
	empty := t.TempDir()
	_, matrix := shards(t)
	data := readFile(t, matrix)
	require.NoError(t, os.WriteFile(filepath.Join(empty, "matrix_full.json"), data, 0o644))
	code, _, stderr := cxrun(t, nil, "report", "--in", empty, "-o", filepath.Join(t.TempDir(), "x.html"))
	require.Equal(t, cli.ExitOK, code, "the page lists what is missing: %s", stderr)

	dir := t.TempDir()
	history(t, dir, "before", 1, 1)
	history(t, dir, "after", 1, 1.2)
	html := filepath.Join(dir, "x.html")
	ran(t, cli.ExitOK, nil, "report", "--in", "monday="+dir+"/before", "--in", dir+"/after", "-o", html, "--figures", filepath.Join(dir, "figures"))
	for _, file := range []string{html, filepath.Join(dir, "figures", "collectives.svg")} {
		data := readFile(t, file)
		require.Contains(t, string(data), ">monday")
		require.Contains(t, string(data), ">after")
	}
	stdout, _ := ran(t, cli.ExitOK, nil, "summarize", "--in", "monday="+dir+"/before")
	require.Contains(t, stdout, "run monday: 1 of 1 case passed")
	require.NoError(t, os.Symlink("before", dir+"/link"))
	_, stderr = ran(t, cli.ExitUsage, nil, "report", "--in", "a="+dir+"/before", "--in", "b="+dir+"/link", "-o", html)
	wording.Has(t, stderr, "cxrun: --in b="+dir+"/link: … the name a already")
}

// A directory that a command does not make is named.
func TestNoDirectoryToWriteInto(t *testing.T) {
	sound, matrix := shards(t)
	nowhere := filepath.Join(t.TempDir(), "a", "b")
	for _, args := range []string{"export --in " + sound + " -o " + nowhere + "/x.csv", "aggregate --in " + sound + " --matrix " + matrix + " -o " + nowhere + "/x.ndjson"} {
		_, stderr := ran(t, cli.ExitEnvironment, nil, strings.Fields(args)...)
		wording.Has(t, stderr, "no such file or directory … directory "+nowhere)
	}
}

func TestPrune(t *testing.T) {
	dir, _ := shards(t)
	results, old := filepath.Join(t.TempDir(), "results"), filepath.Join(t.TempDir(), "old")
	for _, name := range []string{"monday", "tuesday"} {
		require.NoError(t, os.CopyFS(filepath.Join(results, name), os.DirFS(dir)))
	}
	stdout, _ := ran(t, cli.ExitOK, nil, "prune", "--in", results, "--to", old, "--keep", "1")
	require.Equal(t, "keep  monday: newest success of a case\nmove  tuesday: 2 documents, newest 2026-01-02\n"+
		"1 run and the samples of 0 runs to move\nnothing was moved; add --apply\n", stdout)
	require.NoDirExists(t, old)

	stdout, _ = ran(t, cli.ExitOK, nil, "prune", "--in", results, "--to", old, "--keep", "1", "--apply", "--json")
	require.Contains(t, stdout, `{"name":"tuesday","runs":["4711"],"documents":2,"newest":"2026-01-02T03:04:05.006Z","keep":"","samples":[]}`)
	require.DirExists(t, filepath.Join(old, "runs", "tuesday"))
	require.NoDirExists(t, filepath.Join(results, "tuesday"))

	_, stderr := ran(t, cli.ExitUsage, nil, "prune", "--in", filepath.Join(results, "monday", "none"), "--to", old)
	require.Contains(t, stderr, "none: no such file or directory")
	_, stderr = ran(t, cli.ExitUsage, nil, "prune", "--in", filepath.Join(dir, "matrix"), "--to", old)
	require.Contains(t, stderr, "matrix is not a directory")
	_, stderr = ran(t, cli.ExitUsage, nil, "prune", "--in", results)
	wording.Has(t, stderr, "cxrun: … \"to\" not set … cxrun prune --help")
}
