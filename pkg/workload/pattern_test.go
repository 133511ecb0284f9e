package workload

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/numeric"
)

func TestNewPatternRefuses(t *testing.T) {
	for _, c := range []struct {
		t     numeric.Type
		op    RedOp
		world int
	}{{12, Sum, 2}, {-1, Sum, 2}, {numeric.Float, 7, 2}, {numeric.Float, Sum, 0}, {numeric.F8E4M3, Avg, 1025}} {
		_, err := NewPattern(c.t, c.op, c.world, 0)
		require.Error(t, err)
	}
}

func TestRedOpNames(t *testing.T) {
	for _, op := range append(RedOps(), NoRedOp) {
		got, err := ParseRedOp(op.String())
		require.NoError(t, err)
		require.Equal(t, op, got)
	}
	_, err := ParseRedOp("xor")
	require.Error(t, err)
}
