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

// The tables of reliability.md name tests: each must exist, and each fault that a
// table of these tests injects must have a row.
func TestReliabilityTablesNameTests(t *testing.T) {
	page, err := os.ReadFile("reliability.md")
	require.NoError(t, err)
	row := regexp.MustCompile("(?m)^\\|.*\\| `([a-z/0-9]+)` (Test[A-Za-z0-9]+)(?:/([^|]+))? \\|$")
	rows := row.FindAllStringSubmatch(string(page), -1)
	head := regexp.MustCompile(`^\| Injected (\| Times )?\| Detected by \| Outcome \| Lost \| Test \||^\|---`)
	for line := range strings.SplitSeq(string(page), "\n") {
		if strings.HasPrefix(line, "|") && !head.MatchString(line) {
			require.Regexp(t, row, line, "a row ends with the test that injects its fault, and names one")
		}
	}
	for _, r := range rows {
		source := sources(t, filepath.Join("../pkg", r[1]))
		if test := "func " + r[2] + "(t *testing.T)"; !strings.Contains(source, test) { // Contains would print the source
			require.Fail(t, "no such test: pkg/"+r[1]+" "+r[2], r[0])
		}
		if r[3] != "" {
			require.Contains(t, source, `"`+r[3]+`"`, r[0])
		}
	}

	// What is injected by a table has a row in the page.
	table := regexp.MustCompile(`(?m)^\t\t\{"([^"]+)", "kind=`)
	for dir, test := range map[string]string{"shard": "TestFaultCostsItsCaseOnly", "cli/run": "TestWrongDataIsInvalid"} {
		names := table.FindAllStringSubmatch(sources(t, filepath.Join("../pkg", dir)), -1)
		require.NotEmpty(t, names)
		for _, name := range names {
			require.Contains(t, string(page), test+"/"+name[1]+" |")
		}
	}
}

// sources returns the test files of a package.
func sources(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	var b strings.Builder
	for _, n := range names {
		data, err := os.ReadFile(n)
		require.NoError(t, err)
		b.Write(data)
	}
	return b.String()
}

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
