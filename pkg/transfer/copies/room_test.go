package copies

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/sysfs"
)

// The ranks of a case share four fifths of what is available.
func TestRoom(t *testing.T) {
	root := sysfs.Root{FS: fstest.MapFS{"proc/meminfo": {Data: []byte("MemTotal: 2000 kB\nMemAvailable: 1000 kB\n")}}}
	require.NoError(t, room(root, 800<<10, 1))
	require.NoError(t, room(root, 400<<10, 2))
	require.EqualError(t, room(root, 800<<10+1, 1),
		"memory-for-size: buffers of 819201 bytes of host memory, of which a rank may take 819200: choose smaller sizes")
	require.Error(t, room(root, 400<<10+1, 2))
	require.ErrorContains(t, room(sysfs.Root{FS: fstest.MapFS{}}, 1, 1), "/proc/meminfo lacks MemTotal or MemAvailable")
}
