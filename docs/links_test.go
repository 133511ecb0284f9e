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

// pages returns the Markdown files of the repository, by their paths from here.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." && d.Name() != ".github":
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			data, err := os.ReadFile(path)
			out[path] = string(data)
			return err
		}
		return nil
	}))
	return out
}

// prose is a page without its code blocks.
func prose(page string) string {
	return regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(page, "")
}

// anchors returns the fragments by which GitHub links to the headings of a page.
func anchors(page string) (out []string) {
	drop := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ +(.+)$`).FindAllStringSubmatch(prose(page), -1) {
		out = append(out, strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return out
}

// Every link to a file or a heading of this repository leads somewhere.
func TestLinksResolve(t *testing.T) {
	all := pages(t)
	links := 0
	for path, page := range all {
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(prose(page), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			file, fragment, _ := strings.Cut(m[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link %s: %v", path, m[1], err)
			} else if fragment != "" && !slices.Contains(anchors(all[target]), fragment) {
				t.Errorf("%s: link %s: %s has no such heading", path, m[1], target)
			}
		}
	}
	require.Greater(t, links, 10)
}

// The index of decisions has every record once, in order, under its own title.
func TestDecisionsAreIndexed(t *testing.T) {
	index, err := os.ReadFile("decisions/README.md")
	require.NoError(t, err)
	files, err := filepath.Glob("decisions/[0-9]*.md")
	require.NoError(t, err)
	var want []string
	for _, f := range files {
		page, err := os.ReadFile(f)
		require.NoError(t, err)
		title, rest, _ := strings.Cut(string(page), "\n")
		name := filepath.Base(f)
		number, _, _ := strings.Cut(strings.TrimLeft(name, "0"), "-")
		text, ok := strings.CutPrefix(title, "# "+number+". ")
		require.True(t, ok, "%s: title %q", f, title)
		for _, part := range []string{"Context", "Decision", "Consequences"} {
			require.Contains(t, rest, "\n## "+part+"\n", f)
		}
		want = append(want, number+". ["+text+"]("+name+")")
	}
	require.NotEmpty(t, want)
	require.Equal(t, want, regexp.MustCompile(`(?m)^\d+\. .+$`).FindAllString(string(index), -1))
}
