package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/catalog"
)

func TestLoadShipped(t *testing.T) {
	cat, err := catalog.Load(matrix.FS)
	require.NoError(t, err)
	local := cat.Platform("local")
	require.NotNil(t, local)
	require.True(t, local.Local)
	require.Equal(t, "ubuntu-latest", local.Runner)
	require.Equal(t, []int{2, 4}, local.Support("host").Degrees("normal"))
	require.Equal(t, []int64{8, 32, 128, 512, 2048, 8192, 32768, 131072, 524288},
		cat.Suite("smoke").Collective[0].Sizes.List())
}
