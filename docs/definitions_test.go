package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/planner"
)

// The examples of definitions.md are sound beside the shipped definitions.
func TestDefinitionExamples(t *testing.T) {
	page, err := os.ReadFile("definitions.md")
	require.NoError(t, err)
	example := regexp.MustCompile("(?ms)^```yaml\n# as (.+?)\n(.*?)^```$")
	files := plantest.Definitions()
	shipped := len(files)
	for _, m := range example.FindAllStringSubmatch(string(page), -1) {
		files[m[1]] = &fstest.MapFile{Data: []byte(m[2])}
	}
	require.Len(t, files, shipped+4)

	operator := files["the operator file"].Data
	delete(files, "the operator file")
	cat, err := catalog.Load(files)
	require.NoError(t, err)
	_, err = planner.Resolve(cat, planner.Filters{}, planner.Machine{})
	require.NoError(t, err)
	op, err := catalog.ParseOperator("operator.yaml", operator)
	require.NoError(t, err)
	require.Empty(t, op.Platform("h100-dgxc").Missing(cat.Platform("h100-dgxc").Launch.Requires))
	require.True(t, strings.HasPrefix(op.Platform("mi300x-tw").Docker.Command[0], "sudo"))
}

// The table of suites has each of the shipped ones, and no other.
func TestTableOfSuites(t *testing.T) {
	page, err := os.ReadFile("definitions.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "\n## The suites\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	var listed, shipped []string
	for line := range strings.Lines(table) {
		names, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, m := range regexp.MustCompile("`([a-z0-9-]+)`").FindAllStringSubmatch(names, -1) {
			listed = append(listed, m[1])
		}
	}
	cat, err := catalog.Load(matrix.FS)
	require.NoError(t, err)
	for i := range cat.Suites {
		shipped = append(shipped, cat.Suites[i].Name)
	}
	require.ElementsMatch(t, shipped, listed)
}
