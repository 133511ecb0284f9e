// Package docs_test holds the pages of this directory to what they promise.
package docs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// listed is a package as `go list -json` prints it.
type listed struct {
	ImportPath string
	Imports    []string
}

// The tables of architecture.md have a line for every package and none for one that is gone, and
// imports go down: no package imports one of a table above its own.
func TestPackagesOfArchitecture(t *testing.T) {
	page, err := os.ReadFile("architecture.md")
	require.NoError(t, err)
	floors := map[string]int{} // of each package, the number of its table from the top
	var headings []string
	for line := range strings.Lines(string(page)) {
		if heading, ok := strings.CutPrefix(line, "### "); ok {
			headings = append(headings, strings.TrimSpace(heading))
		}
		if m := regexp.MustCompile("^\\| `(pkg/[a-z0-9/]+)` \\|").FindStringSubmatch(line); m != nil {
			require.NotContains(t, floors, m[1], "two lines for one package")
			floors[m[1]] = len(headings)
		}
	}
	packages := packages(t)
	for pkg := range floors {
		require.Contains(t, packages, pkg, "the tables have a package that is gone")
	}
	for pkg := range packages {
		require.Contains(t, floors, pkg, "the tables lack a line for this package")
	}
	for pkg, imports := range packages {
		for _, imported := range imports {
			if floors[imported] < floors[pkg] {
				t.Errorf("%s is in the table %q and imports %s of the table %q, which is above it", pkg, headings[floors[pkg]-1], imported, headings[floors[imported]-1])
			}
		}
	}
}

// packages returns the packages below pkg and what each imports of the others.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "../pkg/...").Output()
	require.NoError(t, err)
	found := map[string][]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		const module = "github.com/collectivex/collectivex/"
		name := strings.TrimPrefix(p.ImportPath, module)
		found[name] = nil
		for _, path := range p.Imports {
			if imported, ours := strings.CutPrefix(path, module+"pkg/"); ours {
				found[name] = append(found[name], "pkg/"+imported)
			}
		}
	}
}
