package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The glossary explains each word of the vocabulary once, and points to Go
// declarations that exist.
func TestGlossary(t *testing.T) {
	data, err := os.ReadFile("glossary.md")
	require.NoError(t, err)
	page := string(data)
	explained := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^\*\*(.+?)\.\*\*`).FindAllStringSubmatch(page, -1) {
		for term := range strings.SplitSeq(strings.ToLower(m[1]), ", ") {
			explained[term]++
		}
	}
	for _, term := range []string{
		"rank", "world", "node", "cell", "shard", "case", "suite", "platform", "sku", "backend", "family",
		"rung", "ladder", "window", "chain", "buffer slot", "group", "attempt", "repeat", "trial", "placement",
		"leg", "wave", "store", "scope", "comparison key", "fault", "diagnostic", "failure", "busbw", "algbw",
	} {
		require.Contains(t, explained, term)
	}
	for term, times := range explained {
		require.Equal(t, 1, times, term)
	}
	declarations(t, "glossary.md", page)
}

// Records of decisions point to Go declarations that exist.
func TestDecisionsNameTheCode(t *testing.T) {
	files, err := filepath.Glob("decisions/*.md")
	require.NoError(t, err)
	for _, f := range files {
		page, err := os.ReadFile(f)
		require.NoError(t, err)
		declarations(t, f, string(page))
	}
}

// declarations holds each `package.Name` of a page against the packages of pkg.
func declarations(t *testing.T, name, page string) {
	t.Helper()
	for _, m := range regexp.MustCompile("`([a-z]+)\\.([A-Z][A-Za-z0-9]*)`").FindAllStringSubmatch(page, -1) {
		if m[1] == "debug" { // runtime/debug
			continue
		}
		files, err := filepath.Glob(filepath.Join("..", "pkg", m[1], "*.go"))
		require.NoError(t, err)
		declared := regexp.MustCompile(`(?m)^(type|var|const|func(?: \([^)]*\))?) ` + m[2] + `\b`)
		found := false
		for _, f := range files {
			source, err := os.ReadFile(f)
			require.NoError(t, err)
			found = found || declared.Match(source)
		}
		require.True(t, found, "%s: %s is not declared in pkg/%s", name, m[0], m[1])
	}
}
