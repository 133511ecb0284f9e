package catalog_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/strictyaml"
)

// FuzzLoad puts any bytes in the place of any definition file: Load never
// panics, and whatever it says has a position.
func FuzzLoad(f *testing.F) {
	sound := base(f)
	places := slices.Sorted(maps.Keys(sound))
	for i, p := range places {
		f.Add(i, sound[p].Data)
	}
	files, err := filepath.Glob("testdata/err/*.yaml")
	require.NoError(f, err)
	for i, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(i, data)
	}
	for _, file := range []string{"backends.yaml", "suites/ep-core.yaml", "platforms/mi300x-tw.yaml"} {
		data, err := fs.ReadFile(matrix.FS, file)
		require.NoError(f, err)
		f.Add(0, data)
	}
	f.Fuzz(func(t *testing.T, place int, data []byte) {
		defs := maps.Clone(sound)
		file := places[uint(place)%uint(len(places))]
		defs[file] = &fstest.MapFile{Data: data}
		cat, err := catalog.Load(defs)
		if err == nil {
			require.NotNil(t, cat)
			cat.Coverage()
			return
		}
		var diagnostics strictyaml.Errors
		require.ErrorAs(t, err, &diagnostics)
		require.NotEmpty(t, diagnostics)
		for _, d := range diagnostics {
			require.NotEmpty(t, d.File)
			require.Positive(t, d.Line)
			require.Positive(t, d.Col)
			require.NotEmpty(t, d.Msg)
		}
		_, err = catalog.ParseOperator("operator.yaml", data)
		_ = err // an operator file may be anything; it must not panic
	})
}
