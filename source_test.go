package collectivex

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
)

// A build with cgo and one without embed the same files: those that either is built from, on any
// architecture.
func TestEmbeddedAreTheFilesOfThePrograms(t *testing.T) {
	built := map[string]bool{"go.mod": true, "go.sum": true}
	for _, cgo := range []string{"0", "1"} {
		for _, name := range filesOfPrograms(t, "CGO_ENABLED="+cgo) {
			built[name] = true
		}
	}
	embedded := embeddedFiles(t)
	for name := range built {
		if _, ok := embedded[name]; !ok {
			t.Errorf("the programs are built from %s: add a pattern that matches it to go:embed in source.go", name)
		}
	}
	for name := range embedded {
		if !built[name] {
			t.Errorf("the programs are not built from %s: remove it, or change the pattern in source.go that matches it", name)
		}
	}
}

// filesOfPrograms returns the files of this module that the go command builds the programs from.
func filesOfPrograms(t *testing.T, setting string) []string {
	root, err := os.Getwd()
	require.NoError(t, err)
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json", "./cmd/...")
	list.Env = append(os.Environ(), setting)
	out, err := list.Output()
	require.NoError(t, err)
	var names []string
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			Dir    string
			Module *struct{ Main bool }

			GoFiles, CgoFiles, CFiles, CXXFiles, HFiles, SFiles, SysoFiles []string
			EmbedFiles, IgnoredGoFiles, IgnoredOtherFiles                  []string
		}
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			require.NotEmpty(t, names)
			return names
		}
		require.NoError(t, err)
		if p.Module == nil || !p.Module.Main {
			continue
		}
		if p.Dir == root {
			p.EmbedFiles = nil // they are what is tested
		}
		_, err = os.ReadDir(p.Dir) // so that the go command forgets the result when a file comes or goes
		require.NoError(t, err)
		dir, err := filepath.Rel(root, p.Dir)
		require.NoError(t, err)
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.CFiles, p.CXXFiles, p.HFiles, p.SFiles, p.SysoFiles, p.EmbedFiles, p.IgnoredGoFiles, p.IgnoredOtherFiles) {
			if !strings.HasSuffix(name, "_test.go") {
				names = append(names, path.Join(filepath.ToSlash(dir), name))
			}
		}
	}
}

// embeddedFiles returns a copy of what is embedded.
func embeddedFiles(t *testing.T) fstest.MapFS {
	tree := fstest.MapFS{}
	require.NoError(t, fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		tree[name] = &fstest.MapFile{Data: data}
		return err
	}))
	return tree
}

// Copies of a tree have its version. A tree with one byte more in a file, with a file of another
// name or without a file has another.
func TestOneTreeHasOneVersion(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tree")
	require.NoError(t, os.CopyFS(dir, files))
	require.Equal(t, SourceVersion(), version(os.DirFS(dir)))
	tree := embeddedFiles(t)
	require.Equal(t, SourceVersion(), version(tree))

	seen := map[string]string{SourceVersion(): "the tree"}
	differs := func(change, name string, edit func(fstest.MapFS)) {
		edited := maps.Clone(tree)
		edit(edited)
		v := version(edited)
		require.Empty(t, seen[v], "%s %s", change, name)
		seen[v] = change + " " + name
	}
	kinds := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		if kinds[path.Ext(name)] {
			continue // one file of each kind
		}
		kinds[path.Ext(name)] = true
		file := tree[name]
		differs("one byte more in", name, func(m fstest.MapFS) {
			m[name] = &fstest.MapFile{Data: slices.Concat(file.Data, []byte("\n"))}
		})
		differs("another name of", name, func(m fstest.MapFS) {
			delete(m, name)
			m[name+"x"] = file
		})
		differs("no", name, func(m fstest.MapFS) { delete(m, name) })
	}
}

// Both programs print the version of this tree.
func TestProgramsPrintTheSourceVersion(t *testing.T) {
	need.Full(t)
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "./cmd/...").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, program := range []string{"cxgen", "cxrun"} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, program), "--version").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "(source "+SourceVersion()+")")
	}
}

// go install of a tag builds a program that knows the tag and the source.
func TestGoInstall(t *testing.T) {
	need.Full(t)
	clone, bin := filepath.Join(t.TempDir(), "clone"), t.TempDir()
	run := func(dir string, env []string, name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %s: %s", name, args, out)
		return strings.TrimSpace(string(out))
	}
	require.NoError(t, os.MkdirAll(clone, 0o755))
	run(".", nil, "bash", "-c", `git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$0" 2>/dev/null || true`, clone)
	run(clone, nil, "bash", "-ec", `git init -q; git add -A; git -c user.name=t -c user.email=t@example.org commit -qm tree; git tag v0.1.2`)
	cache := run(".", nil, "go", "env", "GOMODCACHE")
	run(bin, []string{
		"GOBIN=" + bin, "CGO_ENABLED=0", "GOFLAGS=-trimpath -modcacherw", "GOSUMDB=off", "GOMODCACHE=" + t.TempDir(),
		"GOPROXY=file://" + filepath.Join(cache, "cache", "download"), "GONOPROXY=github.com/collectivex",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url." + clone + ".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/collectivex/collectivex",
	}, "go", "install", "github.com/collectivex/collectivex/cmd/cxgen@v0.1.2")
	require.Equal(t, "cxgen version v0.1.2 (source "+SourceVersion()+")", run(bin, nil, "./cxgen", "--version"))
}
