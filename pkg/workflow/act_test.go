package workflow_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/githubtest"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/workflow"
)

// stage is where emitted workflows run under act, on this host: a repository
// with the tree at hand, and the stand-in actions with their artifacts.
type stage struct {
	act          string
	dir          string
	repositories string // OWNER/NAME below
	artifacts    string // a directory per run
}

// repository is the one that the workflow lives in.
const repository = "acme/benchmarks"

// newStage needs act, which .ci/run installs.
func newStage(t *testing.T) *stage {
	t.Helper()
	need.EndToEnd(t, "to run the workflow under act")
	act := need.Tool(t, "act")
	dir := t.TempDir()
	s := &stage{act: act, dir: dir, repositories: filepath.Join(dir, "repositories"), artifacts: filepath.Join(dir, "artifacts")}
	write(t, filepath.Join(dir, "home", ".config/go/telemetry/mode"), []byte("off")) // else go leaves a process that writes there
	write(t, filepath.Join(dir, "bin", "bash"), []byte(shell))
	return s
}

// shell is the shell of the steps. When a step fails, act does not wait for what it
// printed to arrive, and may lose it. So the step does not end before its last line is in
// act's output, or act is gone.
const shell = `#!/bin/sh
/bin/bash "$@"
code=$?
if [ $code -ne 0 ] && [ -t 1 ]; then
	mark="` + endMark + `$$"
	echo "$mark"
	until grep -qF "$mark" "$CX_ACT_OUTPUT" || ! kill -0 $PPID; do sleep 0.05; done
fi
exit $code
`

// endMark begins the last line of a step that failed.
const endMark = "end of failed step "

// commit makes a repository of the tree at hand, with files put over it, and
// returns its commit.
func (s *stage) commit(t *testing.T, name string, over map[string][]byte) string {
	t.Helper()
	root := filepath.Join("..", "..")
	to := filepath.Join(s.repositories, name)
	listed, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	require.NoError(t, err)
	for file := range strings.SplitSeq(strings.TrimRight(string(listed), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, file))
		if os.IsNotExist(err) {
			continue // deleted, not yet committed
		}
		require.NoError(t, err)
		write(t, filepath.Join(to, file), data)
	}
	for file, data := range over {
		write(t, filepath.Join(to, file), data)
	}
	return s.repo(t, name)
}

// repo commits the directory of repository name.
func (s *stage) repo(t *testing.T, name string) string {
	t.Helper()
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", filepath.Join(s.repositories, name)}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "git %s: %s", args, out)
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "-b", "main")
	git("config", "uploadpack.allowAnySHA1InWant", "true")
	git("remote", "add", "origin", "https://github.com/"+name+".git")
	git("add", "-A", "-f")
	git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "tree")
	return git("rev-parse", "HEAD")
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, data, 0o755))
}

// request is one dispatch of a workflow.
type request struct {
	file    string // of the workflow; workflow.File unless said
	event   string // workflow_dispatch unless said
	run     int    // run id
	attempt int
	inputs  map[string]string
	env     []string // of the runners
}

// event is a line of act's log.
type event struct {
	JobID      string         `json:"jobID"`
	Matrix     map[string]any `json:"matrix"`
	Step       string         `json:"step"`
	StepID     []string       `json:"stepID"` // longer inside an action
	Stage      string         `json:"stage"`
	StepResult string         `json:"stepResult"`
	Command    string         `json:"command"`
	Content    string         `json:"content"`
	Arg        string         `json:"arg"` // of an error, warning or notice
	Raw        bool           `json:"raw_output"`
	Msg        string         `json:"msg"`
	leg        string
}

// outcome is what a run left.
type outcome struct {
	events []event
	failed bool // act's own verdict
}

// dispatch runs the workflow of the repository.
func (s *stage) dispatch(t *testing.T, r request) *outcome {
	t.Helper()
	act, output := s.command(t, r)
	return s.outcome(t, output, act.Run())
}

// command returns act, which runs the workflow of the repository, and the file to which it
// writes.
func (s *stage) command(t *testing.T, r request) (*exec.Cmd, string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(s.artifacts, 0o755))
	file := r.file
	if file == "" {
		file = workflow.File
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(s.repositories, repository, file))
	require.NoError(t, err)
	// Jobs of act share maps and strings without a lock, and act dies of it now and then.
	// So one job runs at a time: of the workflow, and of a matrix.
	serial := filepath.Join(s.dir, "serial.yml")
	write(t, serial, bytes.ReplaceAll(text, []byte("    strategy:\n"), []byte("    strategy:\n      max-parallel: 1\n")))
	args := []string{
		cmp.Or(r.event, "workflow_dispatch"), "--json", "-W", serial, "--no-skip-checkout", "--action-offline-mode", "--no-cache-server",
		"--env", "GITHUB_RUN_ID=" + strconv.Itoa(r.run), "--env", "GITHUB_RUN_ATTEMPT=" + strconv.Itoa(r.attempt),
		"--concurrent-jobs", "1",
	}
	for _, kv := range r.env {
		if api, ok := strings.CutPrefix(kv, "CX_STANDIN_API="); ok {
			args = append(args, "--env", "GITHUB_API_URL="+api, "-s", "GITHUB_TOKEN="+githubtest.Token)
		}
	}
	for _, label := range []string{"ubuntu-24.04", "ubuntu-latest", ownLabel} {
		args = append(args, "-P", label+"=-self-hosted")
	}
	for _, uses := range regexp.MustCompile(`uses: actions/([a-z-]+)(@[0-9a-f]{40})`).FindAllStringSubmatch(string(text), -1) {
		args = append(args, "--local-repository", "actions/"+uses[1]+uses[2]+"="+filepath.Join(root, "testdata", "act", "actions", uses[1]))
	}
	for _, name := range slices.Sorted(maps.Keys(r.inputs)) {
		args = append(args, "--input", name+"="+r.inputs[name])
	}

	output, err := os.CreateTemp(s.dir, "output-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = output.Close() })
	cmd := exec.Command(s.act, args...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Dir = filepath.Join(s.repositories, repository)
	cmd.Env = append(goEnv(t),
		"PATH="+filepath.Join(s.dir, "bin")+":"+os.Getenv("PATH"), "CX_ACT_OUTPUT="+output.Name(), "HOME="+filepath.Join(s.dir, "home"), "GIT_CONFIG_GLOBAL=/dev/null",
		"CX_STANDIN_ARTIFACTS="+s.artifacts, "CX_STANDIN_REPOSITORIES="+s.repositories)
	cmd.Env = append(cmd.Env, r.env...)
	return cmd, output.Name()
}

// outcome reads what act wrote to a file, and how it ended.
func (s *stage) outcome(t *testing.T, output string, ended error) *outcome {
	t.Helper()
	o := &outcome{failed: ended != nil}
	out, err := os.ReadFile(output)
	require.NoError(t, err)
	if log := os.Getenv("CX_ACT_LOG"); log != "" {
		require.NoError(t, os.WriteFile(log, out, 0o644))
	}
	require.NotContains(t, string(out), "Skipping unsupported platform")
	require.NotContains(t, string(out), "fatal error: ", "act itself died")
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.JobID != "" && !strings.HasPrefix(e.Msg, endMark) {
			if id, ok := e.Matrix["id"]; ok {
				e.leg = fmt.Sprint(id)
			}
			o.events = append(o.events, e)
		}
	}
	require.NoError(t, lines.Err())
	return o
}

// compiled compiles the programs as setup does, once. Setups that begin at the same time would
// each compile all of it. What is wrong, setup says.
var compiled = sync.OnceFunc(func() {
	for arch, compiler := range map[string]string{"amd64": "gcc", "arm64": "aarch64-linux-gnu-gcc"} {
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-w", "-o", os.DevNull, "./cmd/cxrun")
		build.Dir = filepath.Join("..", "..")
		build.Env = append(os.Environ(), "CGO_ENABLED=1", "GOOS=linux", "GOARCH="+arch, "CC="+compiler)
		_ = build.Run()
	}
})

// goEnv lets setup build with the caches of this machine, and link without debugging
// information, which takes most of the time and which these tests do not read.
func goEnv(t *testing.T) []string {
	t.Helper()
	compiled()
	var env []string
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS", "GOTOOLCHAIN"} {
		value, err := exec.Command("go", "env", name).Output()
		require.NoError(t, err)
		text := strings.TrimSpace(string(value))
		if name == "GOFLAGS" {
			text += " -ldflags=-w"
		}
		env = append(env, name+"="+text)
	}
	return env
}

// step returns how a step of a job ended: success or failure; empty where it
// was skipped or never came to it. Leg is the cell of a sweep job.
func (o *outcome) step(job, leg, name string) string {
	for _, e := range o.events {
		if e.JobID == job && e.leg == leg && e.Step == name && e.Stage == "Main" && len(e.StepID) == 1 && e.StepResult != "" {
			return e.StepResult
		}
	}
	return ""
}

// log returns what the steps printed and which of them failed, for people.
func (o *outcome) log() string {
	var text strings.Builder
	for _, e := range o.events {
		where := strings.TrimSpace(e.JobID + " " + e.leg)
		switch {
		case e.Raw:
			fmt.Fprintf(&text, "[%s: %s] %s", where, e.Step, e.Msg)
		case e.Command == "error":
			fmt.Fprintf(&text, "[%s: %s] error: %s\n", where, e.Step, e.Arg)
		case e.StepResult == "failure" && len(e.StepID) == 1:
			fmt.Fprintf(&text, "[%s: %s] failed\n", where, e.Step)
		}
	}
	return text.String()
}

// legs returns the cells that a sweep job ran.
func (o *outcome) legs(job string) []string {
	var legs []string
	for _, e := range o.events {
		if e.JobID == job && e.leg != "" && !slices.Contains(legs, e.leg) {
			legs = append(legs, e.leg)
		}
	}
	slices.Sort(legs)
	return legs
}

// summary returns what a job wrote to its summary.
func (o *outcome) summary(job, leg string) string {
	var text strings.Builder
	for _, e := range o.events {
		if e.JobID == job && e.leg == leg && e.Command == "summary" {
			text.WriteString(e.Content)
		}
	}
	return text.String()
}

// said returns what a step printed, its errors and warnings included.
func (o *outcome) said(job, leg, step string) string {
	var text strings.Builder
	for _, e := range o.events {
		switch {
		case e.JobID != job || e.leg != leg || e.Step != step:
		case e.Raw:
			text.WriteString(e.Msg)
		case slices.Contains([]string{"error", "warning", "notice"}, e.Command):
			text.WriteString(e.Command + ": " + e.Arg + "\n")
		}
	}
	return text.String()
}

// artifact returns the files of an artifact by path.
func (s *stage) artifact(t *testing.T, run int, name string) map[string]string {
	t.Helper()
	root := filepath.Join(s.artifacts, strconv.Itoa(run), name)
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, root+"/")] = string(data)
		return err
	}))
	return files
}

// names returns the artifacts of a run.
func (s *stage) names(t *testing.T, run int) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.artifacts, strconv.Itoa(run)))
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
