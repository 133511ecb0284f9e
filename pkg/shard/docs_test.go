package shard

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table of docs/reliability.md promises tests: each must exist, and each
// fault that a table test here injects must be in the table.
func TestTheTableOfFaultsIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../docs/reliability.md")
	require.NoError(t, err)
	row := regexp.MustCompile("(?m)^\\|.*\\| `([a-z/0-9]+)` (Test[A-Za-z0-9]+)(?:/([^|]+))? \\|$")
	rows := row.FindAllStringSubmatch(string(page), -1)
	require.Len(t, rows, strings.Count(string(page), "\n|")-2, "every row but the two of the head names a test")
	for _, r := range rows {
		source := sources(t, filepath.Join("..", r[1]))
		require.Contains(t, source, "func "+r[2]+"(t *testing.T)", r[0])
		if r[3] != "" {
			require.Contains(t, source, `"`+r[3]+`"`, r[0])
		}
	}

	// What is injected by a table has a row in the page.
	table := regexp.MustCompile(`(?m)^\t\t\{"([^"]+)", "kind=`)
	for dir, test := range map[string]string{".": "TestFaultCostsItsCaseOnly", "../cli/run": "TestWrongDataIsInvalid"} {
		names := table.FindAllStringSubmatch(sources(t, dir), -1)
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
