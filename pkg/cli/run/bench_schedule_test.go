package run

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	collectivebench "github.com/collectivex/collectivex/pkg/collective/bench"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/steps"
)

// A schedule has the columns and the JSON of a library's collective, and a rank that does
// not run it as it is is found.
func TestBenchSchedule(t *testing.T) {
	args := strings.Fields("bench schedule all_reduce ring --backend host -b 1K -e 4K -f 4 -n 2")
	stdout, _ := ran(t, cli.ExitOK, nil, args...)
	require.Contains(t, stdout, ": all_reduce/ring on backend host")
	rows := 0
	for line := range strings.Lines(stdout) {
		if !strings.HasPrefix(line, "#") {
			require.Len(t, strings.Fields(line), 13, line)
			rows++
		}
	}
	require.Equal(t, 2, rows)

	env := map[string]string{rank.FaultVariable: "rank=1,kind=skip-step"}
	stdout, _ = ran(t, cli.ExitFailed, env, append(args, "--json")...)
	report := decoded[collectivebench.Report](t, stdout)
	require.Equal(t, "all_reduce/ring", report.Op)
	require.Len(t, report.Results, 1)
	require.Equal(t, "shared-memory-steps", report.Results[0].Path)
	require.Len(t, report.Results[0].Rows, 4)
	require.Positive(t, report.OutOfBounds)
}

// A machine with GPUs runs schedules on them, whatever their vendor.
func TestBenchScheduleFindsTheGPUs(t *testing.T) {
	need.Full(t)
	standIns(t)
	args := strings.Fields("bench schedule all_reduce ring -b 1K -e 4K -f 4 -n 2 -w 1 --json")
	for _, backend := range []string{"nccl", "rccl"} {
		stdout, _ := ran(t, cli.ExitOK, nil, args...)
		report := decoded[collectivebench.Report](t, stdout)
		require.Equal(t, backend, report.Backend)
		require.Equal(t, "grouped-send-recv", report.Results[0].Path)
		require.Len(t, report.Results[0].Rows, 4)
		require.Zero(t, report.OutOfBounds)
		withoutNVIDIA(t)
	}
}

// Copies between devices carry a schedule on either vendor's. A rank that dies, and one that
// stands still, in the middle of a program end the case, and streams that wait for its flags
// keep no process.
func TestBenchScheduleByCopies(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("TMPDIR", t.TempDir())
	args := strings.Fields("bench schedule all_reduce ring --backend ipc -g 2 -b 1K -e 4K -f 4 -n 2 -w 1 --json")
	for range 2 {
		stdout, _ := ran(t, cli.ExitOK, nil, args...)
		report := decoded[collectivebench.Report](t, stdout)
		require.Equal(t, "peer-copies", report.Results[0].Path)
		require.Len(t, report.Results[0].Rows, 4)
		require.Zero(t, report.OutOfBounds)
		withoutNVIDIA(t)
	}
	for _, tt := range []struct{ kind, budget, reason string }{
		{"kill", "60", "rank-died: rank 1 signal 9"},
		{"hang", "3", "timeout: "},
	} {
		memory := fakes.MemoryDir(t)
		env := map[string]string{rank.FaultVariable: "rank=1,kind=" + tt.kind + ",at=record-5", "CX_FAKE_DIR": memory}
		_, stderr := ran(t, cli.ExitFailed, env, append(args, "-T", tt.budget)...)
		require.Contains(t, stderr, tt.reason)
		requireNoRanks(t, memory)
	}
}

// A plan in a file has the columns and the JSON of a schedule on every backend, its rows are
// checked, and documents name the file and its digest.
func TestBenchPlan(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Chdir(t.TempDir())
	for _, name := range []string{"ring.xml", "ring.json"} {
		ran(t, cli.ExitOK, nil, "schedule", "convert", "all_reduce", "ring", "--ranks", "2", "-o", name)
	}
	for i, tt := range []struct{ backend, file, path string }{
		{"host", "ring.xml", "shared-memory-steps"},
		{"nccl", "ring.xml", "grouped-send-recv"},
		{"nccl", "ring.json", "grouped-send-recv"},
		{"ipc", "ring.xml", "peer-copies"},
		{"ipc", "ring.json", "peer-copies"},
		{"rccl", "ring.json", "grouped-send-recv"}, // from here on without NVIDIA
		{"ipc", "ring.xml", "peer-copies"},
	} {
		if tt.backend == "rccl" {
			withoutNVIDIA(t)
		}
		content := readFile(t, tt.file)
		digest := fmt.Sprintf("%x", sha256.Sum256(content))
		args := []string{"bench", "schedule", tt.file, "--backend", tt.backend, "-b", "1K", "-e", "4K", "-f", "4", "-n", "2", "-w", "1"}
		stdout, _ := ran(t, cli.ExitOK, nil, append(args, "--out", strconv.Itoa(i), "--json")...)
		report := decoded[collectivebench.Report](t, stdout)
		require.Equal(t, "all_reduce/"+tt.file, report.Op)
		require.Equal(t, tt.backend, report.Backend)
		c := report.Results[0]
		require.Equal(t, tt.path, c.Path)
		require.Equal(t, digest, c.PlanSHA256)
		require.Positive(t, c.Program.Messages)
		require.Len(t, c.Rows, 4)
		require.Zero(t, report.OutOfBounds)
		documents, err := filepath.Glob(filepath.Join(strconv.Itoa(i), "cells", "*", "*"+digest[:8]+"*.json"))
		require.NoError(t, err)
		require.Len(t, documents, 1)
		document := readFile(t, documents[0])
		require.Contains(t, string(document), `"plan_sha256":"`+digest)
		require.Contains(t, string(document), `"plan_file":"`+tt.file)

	}

	args := strings.Fields("bench schedule ring.xml --backend host -b 1K -e 4M -f 4096 -n 2")
	stdout, _ := ran(t, cli.ExitOK, nil, args...)
	require.Regexp(t, `(?m)^# ring\.xml +: SHA-256 [0-9a-f]{64}; .*\b4 messages$`, stdout)
	env := map[string]string{rank.FaultVariable: "rank=1,kind=skip-step"}
	stdout, _ = ran(t, cli.ExitFailed, env, args...)
	require.Contains(t, stdout, "FAILED")
}

// What is wrong with a plan, or does not suit it, is said in a line before any rank starts.
func TestBenchPlanRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	ran(t, cli.ExitOK, nil, "schedule", "convert", "all_reduce", "ring", "--ranks", "3", "-o", "ring.xml")
	ring := readFile(t, "ring.xml")
	text := string(ring)
	for name, content := range map[string]string{
		"cut.xml":                        text[:len(text)/2],
		"lost.xml":                       strings.Replace(text, `type="rrcs"`, `type="rcs"`, 1),
		"both.xml":                       strings.Replace(text, `outofplace="0"`, `outofplace="1"`, 1),
		"old.xml":                        strings.Replace(text, ` minBytes="0"`, "", 1),
		strings.Repeat("x", 80) + ".xml": text,
		"thirds.xml": `<algo name="thirds" proto="Simple" nchannels="1" nchunksperloop="6" ngpus="2" coll="allgather" inplace="1" outofplace="0" minBytes="0" maxBytes="0">
<gpu id="0" i_chunks="3" o_chunks="6" s_chunks="0"><tb id="0" send="1" recv="1" chan="0">
<step s="0" type="s" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="3" depid="-1" deps="-1" hasdep="0"/>
<step s="1" type="r" srcbuf="o" srcoff="3" dstbuf="o" dstoff="3" cnt="3" depid="-1" deps="-1" hasdep="0"/></tb></gpu>
<gpu id="1" i_chunks="3" o_chunks="6" s_chunks="0"><tb id="0" send="0" recv="0" chan="0">
<step s="0" type="s" srcbuf="o" srcoff="3" dstbuf="o" dstoff="3" cnt="3" depid="-1" deps="-1" hasdep="0"/>
<step s="1" type="r" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="3" depid="-1" deps="-1" hasdep="0"/></tb></gpu></algo>`,
	} {
		require.True(t, content != text || len(name) > 80, name)
		require.NoError(t, os.WriteFile(name, []byte(content), 0o644))
	}
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"cut.xml", cli.ExitUsage, "cut.xml:"},
		{"lost.xml", cli.ExitFailed, "cxrun schedule verify lost.xml"},
		{"both.xml", cli.ExitFailed, "both.xml:13:7: out of place: … rank 1, op 0, chunk 0"},
		{"missing.xml", cli.ExitUsage, "missing.xml"},
		{"ring.xml --backend host -t 4", cli.ExitUsage, "ring.xml … 3 ranks … -t … -g … 4"},
		{"ring.xml --backend host -b 1M", cli.ExitUsage, "ring.xml: 1048576 bytes … 3 chunks … 12 bytes"},
		{"thirds.xml --backend host -b 96 -e 128 -i 32", cli.ExitUsage, "thirds.xml: 128 bytes"},
		{"thirds.xml --backend host -b 64 -e 64", cli.ExitUsage, "96 bytes"},
		{"ring.xml --width 2", cli.ExitUsage, "--width … ring.xml"},
		{"ring.xml -G 1", cli.ExitUsage, "-G: "},
		{strings.Repeat("x", 80) + ".xml", cli.ExitUsage, strings.Repeat("x", 80) + ".xml … 64"},
	} {
		code, stdout, stderr := cxrun(t, nil, append([]string{"bench", "schedule"}, strings.Fields(tt.args)...)...)
		require.Equal(t, tt.code, code, "%s: %s", tt.args, stderr)
		require.Empty(t, stdout)
		wording.Has(t, stderr, tt.want)
		require.Equal(t, 1, strings.Count(stderr, "\n"), tt.args)
	}
	// MSCCL would not use this plan and not say so; here it is run, and that is said.
	stdout, stderr := ran(t, cli.ExitOK, nil, strings.Fields("bench schedule old.xml --backend host -b 12K -e 12K -n 2")...)
	wording.Has(t, stderr, "old.xml:1:1: … minBytes")
	require.Contains(t, stdout, " 12 messages")
}

// The help names the backends of schedules and no others, and no flag of other operations.
func TestBenchScheduleHelp(t *testing.T) {
	stdout, _ := ran(t, cli.ExitOK, nil, "bench", "schedule", "--help")
	named := regexp.MustCompile(`use backend NAME: auto, ([^;]*);`).FindStringSubmatch(strings.Join(strings.Fields(stdout), " "))
	require.NotNil(t, named, stdout)
	require.ElementsMatch(t, slices.Collect(maps.Keys(families()[steps.Name].Backends)),
		regexp.MustCompile(`, | or `).Split(strings.Replace(named[1], " (copies between the GPUs of a host)", "", 1), -1))
	require.NotContains(t, stdout, "--traffic")
	require.NotContains(t, stdout, "--model")
}

// What a schedule does not have is refused in a line.
func TestBenchScheduleRefuses(t *testing.T) {
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"all_reduce", cli.ExitUsage, "after all_reduce … cxrun schedule list"},
		{"all_reduce rin", cli.ExitUsage, `"rin" … all_reduce`},
		{"all_reduce ring -G 1", cli.ExitUsage, "-G: "},
		{"all_reduce ring -o max", cli.ExitUsage, "-o: … sum"},
		{"all_reduce ring -m 2", cli.ExitUsage, "-m: "},
		{"all_reduce ring -u 1", cli.ExitUsage, "-u: "},
		{"all_reduce ring -R 1", cli.ExitUsage, "-R: "},
		{"all_reduce swing --backend host -t 3", cli.ExitUsage, "swing all_reduce: 3 ranks"},
		{"all_gather hierarchical_sliced --backend host -t 4 --width 3", cli.ExitUsage, "4 ranks … rows of 3"},
		{"all_reduce double_tree --backend host --segments 2000", cli.ExitUsage, "2000 segments … 1024"},
		{"all_reduce ring --backend host --width -1", cli.ExitUsage, "width -1"},
	} {
		code, stdout, stderr := cxrun(t, nil, append([]string{"bench", "schedule"}, strings.Fields(tt.args)...)...)
		require.Equal(t, tt.code, code, tt.args)
		require.Empty(t, stdout)
		wording.Has(t, stderr, tt.want)
		require.Equal(t, 1, strings.Count(stderr, "\n"), tt.args)
	}
}
