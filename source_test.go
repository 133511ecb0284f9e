package collectivex

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every package of this module that a program is built from is embedded, and
// with it all its files but those that the go command ignores too.
func TestEveryPackageOfTheProgramsIsEmbedded(t *testing.T) {
	root, err := os.Getwd()
	require.NoError(t, err)
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.Dir}}{{end}}{{end}}", "./cmd/...")
	out, err := list.Output()
	require.NoError(t, err)
	packages := strings.Fields(string(out))
	require.Greater(t, len(packages), 2)
	for _, dir := range packages {
		rel, err := filepath.Rel(root, dir)
		require.NoError(t, err)
		if rel != "." { // this package: go:embed names its files
			_, err = files.ReadDir(filepath.ToSlash(rel))
			require.NoError(t, err, "add %s to go:embed in source.go", rel)
		}
	}
}

// Two programs of one tree have the same version, built in any directory and
// without version control. One byte more in any package changes it.
func TestProgramsOfOneTreeMatch(t *testing.T) {
	tree := filepath.Join(t.TempDir(), "tree")
	require.NoError(t, os.CopyFS(tree, files))
	version := func(program string) string {
		cmd := exec.CommandContext(t.Context(), "go", "run", "-trimpath", "./cmd/"+program, "--version")
		cmd.Dir = tree
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		_, source, found := strings.Cut(strings.TrimSpace(string(out)), "(source ")
		require.True(t, found, "%s", out)
		return strings.TrimSuffix(source, ")")
	}
	require.Equal(t, SourceVersion(), version("cxgen"))
	require.Equal(t, SourceVersion(), version("cxrun"))

	changed := filepath.Join(tree, "pkg", "collective", "op.go") // cxgen is not built from it
	f, err := os.OpenFile(changed, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	require.NoError(t, err)
	_, err = f.WriteString("\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	other := version("cxgen")
	require.NotEqual(t, SourceVersion(), other)
	require.Len(t, other, len(SourceVersion()))
}
