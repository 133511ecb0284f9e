package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// programVariable makes the test binary the program, and its ranks too.
const programVariable = "CX_TEST_CXRUN"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

// A measurement without an end is ended by a signal: it keeps the rows of the cycles that were done, and is no failure.
func TestCyclesWithoutEnd(t *testing.T) {
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), os.Args[0], "bench", "all_reduce", "--backend", "host", "-N", "0", "-b", "64", "-e", "64", "-n", "1")
	tmp := t.TempDir()
	cmd.Env = append(os.Environ(), programVariable+"=1", "TMPDIR="+tmp)
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var rows, feet int
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "          64"):
			if rows++; rows == 3 {
				require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
			}
		case strings.HasPrefix(line, "# Out of bounds values : 0 OK"):
			feet++
		}
	}
	require.NoError(t, cmd.Wait(), errs.String())
	require.GreaterOrEqual(t, rows, 3)
	require.Equal(t, 1, feet)
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}

// The cycle in which the user ends a measurement counts for nothing, but is named; if it is the first one, the
// measurement fails. The signal may also come between two cycles, so that none is stopped.
func TestStoppedCycles(t *testing.T) {
	for _, c := range []struct {
		row       string // after which the signal comes
		times     int
		says      string
		code      int
		verdict   string
		arguments []string
	}{
		{"          64", 2, "# (stopped in cycle [0-9]+, which does not count|Out of bounds values : 0 OK)", 0, "# Out of bounds values : 0 OK", []string{"-e", "4M", "-f", "65536", "-n", "200"}},
		{"# estimate", 1, "# stopped in cycle 1: no cycle is complete", 1, "# Out of bounds values : N/A FAILED", []string{"-e", "64", "--trials", "100000"}},
	} {
		var errs bytes.Buffer
		cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"bench", "all_reduce", "--backend", "host", "-N", "0", "-b", "64", "--max-time", "64=1e9"}, c.arguments...)...)
		cmd.Env = append(os.Environ(), programVariable+"=1", "TMPDIR="+t.TempDir())
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		var all strings.Builder
		seen := 0
		for lines := bufio.NewScanner(out); lines.Scan(); fmt.Fprintln(&all, lines.Text()) {
			if strings.HasPrefix(lines.Text(), c.row) {
				if seen++; seen == c.times {
					require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
				}
			}
		}
		_ = cmd.Wait() // the exit code
		require.Equal(t, c.code, cmd.ProcessState.ExitCode(), "%s%s", &all, &errs)
		require.Regexp(t, "(?m)^"+c.says, all.String())
		require.Contains(t, all.String(), c.verdict)
		require.Equal(t, c.code != 0, strings.Contains(all.String(), "cancelled"), &all)
	}
}

// Each signal that asks for the end gets one in order.
func TestSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			// A program started by one that handles a signal does not ignore it, though
			// these tests may run under nohup.
			handled := make(chan os.Signal, 1)
			signal.Notify(handled, sig)
			defer signal.Stop(handled)
			var errs bytes.Buffer
			cmd := exec.CommandContext(t.Context(), os.Args[0], "bench", "all_reduce", "--backend", "host", "--trials", "1000000")
			cmd.Env = append(os.Environ(), programVariable+"=1", "TMPDIR="+t.TempDir())
			cmd.Stderr = &errs
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			require.True(t, bufio.NewScanner(out).Scan(), "the head is there: it runs")
			require.NoError(t, cmd.Process.Signal(sig))
			require.Error(t, cmd.Wait())
			require.Equal(t, 1, cmd.ProcessState.ExitCode(), errs.String())
			require.Contains(t, errs.String(), "skipped: cancelled")
		})
	}
}
