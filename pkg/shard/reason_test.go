package shard

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/rank"
)

// What a rank tells of its failure is published, whatever it is.
func TestReasonOfAFailure(t *testing.T) {
	for code, want := range map[string]string{
		"out-of-memory":                                "out-of-memory: rank 3",
		"out-of-memory: 2048 bytes":                    "out-of-memory: 2048 bytes, rank 3",
		"library-error: ncclAllReduce ncclSystemError": "library-error: ncclAllReduce ncclSystemError, rank 3",
		"library-error: /some/file":                    "internal-error: rank 3",
		"it broke":                                     "internal-error: rank 3",
	} {
		got := reasonOf(rank.Failure{Reason: resulttest.Reasons(code)[0]}, 3)
		require.Equal(t, want, got.String())
		require.NoError(t, got.Check())
	}
}
