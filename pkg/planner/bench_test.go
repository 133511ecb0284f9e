package planner_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/planner"
)

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		_, err := catalog.Load(matrix.FS)
		require.NoError(b, err)
	}
}

func BenchmarkResolve(b *testing.B) {
	for _, bc := range []struct {
		name    string
		cat     *catalog.Catalog
		filters planner.Filters
	}{
		{"ep-core", plantest.Shipped(), planner.Filters{Only: planner.Only{"suite": {"ep-core"}}}},
		{"everything", plantest.Shipped(), planner.Filters{}},
		{"100k", synthetic(15), planner.Filters{}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plantest.Resolve(bc.cat, bc.filters)
			}
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	m := plantest.Resolve(synthetic(15), planner.Filters{})
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, m.Write(io.Discard))
	}
}
