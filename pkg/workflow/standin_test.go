package workflow_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStandIns shows that the stand-in actions do what testdata/act/README.md
// says they share with the real ones.
func TestStandIns(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "act", "actions.yml"))
	require.NoError(t, err)
	write(t, filepath.Join(s.repositories, repository, "actions.yml"), text)
	s.repo(t, repository)
	o := s.dispatch(t, request{file: "actions.yml", run: 7, attempt: 1})
	require.False(t, o.failed, o.log())

	for step, want := range map[string]string{
		"again":    "(409) Conflict: an artifact with this name already exists on the workflow run: one",
		"none":     "No files were found with the provided path: nowhere.",
		"refused":  "is not valid: refused:name",
		"bad name": "The artifact name is not valid: a/b",
		"absent":   "Artifact 'absent' not found",
	} {
		require.Contains(t, o.said("all", "", step), want, step)
	}
	for _, step := range []string{"tree", "glob", "file", "two", "over", "warn", "by name", "by pattern", "merged", "single match", "no match"} {
		require.Equal(t, "success", o.step("all", "", step), step)
	}
	require.Equal(t, []string{"one", "t-glob", "t-tree", "two"}, s.names(t, 7))
	require.Equal(t, map[string]string{"a.json": "a\n", "deep/c.txt": "c\n"}, s.artifact(t, 7, "two"))
	require.Equal(t, map[string]string{"a.json": "a\n"}, s.artifact(t, 7, "one"))
	require.Equal(t, `./merged/a.json
./merged/b.json
./merged/deep/c.txt
./merged/tool
./name/a.json
./name/b.json
./name/deep/c.txt
./name/tool
./pattern/t-glob/a.json
./pattern/t-glob/b.json
./pattern/t-tree/a.json
./pattern/t-tree/b.json
./pattern/t-tree/deep/c.txt
./pattern/t-tree/tool
./single/a.json
`, o.said("all", "", "result"))
}
