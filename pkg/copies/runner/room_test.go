package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/copies"
)

// The buffers of all ranks share the memory, and those of swaps have a block before and a block after their data.
func TestRoom(t *testing.T) {
	const around = leadBytes + tailBytes
	const most = 8 << 30
	of := func(bytes int64) copies.Row { return copies.Row{Bytes: bytes, Streams: 1} }
	require.NoError(t, room{"host", most, 1, 1}.lacks(of(most-around)))
	require.NoError(t, room{"host", most, 2, 1}.lacks(of(most/2-around)))
	require.NoError(t, room{"host", most, 2, 2}.lacks(of(most/2-around)))
	require.NoError(t, room{"host", most, 2, 0}.lacks(of(most)), "buffers of other ranks")
	require.Error(t, room{"host", most, 2, 1}.lacks(of(most/2-around+1)))
	require.EqualError(t, room{"host", most, 2, 2}.lacks(of(most)), "memory-for-size: 8589934592 bytes on 1 stream need 17186168832 bytes of host memory, but a rank may use only 8589934592: choose sizes of at most 4291817472 bytes")

	const block = 1 << 30
	swap := func(bytes int64) copies.Row {
		return copies.Row{Bytes: bytes, Pieces: int(bytes / block), BlockBytes: block}
	}
	require.NoError(t, room{"device", 4 * block, 1, 1}.lacks(swap(block)))
	require.EqualError(t, room{"device", 4 * block, 1, 1}.lacks(swap(2*block)), "memory-for-size: 2 blocks of 1073741824 bytes need 4296019968 bytes of device memory, but a rank may use only 4294967296: choose fewer or smaller blocks")
}
