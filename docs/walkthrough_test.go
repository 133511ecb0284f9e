package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
)

var (
	block   = regexp.MustCompile("(?ms)^```(console|yaml)\n(.*?)^```$")
	command = regexp.MustCompile(`(?m)^\$ (.*(?:\n> .*)*)\n((?:[^$\n].*\n|\n)*)`)
)

// The commands of the pages for newcomers run, one page after the other, and print what the
// pages show. A … stands for any text, and alone in a line for any lines.
func TestWalkthrough(t *testing.T) {
	need.Full(t)
	need.Tool(t, "jq")
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(root, filepath.Join(dir, "collectivex")))
	ran := 0
	for _, name := range []string{"start.md", "add-sku.md", "add-backend.md", "read-a-document.md"} {
		page, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, b := range block.FindAllStringSubmatch(string(page), -1) {
			if b[1] == "yaml" {
				write(t, dir, b[2])
				continue
			}
			found := command.FindAllStringSubmatch(b[2], -1)
			require.NotEmpty(t, found, b[2])
			for _, c := range found {
				line := strings.ReplaceAll(c[1], "\n> ", "\n")
				cmd := exec.Command("bash", "-c", line)
				cmd.Dir, cmd.Env = dir, plain(os.Environ())
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s: %s\n%s", name, line, out)
				require.Regexp(t, pattern(c[2]), string(out), "%s: %s", name, line)
				ran++
			}
		}
	}
	require.Greater(t, ran, 20)
}

// plain returns the environment of a person's shell: without the variables of a job of
// Actions, in which the programs write summaries, and those that steer the programs.
func plain(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		for _, prefix := range []string{"GITHUB_", "GH_", "RUNNER_", "CX_", "SLURM_", "CI="} {
			if strings.HasPrefix(v, prefix) {
				return true
			}
		}
		return false
	})
}

// write writes the file that the first line of an example names, or adds to it.
func write(t *testing.T, dir, example string) {
	t.Helper()
	head, text, _ := strings.Cut(example, "\n")
	how, file, ok := strings.Cut(strings.TrimPrefix(head, "# "), " ")
	require.True(t, ok && (how == "as" || how == "to"), head)
	path := filepath.Join(dir, file)
	if how == "to" {
		old, err := os.ReadFile(path)
		require.NoError(t, err)
		text = string(old) + text
	}
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// pattern matches what a page shows of an output.
func pattern(shown string) string {
	var b strings.Builder
	b.WriteString(`\A`)
	for line := range strings.Lines(strings.TrimRight(shown, "\n")) {
		line = strings.TrimSuffix(line, "\n")
		if line == "…" {
			b.WriteString(`(?s:.*)`)
			continue
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + `\n`)
	}
	b.WriteString(`\z`)
	return b.String()
}
