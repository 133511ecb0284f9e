package runner

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/sysfs"
)

// The ranks of a case share four fifths of what is available.
func TestRoom(t *testing.T) {
	const around = leadBytes + tailBytes
	root := sysfs.Root{FS: fstest.MapFS{"proc/meminfo": {Data: []byte("MemTotal: 20000000 kB\nMemAvailable: 10000000 kB\n")}}}
	const most = 8000000 << 10
	plain := marginsOf(0)
	require.NoError(t, room(root, 1, 1, most-around, plain))
	require.NoError(t, room(root, 1, 2, most/2-around, plain))
	require.NoError(t, room(root, 2, 2, most/2-around, plain))
	require.NoError(t, room(root, 0, 2, most, plain), "buffers of devices")
	require.EqualError(t, room(root, 2, 2, most, plain),
		fmt.Sprintf("memory-for-size: copies of %d bytes need %d bytes of host memory, but a rank may use only %d: choose sizes of at most %d bytes", most, 2*(most+around), most, most/2-around))
	require.Error(t, room(root, 1, 2, most/2-around+1, plain))
	require.ErrorContains(t, room(sysfs.Root{FS: fstest.MapFS{}}, 1, 1, 1, plain), "/proc/meminfo lacks MemTotal or MemAvailable")

	const block = 1 << 30
	guarded := marginsOf(block)
	require.NoError(t, room(root, 1, 1, most-around-2*block+leadBytes, guarded))
	require.Error(t, room(root, 1, 1, most-around-2*block+leadBytes+1, guarded), "a swap has a block before and a block after its data")
}
