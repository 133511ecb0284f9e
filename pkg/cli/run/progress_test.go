package run

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/shard"
)

func streams(w *bytes.Buffer, env map[string]string) cli.Streams {
	return cli.Streams{Out: w, Err: w, Getenv: func(k string) string { return env[k] }}
}

func took(d time.Duration, e shard.End) shard.End {
	e.Took = d
	return e
}

// tell shows a cell of three cases.
func tell(s cli.Streams) {
	p := newProgress(s, "cell-n1: 3 cases")
	p.Warn("torn.json does not count")
	p.Kept(1, 3, plan.Case{CaseID: "a"}, true)
	p.Started(2, 3, plan.Case{CaseID: "b"}, 2)
	p.Ended(2, 3, took(1200*time.Millisecond, ended("b", result.Outcome{Status: result.Success}, "logs/1")))
	p.Started(3, 3, plan.Case{CaseID: "c"}, 1)
	p.Ended(3, 3, took(time.Second, ended("c", result.Outcome{
		Status: result.Failed, Reasons: resulttest.Reasons("rank-died: rank 1 signal 9", "library-error: rank 0"),
	}, "logs/2")))
	p.end()
}

func TestProgressIsPlainLines(t *testing.T) {
	var w bytes.Buffer
	tell(streams(&w, nil))
	require.Equal(t, `cell-n1: 3 cases
warning: torn.json does not count
[1/3] kept      a
[2/3] success   b  1.2s
[3/3] failed    c  1.0s  rank-died: rank 1 signal 9; library-error: rank 0; logs in logs/2
`, w.String())
}

func TestProgressOnActionsIsAGroupAndAnnotations(t *testing.T) {
	var w bytes.Buffer
	tell(streams(&w, map[string]string{"GITHUB_ACTIONS": "true", "CI": "true"}))
	require.Equal(t, `::group::cell-n1: 3 cases
::warning::torn.json does not count
[1/3] kept      a
[2/3] success   b  1.2s
[3/3] failed    c  1.0s  rank-died: rank 1 signal 9; library-error: rank 0; logs in logs/2
::error title=c::rank-died: rank 1 signal 9; library-error: rank 0
::endgroup::
`, w.String())
}

// pty returns both ends of a terminal of that width.
func pty(t *testing.T, width uint16) (master, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { master.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: width}))
	return master, terminal
}

func TestProgressOnATerminal(t *testing.T) {
	tests := []struct {
		name  string
		width uint16
		env   map[string]string
		drawn bool
		green bool
	}{
		{"terminal", 12, nil, true, true},
		{"NO_COLOR", 12, map[string]string{"NO_COLOR": "1"}, true, false},
		{"CI", 80, map[string]string{"CI": "true"}, false, false},
		{"dumb terminal", 80, map[string]string{"TERM": "dumb"}, false, false},
		{"no width", 0, nil, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			master, terminal := pty(t, tt.width)
			tell(cli.Streams{Err: terminal, Getenv: func(k string) string { return tt.env[k] }})
			require.NoError(t, terminal.Close())
			raw, _ := io.ReadAll(master) // ends with EIO, as terminals do
			got := string(raw)
			require.Equal(t, tt.drawn, strings.Contains(got, "\r\x1b[K[2/3] runni\r\x1b[K"), "the running case, cut to the width, drawn over: %q", got)
			require.Equal(t, tt.drawn, strings.Contains(got, "\x1b"))
			require.Equal(t, tt.green, strings.Contains(got, "\x1b[32msuccess\x1b[0m   b"), "%q", got)
		})
	}
}

// Verdicts are coloured on a terminal, through the writers that Main puts around it.
func TestColours(t *testing.T) {
	dir := t.TempDir()
	_, err := result.Write(dir, resulttest.Collective(resulttest.CollectiveCase(), resulttest.Attempt()), 1, func([]byte) error { return nil })
	require.NoError(t, err)
	for _, noColour := range []string{"", "1"} {
		master, terminal := pty(t, 80)
		s := cli.Streams{Out: terminal, Err: io.Discard, Getenv: func(k string) string { return map[string]string{"NO_COLOR": noColour}[k] }}
		for _, command := range []string{"summarize --in " + dir, "doctor --backend host"} {
			require.Equal(t, cli.ExitOK, Main(t.Context(), s, strings.Fields(command)))
		}
		require.NoError(t, terminal.Close())
		got, _ := io.ReadAll(master) // ends with EIO, as terminals do
		for _, text := range []string{"1 of 1 case passed", "ready"} {
			require.Contains(t, string(got), text)
			require.Equal(t, noColour == "", regexp.MustCompile("\x1b\\[32m[^\x1b]*"+text+"\x1b\\[0m").Match(got), "%q", got)
		}
	}
}

func TestProgressTellsOfALongCase(t *testing.T) {
	var w bytes.Buffer
	p := &progress{w: &w, stop: make(chan struct{})}
	p.Started(1, 2, plan.Case{CaseID: "a"}, 2)
	p.stopped.Go(func() { p.watch(time.Millisecond) })
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return regexp.MustCompile(`^\[1/2\] running +\d+s  a \(attempt 2\)\n`).MatchString(w.String())
	}, 10*time.Minute, time.Millisecond)
	p.end()
}

func TestProgressMakesRoomAboveTheRunningCase(t *testing.T) {
	master, terminal := pty(t, 40)
	p := &progress{w: terminal, width: 40}
	p.Started(1, 1, plan.Case{CaseID: "a"}, 1)
	p.above(func() { fmt.Fprintln(terminal, "row") })
	require.NoError(t, terminal.Close())
	raw, _ := io.ReadAll(master) // ends with EIO, as terminals do
	require.Equal(t, "\r\x1b[K[1/1] running   0s  a\r\x1b[Krow\r\n\r\x1b[K[1/1] running   0s  a", string(raw))
}

// What a cell prints of documents and files adds no line and no command.
func TestProgressOfForeignText(t *testing.T) {
	const hostile = "x\n::error::y %0A##[group]\x1b"
	var w bytes.Buffer
	p := newProgress(streams(&w, map[string]string{"GITHUB_ACTIONS": "true", "CI": "true"}), hostile)
	p.Warn(hostile)
	p.Kept(1, 2, plan.Case{CaseID: hostile}, true)
	p.Ended(2, 2, took(time.Second, ended(hostile, result.Outcome{Status: result.Failed, Reasons: resulttest.Reasons(hostile)}, "")))
	p.end()
	require.Equal(t, `::group::x\n:\:error:\:y %0A##\[group]\x1b
::warning::x\n:\:error:\:y %250A##\[group]\x1b
[1/2] kept      x\n:\:error:\:y %0A##\[group]\x1b
[2/2] failed    x\n:\:error:\:y %0A##\[group]\x1b  1.0s  x\n:\:error:\:y %0A##\[group]\x1b
::error title=x\n%3A\%3Aerror%3A\%3Ay %250A##\[group]\x1b::x\n:\:error:\:y %250A##\[group]\x1b
::endgroup::
`, w.String())
}
