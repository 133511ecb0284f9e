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

// A file in the checkout makes the version of what is built there +dirty.
func TestTheBaselineIsOutsideTheCheckout(t *testing.T) {
	checkout, temp := t.TempDir(), t.TempDir()
	write(t, filepath.Join(checkout, "bin", "cxgen"), []byte("#!/bin/sh\nmkdir \"$5\" && echo {} > \"$5/history.ndjson\"\n"))
	write(t, filepath.Join(checkout, "bin", "cxrun-amd64.tar"), nil)
	write(t, filepath.Join(checkout, "matrix_full.json"), nil)
	w, outputs := parse(t, forms(t)["nights"]), filepath.Join(temp, "outputs")
	env := []string{"RUNNER_TEMP=" + temp, "GITHUB_RUN_ID=1", "GITHUB_OUTPUT=" + outputs}
	for _, step := range []string{"Fetch the last 10 successful runs", "Digest the matrix and the programs"} {
		out, err := script(t, w, "setup", step, checkout, env...).CombinedOutput()
		require.NoError(t, err, "%s: %s", step, out)
	}
	entries, err := os.ReadDir(checkout)
	require.NoError(t, err)
	require.Len(t, entries, 2, "bin and matrix_full.json, which git ignores")
	got, err := os.ReadFile(outputs)
	require.NoError(t, err)
	require.Regexp(t, `^found=true\nsha256<<END\n\w+  matrix_full\.json\n\w+  cxrun-amd64\.tar\n\w+  baseline\.ndjson\nEND\n$`, string(got))
	require.FileExists(t, filepath.Join(temp, "baseline.ndjson"))
}
