package families_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	_ "github.com/collectivex/collectivex/pkg/families"
	"github.com/collectivex/collectivex/pkg/family"
)

// cores know families and backends through descriptors alone.
var cores = []string{"plan", "catalog", "planner", "result", "report", "report/page", "export", "compare", "fold", "shard", "cli/bench", "preflight", "figure", "table", "family"}

// No core has the name of a family or a backend in its code.
func TestCoresNameNoFamily(t *testing.T) {
	cat := plantest.Shipped()
	names := map[string]bool{}
	for _, f := range family.All() {
		names[string(f.Plan.Name)] = true
	}
	for i := range cat.Backends {
		names[cat.Backends[i].Name] = true
	}
	delete(names, "host") // a vendor, too
	delete(names, "sm")   // NVIDIA's architectures begin with it
	require.Greater(t, len(names), 20)
	for _, core := range cores {
		files, err := filepath.Glob(filepath.Join("..", core, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files, core)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			require.NoError(t, err)
			ast.Inspect(parsed, func(n ast.Node) bool {
				if tag, ok := n.(*ast.Field); ok && tag.Tag != nil {
					tag.Tag = nil // names of JSON members
				}
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					word, err := strconv.Unquote(lit.Value)
					require.NoError(t, err)
					require.False(t, names[word], "%s names %q: ask its descriptor", file, word)
				}
				return true
			})
		}
	}
}
