package nccl

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/nccl"
)

func TestRoots(t *testing.T) {
	require.Equal(t, []int{0}, roots(1, 1))
	require.Equal(t, []int{0, 2}, roots(4, 2))
	require.Equal(t, []int{0, 3, 5}, roots(7, 3))
	require.Equal(t, []int{0, 44, 87}, roots(130, 3))
}

// Many ranks meet at several ids, where the library can.
func TestManyRanksMeetAtSeveralIDs(t *testing.T) {
	setUp(t)
	for _, err := range togetherBy(t, nccl.NCCL, 3, 2, reduceOnce) {
		require.NoError(t, err)
	}
	for _, c := range []struct {
		kind nccl.Kind
		want string
	}{
		{nccl.NCCL, "ncclCommInitRankScalable"},
		{nccl.RCCL, "ncclCommInitRankConfig"}, // this one has no other
		{nccl.MSCCLPP, "ncclCommInitRankConfig"},
	} {
		t.Setenv("CX_FAKE_NCCL_INIT_ERROR", "0,1,2")
		for _, err := range togetherBy(t, c.kind, 3, 2, reduceOnce) {
			require.Equal(t, fmt.Sprintf("library-error: %s ncclSystemError", c.want), reason(t, err))
		}
	}
}
