package catalog_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/golden"
	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/strictyaml"
)

func TestLoadShipped(t *testing.T) {
	cat, err := catalog.Load(matrix.FS)
	require.NoError(t, err)
	local := cat.Platform("local")
	require.NotNil(t, local)
	require.True(t, local.Local)
	require.Equal(t, "ubuntu-latest", local.Runner)
	require.Equal(t, "h100-dgxc", cat.Platform("h100-dgxc").Runner, "the label is the SKU unless said")
	require.Equal(t, []int{2, 4}, catalog.SupportOf[ep.Support](local.Support("host")).Degrees("normal"))
	require.Equal(t, []int64{8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20, 128 << 20, 1 << 30},
		cat.Suite("smoke").Blocks["collective"][0].(*collective.SuiteBlock).Sizes.List())
}

// base is a small sound set of definitions as files in memory.
func base(t testing.TB) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	root := os.DirFS("testdata/base")
	require.NoError(t, fs.WalkDir(root, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, p)
		out[p] = &fstest.MapFile{Data: data}
		return err
	}))
	return out
}

// TestDiagnostics loads each file of testdata/err in the place that its first
// line names, beside the sound rest of testdata/base, and compares all that is
// said about it.
func TestDiagnostics(t *testing.T) {
	files, err := filepath.Glob("testdata/err/*.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 40)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			first, _, _ := strings.Cut(string(data), "\n")
			place, ok := strings.CutPrefix(first, "# as ")
			require.True(t, ok, "the first line must be '# as FILE'")
			defs := base(t)
			defs[place] = &fstest.MapFile{Data: data}

			cat, err := catalog.Load(defs)
			require.Error(t, err)
			require.Nil(t, cat)
			require.ErrorAs(t, err, new(strictyaml.Errors))
			got := err.Error() + "\n"
			require.NotRegexp(t, `(?m)^[^:]*:0:0: `, got, "a diagnostic without its position")
			golden.Equal(t, strings.TrimSuffix(file, ".yaml")+".out", got)
		})
	}
}

func TestBaseIsSound(t *testing.T) {
	_, err := catalog.Load(base(t))
	require.NoError(t, err)
}

func TestLoadWithoutAFile(t *testing.T) {
	for _, tc := range []struct{ without, want string }{
		{"backends.yaml", "backends.yaml:1:1: file does not exist"},
		{"workloads.yaml", "workloads.yaml:1:1: file does not exist"},
		{"sampling.yaml", "sampling.yaml:1:1: file does not exist"},
		{"suites/core.yaml", "suites:1:1: no definition in this directory"},
	} {
		t.Run(tc.without, func(t *testing.T) {
			defs := base(t)
			delete(defs, tc.without)
			_, err := catalog.Load(defs)
			require.EqualError(t, err, tc.want, "names of a file that cannot be read are not reported one by one")
		})
	}
}

func TestErrorsOfSeveralFilesComeTogether(t *testing.T) {
	defs := base(t)
	for _, f := range []string{"suites/core.yaml", "backends.yaml", "platforms/beta.yaml"} {
		defs[f] = &fstest.MapFile{Data: append([]byte("bogus: 1\n"), defs[f].Data...)}
	}
	_, err := catalog.Load(defs)
	require.EqualError(t, err, strings.Join([]string{
		`backends.yaml:1:1: unknown key "bogus"; choose from backends`,
		`platforms/beta.yaml:1:1: unknown key "bogus"; choose from local, vendor, product, arch, cpu, image, gpus_per_node, scale_up, scale_out, fabric, runner, environment, launch, env, backends`,
		`suites/core.yaml:1:1: unknown key "bogus"; choose from platforms, sampling, repeats, capabilities, ep, collective, transfer, schedule, copy, overlap, simulation`,
	}, "\n"))
}
