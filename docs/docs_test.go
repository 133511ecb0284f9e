// Package docs_test holds the pages of this directory to what they promise.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// architecture.md has a line for every package, and for none that is gone.
func TestArchitectureListsEveryPackage(t *testing.T) {
	page, err := os.ReadFile("architecture.md")
	require.NoError(t, err)
	var rooms []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(pkg/[a-z0-9/]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		rooms = append(rooms, m[1])
	}
	var packages []string
	require.NoError(t, filepath.WalkDir("../pkg", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == "testdata" {
			return fs.SkipDir
		}
		if files, err := filepath.Glob(filepath.Join(path, "*.go")); err == nil && len(files) > 0 {
			packages = append(packages, strings.TrimPrefix(path, "../"))
		}
		return nil
	}))
	for _, p := range packages {
		if !slices.Contains(rooms, p) {
			t.Errorf("the table of packages in docs/architecture.md lacks a line for %s", p)
		}
	}
	for _, r := range rooms {
		if !slices.Contains(packages, r) {
			t.Errorf("the table of packages in docs/architecture.md has %s, which is gone", r)
		}
	}
}
