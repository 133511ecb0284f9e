package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/plan"
)

func TestRepetitionsAsText(t *testing.T) {
	var r plan.Repetitions
	require.NoError(t, r.UnmarshalText([]byte("2:8:3")))
	require.Equal(t, plan.Repetitions{Warmup: 2, Reps: 8, Trials: 3}, r)
	for _, bad := range []string{"", "2:8", "2:8:x", "2:8:3:1"} {
		require.Error(t, r.UnmarshalText([]byte(bad)), bad)
	}
}
