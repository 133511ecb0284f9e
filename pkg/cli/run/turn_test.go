package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/dirlock"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// occupied makes this process another one that uses the second of two devices, until the function is called.
func occupied(t *testing.T) (leave func()) {
	t.Helper()
	standIns(t)
	withoutAMD(t)
	turn, err := dirlock.TakeTurn(t.Context(), os.Getenv(locksVariable), "cxrun-device-0000:11:00.0", func(pid int) error {
		return fmt.Errorf("process %d has it", pid)
	})
	require.NoError(t, err)
	return func() { require.NoError(t, turn.Release()) }
}

// withoutAMD leaves the devices of one vendor to be found.
func withoutAMD(t *testing.T) {
	t.Helper()
	for _, name := range []string{"CX_HIP_LIB", "CX_RCCL_LIB"} {
		t.Setenv(name, "/nowhere/lib.so")
	}
}

var benchOnTwo = []string{"bench", "all_reduce", "--backend", "nccl", "-b", "8", "-e", "8", "-n", "2", "-w", "1"}

// Nothing begins on a device that another process uses, and the line that says so names the process.
func TestOccupiedDevicesAreRefused(t *testing.T) {
	need.Full(t)
	leave := occupied(t)
	out := filepath.Join(t.TempDir(), "out")
	var d cli.Definitions
	cat, err := d.Load()
	require.NoError(t, err)
	this, err := machineHere(t.Context(), d)
	require.NoError(t, err)
	m, err := planHere(cat, planner.Filters{Only: planner.Only{"backend": {"nccl"}, "op": {"all_reduce"}}}, planner.Machine{GPUs: &this.GPUs[0]})
	require.NoError(t, err)
	matrix := filepath.Join(t.TempDir(), matrixFile)
	require.NoError(t, m.WriteFile(matrix))
	m.Include[0].Launcher = vocab.Slurm
	onSlurm := filepath.Join(t.TempDir(), matrixFile)
	require.NoError(t, m.WriteFile(onSlurm))
	started := map[string]string{"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "1", "CX_STORE": t.TempDir()}
	for _, args := range [][]string{
		append(benchOnTwo, "--out", out),
		{"sweep", "--backend", "nccl", "--op", "all_reduce", "--world", "2", "--out", out},
		{"shard", "--matrix", matrix, "--id", m.Include[0].ID, "--results", out},
		{"shard", "--join", "--matrix", onSlurm, "--id", m.Include[0].ID, "--results", out},
	} {
		_, stderr := ran(t, cli.ExitEnvironment, started, args...)
		wording.Has(t, stderr, fmt.Sprintf("process %d, another cxrun, uses GPU 0000:11:00.0 … --wait", os.Getpid()))
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		require.NoDirExists(t, out, "nothing was begun")
	}
	code, _, stderr := cxrun(t, nil, append(benchOnTwo, "-g", "1")...)
	require.Equal(t, cli.ExitOK, code, "%s: the first device is free", stderr)
	leave()
}

// waited calls a function at the first line that says so.
type waited struct {
	strings.Builder
	leave func()
}

func (w *waited) Write(p []byte) (int, error) {
	if w.leave != nil && strings.Contains(string(p), "waiting for process") {
		w.leave()
		w.leave = nil
	}
	return w.Builder.Write(p)
}

func TestWaitForADevice(t *testing.T) {
	need.Full(t)
	errs := &waited{leave: occupied(t)}
	var out strings.Builder
	code := Main(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: errs, Getenv: func(string) string { return "" }}, append(benchOnTwo, "--wait"))
	require.Equal(t, cli.ExitOK, code, errs.String())
	require.Nil(t, errs.leave)
	wording.Has(t, errs.String(), fmt.Sprintf("process %d … GPU 0000:11:00.0", os.Getpid()))
	require.NotContains(t, out.String(), fmt.Sprint(os.Getpid()))
}
