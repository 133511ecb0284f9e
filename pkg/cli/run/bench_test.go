package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/golden"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	collectivebench "github.com/collectivex/collectivex/pkg/collective/bench"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/ep"
	epbench "github.com/collectivex/collectivex/pkg/ep/bench"
	"github.com/collectivex/collectivex/pkg/fold"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// masked has what differs from machine to machine and run to run taken out.
func masked(text string) string {
	text = regexp.MustCompile(`(?m)^# library .*$`).ReplaceAllString(text, "# library LIBRARY")
	text = regexp.MustCompile(`\d+ processors? of this host`).ReplaceAllString(text, "N processors of this host")
	text = regexp.MustCompile(`chosen: [^)]*`).ReplaceAllString(text, "chosen: WHY")
	text = regexp.MustCompile(`(Avg bus bandwidth +:) \S+`).ReplaceAllString(text, "$1 X")
	text = regexp.MustCompile(`(start to first timed op +:) \S+`).ReplaceAllString(text, "$1 X")
	// a time of 0.1 s or more, which has no decimals, behind root or #wrong
	text = regexp.MustCompile(`(?m)\d {2,3}\d{6,7}\b`).ReplaceAllStringFunc(text, func(s string) string {
		return s[:1] + strings.Repeat(" ", len(s)-2) + "X"
	})
	// a time or bandwidth in its column, with the spaces before it
	return regexp.MustCompile(` +\d+\.\d+| +\d\.\de[+-]\d+`).ReplaceAllStringFunc(text, func(s string) string {
		return strings.Repeat(" ", len(s)-1) + "X"
	})
}

// onHost runs bench on the host backend in a directory for temporary files of
// its own, which has to be empty afterwards.
func onHost(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	stdout, stderr = ran(t, cli.ExitOK, nil, append([]string{"bench", "--backend", "host"}, args...)...)
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left, "a success leaves nothing behind")
	return stdout, stderr
}

func TestBenchPrintsNCCLTestsColumns(t *testing.T) {
	need.Full(t)
	for _, tt := range []struct {
		name string
		args []string
	}{
		{"all_reduce", []string{"all_reduce", "-b", "8", "-e", "1M", "-f", "16"}},
		{"alltoall", []string{"alltoall", "-b", "4", "-e", "1.5K", "-i", "512", "-d", "bfloat16", "-n", "3", "-w", "0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr := onHost(t, tt.args...)
			require.Empty(t, stderr)
			golden.Equal(t, "testdata/bench-"+tt.name+".txt", masked(stdout))
			for line := range strings.Lines(stdout) {
				if !strings.HasPrefix(line, "#") {
					require.Len(t, strings.Fields(line), 13, line)
				}
			}
		})
	}
}

// shape lists the places of a JSON value with their types; of a list, its first
// element stands for all.
func shape(at string, v any) []string {
	switch v := v.(type) {
	case map[string]any:
		var out []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if k == "environment" || k == "documents" { // this machine's; tested where they are made
				out = append(out, fmt.Sprintf("%s.%s %T", at, k, v[k]))
				continue
			}
			out = append(out, shape(at+"."+k, v[k])...)
		}
		return out
	case []any:
		if len(v) == 0 {
			return []string{at + " []"}
		}
		return shape(at+"[]", v[0])
	default:
		return []string{fmt.Sprintf("%s %T", at, v)}
	}
}

func TestBenchJSONIsTheTable(t *testing.T) {
	need.Full(t)
	out := filepath.Join(t.TempDir(), "out")
	file := filepath.Join(t.TempDir(), "bench.json")
	stdout, stderr := onHost(t, "all_reduce", "-b", "8", "-e", "64K", "-f", "8", "--trials", "3", "--out", out, "-J", file)
	require.Contains(t, stderr, out)
	raw := readFile(t, file)
	var report collectivebench.Report
	require.NoError(t, json.Unmarshal(raw, &report))
	require.True(t, report.Passed)
	require.Equal(t, -1, report.Results[0].Root, "as in the column")
	require.Equal(t, 2, report.World)
	require.Len(t, report.Results, 1)
	var untyped any
	require.NoError(t, json.Unmarshal(raw, &untyped))
	golden.Equal(t, "testdata/bench-json.txt", strings.Join(shape("", untyped), "\n")+"\n")
	rows := report.Results[0].Rows
	n := 0
	for line := range strings.Lines(stdout) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		for i, at := range []int{5, 9} {
			row := rows[2*n+i]
			require.Equal(t, f[0], strconv.FormatInt(row.Bytes, 10))
			for k, v := range []float64{row.Shown.TimeUS, row.Shown.AlgBW, row.Shown.BusBW} {
				printed, err := strconv.ParseFloat(f[at+k], 64)
				require.NoError(t, err)
				_, decimals, _ := strings.Cut(f[at+k], ".") // fewer for long times
				require.InDelta(t, v, printed, 0.51*math.Pow10(-len(decimals)))
			}
			require.Equal(t, "0", f[at+3])
			require.Equal(t, 3, row.Pipelined.SampleCount)
		}
		n++
	}
	require.Len(t, rows, 2*n)
	require.FileExists(t, filepath.Join(out, matrixFile))
}

// A result that is wrong is counted in its column, and the program says so.
// On request, the file of the results has the layout of another program. Standard output keeps ours.
func TestBenchWritesOtherLayouts(t *testing.T) {
	need.Full(t)
	for flags, begins := range map[string]string{"-X FILE -Z csv": "numCycle,name,nodes,", "-J FILE --nccl-tests-json": `{"version":3,"start_time":"`} {
		file := filepath.Join(t.TempDir(), "results")
		stdout, _ := onHost(t, strings.Fields("all_reduce -b 0 -e 8 -i 8 -z 1 -n 2 --json "+strings.Replace(flags, "FILE", file, 1))...)
		r := decoded[collectivebench.Report](t, stdout)
		require.Len(t, r.Results[0].Rows, 4)
		raw := readFile(t, file)
		require.True(t, strings.HasPrefix(string(raw), begins), "%s", raw)
	}
}

// nccl-tests' variable splits the ranks into groups, each of which has a line at every size.
func TestBenchOfGroups(t *testing.T) {
	need.Full(t)
	t.Setenv("NCCL_TESTS_SPLIT", "MOD 2")
	stdout, _ := onHost(t, "all_gather", "-t", "4", "-b", "4K", "-e", "8K", "-f", "2", "-n", "2")
	var ranks []string
	for line := range strings.Lines(stdout) {
		if !strings.HasPrefix(line, "#") {
			ranks = append(ranks, strings.Fields(line)[13])
		}
	}
	require.Equal(t, []string{"0,2", "1,3", "0,2", "1,3"}, ranks)
	require.Contains(t, stdout, "# 2 groups of 2 ranks run at once")
}

func TestBenchFindsAWrongResult(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	env := map[string]string{rank.FaultVariable: "case=*,rank=1,kind=" + runner.FaultFlip}
	stdout, stderr := ran(t, cli.ExitFailed, env, "bench", "--backend", "host", "all_reduce", "-b", "1K", "-e", "1K")
	require.Regexp(t, `(?m)^ +1024 +256 +float +sum +-1( +\S+){3} +1( +\S+){3} +1$`, stdout)
	require.Regexp(t, `(?m)^# INVALID all_reduce float sum: .+
# 2 of \d+ elements .* 2 of 2 rows, .* 1024 bytes out of place$`, stdout)
	require.Contains(t, stdout, "# Out of bounds values : 2 FAILED\n")
	require.Contains(t, stderr, "cxrun: 1 of 1 case failed\n")
	kept := regexp.MustCompile(`documents and logs are in (.*)\n`).FindStringSubmatch(stderr)
	require.NotNil(t, kept, stderr)
	require.DirExists(t, filepath.Join(kept[1], cellsDir))
}

// A rank that dies costs the case, not what was finished, and is named.
func TestBenchWithADeadRank(t *testing.T) {
	need.Full(t)
	t.Setenv("TMPDIR", t.TempDir())
	env := map[string]string{rank.FaultVariable: "case=*-sum-*,rank=1,kind=kill,at=record-6"}
	stdout, stderr := ran(t, cli.ExitFailed, env, "bench", "--backend", "host", "all_reduce", "-b", "8", "-e", "1K", "-f", "2", "-o", "all", "--json")
	r := decoded[collectivebench.Report](t, stdout)
	require.False(t, r.Passed)
	require.Len(t, r.Results, 6)
	require.Equal(t, "rank-died: rank 1 signal 9", r.Results[0].Outcome.Reasons[0].String())
	require.NotEmpty(t, r.Results[0].Rows, "what was measured before is there")
	for _, c := range r.Results[1:] {
		require.Equal(t, result.Success, c.Outcome.Status)
		require.Len(t, c.Rows, 16)
	}
	require.Contains(t, stderr, "local-host-all-reduce-float-sum-w2-shifted failed: rank-died: rank 1 signal 9")
}

func TestBenchThresholds(t *testing.T) {
	need.Full(t)
	onHost(t, "all_reduce", "-b", "8", "-e", "1K", "-f", "128", "--min-busbw", "1K=0.000001", "--max-time", "8=1e9,1K=1e9")

	t.Setenv("TMPDIR", t.TempDir())
	_, stderr := ran(t, cli.ExitFailed, nil, "bench", "--backend", "host", "alltoall", "-b", "8", "-e", "1K", "-f", "128", "--min-busbw", "1K=1e6,8=0.01")
	require.Contains(t, stderr, "cxrun: alltoall float, 1024 bytes out_of_place: ")
	require.Contains(t, stderr, "cxrun: alltoall float, no row of 8 bytes was measured, and --min-busbw is 0.01\n")
	require.Contains(t, stderr, "cxrun: 2 figures missed their threshold\n")
}

// Who sets TMPDIR to what is not there is told its name.
func TestBenchWithoutTMPDIR(t *testing.T) {
	t.Setenv("TMPDIR", "/nowhere")
	_, stderr := ran(t, cli.ExitEnvironment, nil, "bench", "--backend", "host", "all_reduce")
	require.Contains(t, stderr, "set TMPDIR: stat /nowhere: no such file or directory\n")
}

// Help that does not arrive is a failure.
func TestHelpToAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	for _, args := range [][]string{{"--help"}, {"bench", "--help"}, {"bench", "ep", "--help"}} {
		s := cli.Streams{In: strings.NewReader(""), Out: full, Err: io.Discard, Getenv: func(string) string { return "" }}
		require.Equal(t, cli.ExitFailed, Main(t.Context(), s, args))
	}
}

// A table or JSON that does not arrive is a failure, and what was measured is kept.
func TestBenchToAFullDisk(t *testing.T) {
	need.Full(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	for _, args := range [][]string{
		{"bench", "--backend", "host", "all_reduce", "-b", "8", "-e", "8"},
		{"bench", "--backend", "host", "all_reduce", "-b", "8", "-e", "8", "--json"},
		{"bench", "ep", "--backend", "host", "--tokens", "1", "--hidden", "512", "--topk", "4", "--experts", "32", "--sampling", "smoke", "-T", "600"},
	} {
		t.Setenv("TMPDIR", t.TempDir())
		var errs bytes.Buffer
		s := cli.Streams{In: strings.NewReader(""), Out: full, Err: &errs, Getenv: func(string) string { return "" }}
		require.Equal(t, cli.ExitFailed, Main(t.Context(), s, args))
		lines := strings.Split(strings.TrimSpace(progressLines.ReplaceAllString(errs.String(), "")), "\n")
		require.Len(t, lines, 2, errs.String())
		require.DirExists(t, strings.TrimPrefix(lines[0], "cxrun: documents and logs are in "))
		require.Equal(t, "cxrun: standard output is incomplete: write /dev/full: no space left on device", lines[1])
	}
}

// A reader of standard output that goes ends the run as Ctrl-C does.
func TestBenchUnread(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	unread, out, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	require.NoError(t, unread.Close())
	var errs bytes.Buffer
	s := cli.Streams{In: strings.NewReader(""), Out: out, Err: &errs, Getenv: func(string) string { return "" }}
	file := filepath.Join(t.TempDir(), "bench.json")
	require.Equal(t, cli.ExitFailed, Main(t.Context(), s, []string{"bench", "--backend", "host", "all_reduce", "-o", "all", "-J", file}))
	require.Contains(t, errs.String(), "broken pipe")
	data := readFile(t, file)
	var r collectivebench.Report
	require.NoError(t, json.Unmarshal(data, &r))
	require.Equal(t, resulttest.Reasons("skipped: cancelled"), r.Results[len(r.Results)-1].Outcome.Reasons)
}

// A plan that cannot be written leaves no directory: this one's path would be
// longer than paths can be.
func TestBenchWithoutRoomForItsPlan(t *testing.T) {
	temp := t.TempDir()
	for longest := 4095 - len("/cxrun-bench-1234567890"); len(temp) < longest; {
		temp += "/" + strings.Repeat("x", min(200, longest-len(temp)-1))
	}
	require.NoError(t, os.MkdirAll(temp, 0o755))
	t.Setenv("TMPDIR", temp)
	_, stderr := ran(t, cli.ExitEnvironment, nil, "bench", "--backend", "host", "all_reduce")
	require.Contains(t, stderr, "file name too long")
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, left)
}

// What cannot be measured is refused in one line that says what to do, and leaves
// nothing.
func TestBenchOfWhatCannotBe(t *testing.T) {
	need.Full(t)
	for _, tt := range []struct{ args, want string }{
		{"all_reduce -b 3 -e 3", "size-too-small: … 3 bytes … 2 ranks … 4 bytes"},
		{"all_gather -b 8 -e 8 -g 1 -N 2", "size-too-small: … 8 bytes … 16 bytes"},
		{"all_reduce -b 1048576G -e 1048576G", "memory-for-size: "},
		{"ep --tokens 4194304 --hidden 1048576", "memory-for-size: … 4194304 tokens"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			stdout, stderr := ran(t, cli.ExitEnvironment, nil, append([]string{"bench", "--backend", "host"}, strings.Fields(tt.args)...)...)
			wording.Has(t, stderr, tt.want)
			require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
			require.NotContains(t, stdout, "FAILED")
			require.NotContains(t, stdout, "Out of bounds")
			left, err := os.ReadDir(os.Getenv("TMPDIR"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// What --out keeps is a run like any other.
func TestBenchOutIsARun(t *testing.T) {
	need.Full(t)
	out := filepath.Join(t.TempDir(), "out")
	stdout, _ := onHost(t, "reduce", "-b", "8", "-e", "8", "-r", "-1", "-N", "2", "--out", out)
	require.Len(t, regexp.MustCompile(`(?m)^ +8 `).FindAllString(stdout, -1), 4, "two roots, twice")
	ndjson := filepath.Join(t.TempDir(), "run.ndjson")
	ran(t, cli.ExitOK, nil, "aggregate", "--in", filepath.Join(out, cellsDir), "--matrix", filepath.Join(out, matrixFile), "-o", ndjson)
	_, stderr := ran(t, cli.ExitUsage, nil, "bench", "--backend", "host", "reduce", "-b", "8", "-e", "8", "--out", out)
	require.Contains(t, stderr, "already holds a run")
}

func TestBenchRefuses(t *testing.T) {
	need.Full(t)
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"", cli.ExitUsage, "one operation … all_reduce,"},
		{"all_reduce all_gather", cli.ExitUsage, "not 2"},
		{"all_reduc", cli.ExitUsage, `"all_reduce"`},
		{"all_reduce -z 4", cli.ExitUsage, "-z: want 0 to 3"},
		{"all_reduce -n many", cli.ExitUsage, `-n, --iters: … "many" … cxrun bench --help`},
		{"all_reduce -f 1.5", cli.ExitUsage, "1.5"},
		{"all_reduce -n 2000000000", cli.ExitUsage, "-n … -m … 1000000"},
		{"all_reduce -n 1000 -m 1001", cli.ExitUsage, "-n … -m … 1000000"},
		{"all_reduce --trials 2000000000", cli.ExitUsage, "--trials … 1000000"},
		{"all_reduce --backend hots", cli.ExitUsage, `"hots" … "host"`},
		{"all_reduce --backend deepep-v2", cli.ExitUsage, `"deepep-v2"`},
		{"all_reduce --backend host -G 3", cli.ExitEnvironment, "backend host … timing modes"},
		{"all_reduce --backend host -R 1", cli.ExitEnvironment, "backend host … registration local"},
		{"all_reduce --backend host -x 1", cli.ExitEnvironment, "-x … backend host"},
		{"all_reduce --backend host -J /nowhere/b.json", cli.ExitEnvironment, "-J: … /nowhere/b.json: … directory /nowhere"},
		{"all_reduce --backend host --output_file=", cli.ExitUsage, "--output_file"},
		{"ep --backend host --out=", cli.ExitUsage, "--out"},
		{"all_reduce --backend host -t 4294967296 -g 4294967296", cli.ExitUsage, "-t and -g: … 1048576"},
		{"all_reduce --backend host -D 0 -V 8", cli.ExitUsage, "-V: … -D"},
		{"all_reduce --backend host -d bf16", cli.ExitUsage, `"bf16" … "bfloat16"`},
		{"all_reduce --backend host -d FP32", cli.ExitUsage, `"FP32" … "float"`},
		{"all_reduce --backend host -o add", cli.ExitUsage, `"add" … "sum"`},
		{"all_reduce --backend host -b 1K -e 1K --min-busbw 1K=1,1K=2", cli.ExitUsage, "--min-busbw … 1024 bytes"},
		{"all_reduce --backend host -b 1K -e 1K --max-time 1024=.5,1K=2", cli.ExitUsage, "--max-time … 1024 bytes"},
		{"all_reduce --backend host -b 1K -e 1K -g 1 --min-busbw 1K=1", cli.ExitUsage, "--min-busbw: … 1 rank … --max-time"},
		{"all_reduce --backend host -J /dev/null", cli.ExitEnvironment, "-J: /dev/null"},
		{"ep --backend host --routing unifrom", cli.ExitUsage, `"uniform"`},
		{"ep --backend host --tokens 8,4", cli.ExitUsage, "--tokens [8 4]: "},
		{"ep --backend host --ranks 3", cli.ExitUsage, "--experts 256: … ranks, 3"},
		{"ep --backend host --topk 300", cli.ExitUsage, "--topk 300: … 256"},
		{"all_reduce --backend host -t 100000", cli.ExitEnvironment, "100000 ranks on "},
		{"ep --backend host --experts 131072 --ranks 65536", cli.ExitEnvironment, "65536 ranks on "},
		{"ep --backend host --tokens 1000000000", cli.ExitUsage, "--tokens 1000000000: … 4194304 … --topk 8"},
		{"ep --backend host --experts 4294967296", cli.ExitUsage, "--experts: … 1048576"},
		{"ep --backend host --hidden 0", cli.ExitUsage, "--hidden"},
		{"ep --backend host --ranks -1", cli.ExitUsage, "--ranks -1"},
		{"ep --backend host --sampling x", cli.ExitUsage, "sampling profile"},
		{"ep --backend deepep-v2", cli.ExitEnvironment, "backend deepep-v2 "},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			code, stdout, stderr := cxrun(t, nil, append([]string{"bench"}, strings.Fields(tt.args)...)...)
			require.Equal(t, tt.code, code, stderr)
			require.Empty(t, stdout)
			wording.Has(t, stderr, tt.want)
			require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
			left, err := os.ReadDir(os.Getenv("TMPDIR"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

func TestBenchEP(t *testing.T) {
	need.Full(t)
	args := []string{"ep", "--tokens", "1,8", "--hidden", "512", "--topk", "4", "--experts", "32", "--sampling", "smoke", "--ranks", "2", "-T", "600"}
	stdout, stderr := onHost(t, args...)
	require.Empty(t, stderr)
	golden.Equal(t, "testdata/bench-ep.txt", masked(regexp.MustCompile(` ranks on .*`).ReplaceAllString(stdout, " ranks on DEVICE")))

	stdout, _ = onHost(t, append(args, "--json", "--routing", "zipf", "--mode", "low-latency", "--precision", "fp8", "--phase", "decode")...)
	r := decoded[epbench.Report](t, stdout)
	require.True(t, r.Passed)
	require.Equal(t, "local-host-tiny-low-latency-decode-ep2-zipf-fp8", r.CaseID)
	require.Len(t, r.Measurement.Rows, 2)

	stdout, _ = onHost(t, append(args, "--contract", "cached-layout")...)
	require.Contains(t, stdout, "\n# tiny normal cached-layout bf16, uniform\n")

	env := map[string]string{rank.FaultVariable: "case=*,rank=1,kind=flip-bit"}
	t.Setenv("TMPDIR", t.TempDir())
	stdout, _ = ran(t, cli.ExitFailed, env, append([]string{"bench", "--backend", "host"}, args...)...)
	require.Regexp(t, `(?m)^ +1 .* FAILED$`, stdout)
	require.Regexp(t, `(?m)^# 1 token: check-failed: before payload all ranks, and \d+ more$`, stdout)

	env[rank.FaultVariable] = "case=*,rank=1,kind=zero-payload,at=timed"
	_, stdout, _ = cxrun(t, env, append([]string{"bench", "--backend", "host"}, args...)...)
	require.Regexp(t, `(?m)^# 8 tokens: check-failed: (timed|post)-`, stdout)
	require.NotContains(t, stdout, "does not add as declared", "combine was given wrong rows")
}

// -T limits the cases of every family, and a negative limit is refused.
func TestBenchTimeLimit(t *testing.T) {
	need.Full(t)
	t.Setenv("TMPDIR", t.TempDir())
	for _, args := range [][]string{
		{"all_reduce", "-b", "8", "-e", "8"},
		{"ep", "--tokens", "1", "--hidden", "512", "--topk", "4", "--experts", "32", "--sampling", "smoke"},
		{"kv", "--cache", "kv-tiny", "--isl", "64", "--page", "16", "--sampling", "smoke"},
	} {
		t.Run(args[0], func(t *testing.T) {
			args = append([]string{"bench", "--backend", "host"}, args...)
			env := map[string]string{rank.FaultVariable: "case=*,rank=1,kind=hang"}
			_, stderr := ran(t, cli.ExitFailed, env, append(args, "-T", "1")...)
			wording.Has(t, stderr, string(result.ReasonTimeout)+": … 1 s")

			_, stderr = ran(t, cli.ExitUsage, nil, append(args, "-T", "-1")...)
			require.Contains(t, stderr, "-T: ")
		})
	}
}

// A routing from a file is measured as it is written, and is another one in each file.
func TestBenchEPWithARecordedRouting(t *testing.T) {
	need.Full(t)
	dir := t.TempDir()
	seen := map[string]bool{}
	for name, text := range map[string]string{
		"one.txt":     strings.Repeat("0 1\n2 3\n", 8),
		"other.jsonl": strings.Repeat("[0, 2]\n[1, 3]\n", 8),
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		args := []string{"bench", "ep", "--json", "--backend", "host", "--ranks", "2", "--tokens", "1,8", "--hidden", "512", "--topk", "2", "--experts", "4", "--sampling", "smoke", "-T", "600", "--routing", "file:" + path, "--out", filepath.Join(dir, name+".out")}
		stdout, _ := ran(t, cli.ExitOK, nil, args...)
		report := decoded[epbench.Report](t, stdout)
		require.Regexp(t, "-file-[0-9a-f]{12}-bf16$", report.CaseID)
		fanout := map[string]float64{"one.txt": 1, "other.jsonl": 2}[name] // experts 0 and 1 are on one rank
		require.InDelta(t, fanout, report.Measurement.Rows[1].RoutingStats.FanoutMean, 0)
		seen[report.ComparisonKey] = true

		documents := 0
		for rec, err := range fold.Read([]string{filepath.Join(dir, name+".out")}) {
			require.NoError(t, err)
			require.NotContains(t, string(rec.Line), dir, "the path stays private")
			d, err := result.Decode(rec.Line)
			require.NoError(t, err)
			require.NoError(t, result.Validate(d))
			require.Len(t, ep.Of(&d.Head().Identity.Case).RoutingSHA256, 64)
			documents++
		}
		require.Equal(t, 1, documents)
	}
	require.Len(t, seen, 2)

	tooShort := filepath.Join(dir, "one.txt")
	_, stderr := ran(t, cli.ExitUsage, nil, "bench", "ep", "--backend", "host", "--ranks", "2", "--tokens", "9", "--topk", "2", "--experts", "4", "--routing", "file:"+tooShort)
	wording.Has(t, stderr, "one.txt:16:1: … 16 tokens … 18")
}

func TestBenchCompletes(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"bench all_", "all_reduce\n"},
		{"bench e", "ep\t"},
		{"bench all_reduce -d bf", ""},
		{"bench all_reduce -d b", "bfloat16\n"},
		{"bench all_reduce --backend h", "host\n"},
	} {
		stdout, _ := ran(t, cli.ExitOK, nil, append([]string{"__complete"}, strings.Fields(tt.line)...)...)
		require.Contains(t, stdout, tt.want, tt.line)
	}
}

// Rows that are printed while the case runs are printed once, in their order.
func TestBenchPrintsRowsAsTheyCome(t *testing.T) {
	need.Full(t)
	t.Setenv("TMPDIR", t.TempDir())
	env := map[string]string{rank.FaultVariable: "rank=1,kind=slow"} // 20 ms a row: it takes more than one look
	stdout, _ := ran(t, cli.ExitOK, env, "bench", "--backend", "host", "all_reduce", "-b", "8", "-e", "256", "-i", "8")
	var got, want []string
	for line := range strings.Lines(stdout) {
		if !strings.HasPrefix(line, "#") {
			got = append(got, strings.Fields(line)[0])
		}
	}
	for size := 8; size <= 256; size += 8 {
		want = append(want, strconv.Itoa(size))
	}
	require.Equal(t, want, got)
}
