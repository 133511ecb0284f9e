package run

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/short"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/rank"
)

// A schedule has the columns and the JSON of a library's collective, and a rank that does
// not run it as it is is found.
func TestBenchSchedule(t *testing.T) {
	args := strings.Fields("bench schedule all_reduce ring --backend host -b 1K -e 4K -f 4 -n 2")
	code, stdout, stderr := cxrun(t, nil, args...)
	require.Equal(t, cli.ExitOK, code, stderr)
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
	code, stdout, _ = cxrun(t, env, append(args, "--json")...)
	require.Equal(t, cli.ExitFailed, code)
	var report bench.Report
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	require.Equal(t, "all_reduce/ring", report.Op)
	require.Len(t, report.Results, 1)
	require.Equal(t, "shared-memory-steps", report.Results[0].Path)
	require.Len(t, report.Results[0].Rows, 4)
	require.Positive(t, report.OutOfBounds)
}

// A machine with GPUs runs schedules on them, whatever their vendor.
func TestBenchScheduleFindsTheGPUs(t *testing.T) {
	standIns(t)
	args := strings.Fields("bench schedule all_reduce ring -b 1K -e 4K -f 4 -n 2 -w 1 --json")
	for _, backend := range []string{"nccl", "rccl"} {
		code, stdout, stderr := cxrun(t, nil, args...)
		require.Equal(t, cli.ExitOK, code, stderr)
		var report bench.Report
		require.NoError(t, json.Unmarshal([]byte(stdout), &report))
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
	short.Skip(t)
	standIns(t)
	t.Setenv("TMPDIR", t.TempDir())
	args := strings.Fields("bench schedule all_reduce ring --backend ipc -g 2 -b 1K -e 4K -f 4 -n 2 -w 1 --json")
	for range 2 {
		code, stdout, stderr := cxrun(t, nil, args...)
		require.Equal(t, cli.ExitOK, code, stderr)
		var report bench.Report
		require.NoError(t, json.Unmarshal([]byte(stdout), &report))
		require.Equal(t, "peer-copies", report.Results[0].Path)
		require.Len(t, report.Results[0].Rows, 4)
		require.Zero(t, report.OutOfBounds)
		withoutNVIDIA(t)
	}
	for fault, reason := range map[string]string{
		"kind=kill,at=record-5": "rank-died: rank 1 signal 9",
		"kind=hang,at=record-5": "timeout: case budget of 10 s",
	} {
		memory := fakes.MemoryDir(t)
		env := map[string]string{rank.FaultVariable: "rank=1," + fault, "CX_FAKE_DIR": memory}
		code, _, stderr := cxrun(t, env, append(args, "-T", "10")...)
		require.Equal(t, cli.ExitFailed, code, stderr)
		require.Contains(t, stderr, reason)
		requireNoRanks(t, memory)
	}
}

// What a schedule does not have is refused in a line.
func TestBenchScheduleRefuses(t *testing.T) {
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"all_reduce", cli.ExitUsage, "needs a collective and the name of a schedule"},
		{"all_reduce rin", cli.ExitUsage, `no schedule "rin" for all_reduce`},
		{"all_reduce ring -G 1", cli.ExitUsage, "-G: a schedule is not captured in graphs"},
		{"all_reduce ring -o max", cli.ExitUsage, "-o: a schedule adds"},
		{"all_reduce ring -m 2", cli.ExitUsage, "-m: a schedule has no group calls"},
		{"all_reduce ring -u 1", cli.ExitUsage, "-u: a schedule runs on aligned buffers"},
		{"all_reduce ring -R 1", cli.ExitUsage, "-R: a schedule registers no buffers"},
		{"all_reduce swing --backend host -t 3", cli.ExitEnvironment, "swing all_reduce: 3 ranks, must be a power of two"},
		{"all_gather hierarchical_sliced --backend host -t 4 --width 3", cli.ExitEnvironment, "4 ranks in rows of 3, must fill each row"},
	} {
		code, stdout, stderr := cxrun(t, nil, append([]string{"bench", "schedule"}, strings.Fields(tt.args)...)...)
		require.Equal(t, tt.code, code, tt.args)
		require.Empty(t, stdout)
		require.Contains(t, stderr, tt.want)
		require.Equal(t, 1, strings.Count(stderr, "\n"), tt.args)
	}
}
