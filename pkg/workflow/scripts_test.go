package workflow_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// script returns the script of a step as a process that the runner would start in dir.
func script(t *testing.T, w shape, job, name, dir string, env ...string) *exec.Cmd {
	t.Helper()
	steps := w.Jobs[job].Steps
	at := slices.IndexFunc(steps, func(s step) bool { return s.Name == name })
	require.NotEqual(t, -1, at, name)
	file := filepath.Join(t.TempDir(), "script.sh")
	require.NoError(t, os.WriteFile(file, []byte(steps[at].Run), 0o600))
	cmd := exec.Command("bash", "--noprofile", "--norc", "-e", "-o", "pipefail", file)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	return cmd
}

// The runner sends the signals of a cancelled run only to the process that it started.
func TestTheRunnerSignalsTheShard(t *testing.T) {
	temp := t.TempDir()
	write(t, filepath.Join(temp, "collectivex", "cxrun"), []byte("#!/bin/sh\necho $$\n"))
	for form, text := range forms(t) {
		t.Run(form, func(t *testing.T) {
			var out bytes.Buffer
			cmd := script(t, parse(t, text), "sweep_0", "Run the cell", t.TempDir(), "RUNNER_TEMP="+temp, "CX_CELL=cell", "CX_DIR=cells/1")
			cmd.Stdout = &out
			require.NoError(t, cmd.Run())
			require.Equal(t, strconv.Itoa(cmd.Process.Pid)+"\n", out.String())
		})
	}
}
