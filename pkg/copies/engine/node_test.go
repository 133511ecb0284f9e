package engine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/sysfs"
)

func TestFarNode(t *testing.T) {
	for _, tc := range []struct {
		own   int
		nodes []int
		want  int
		err   string
	}{
		{0, []int{0, 1}, 1, ""},
		{1, []int{1, 0}, 0, ""},
		{2, []int{3, 2, 10}, 3, ""},
		{0, []int{0}, 0, "one NUMA node"},
		{-1, []int{0, 1}, 0, "unknown"},
	} {
		got, err := farNode(tc.own, tc.nodes)
		if tc.err != "" {
			require.ErrorContains(t, err, tc.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, tc.want, got)
	}
}

// Memory is on the node that was asked for, which the kernel says of its pages, and no memory
// is on a node that the machine does not have.
func TestOnNode(t *testing.T) {
	nodes := sysfs.Here().NUMANodes()
	if len(nodes) == 0 {
		need.Missing(t, "a NUMA node in /sys/devices/system/node", "run the tests where the kernel has CONFIG_NUMA")
	}
	for _, node := range nodes {
		_, free, err := onNode(node, 1<<20)
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
			need.Missing(t, fmt.Sprintf("the right to call mbind (%v)", err), "start a container with --privileged")
		}
		require.NoError(t, err)
		require.NoError(t, free())
	}
	for _, node := range []int{1000, 5000} {
		_, _, err := onNode(node, 1<<20)
		require.ErrorContains(t, err, "NUMA node")
	}
}
