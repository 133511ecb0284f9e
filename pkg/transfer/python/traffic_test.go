package python

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// move opens a connection within this process and sends bytes over it.
func move(t *testing.T, listener net.Listener, bytes int) (from, to net.Conn) {
	t.Helper()
	from, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	to, err = listener.Accept()
	require.NoError(t, err)
	go func() { _, _ = from.Write(make([]byte, bytes)) }()
	_, err = io.ReadFull(to, make([]byte, bytes))
	require.NoError(t, err)
	return from, to
}

// A connection that is closed in between, such as one to the store, takes nothing from the bytes
// that others have moved since.
func TestTrafficOfClosedConnections(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	from, to := move(t, listener, 1<<20)
	kept, other := move(t, listener, 1000)
	before, err := tcpTraffic()
	require.NoError(t, err)
	require.NoError(t, from.Close())
	require.NoError(t, to.Close())
	defer kept.Close()
	defer other.Close()
	_, err = other.Write(make([]byte, 500))
	require.NoError(t, err)
	_, err = io.ReadFull(kept, make([]byte, 500))
	require.NoError(t, err)
	from, to = move(t, listener, 5000)
	defer from.Close()
	defer to.Close()
	now, err := tcpTraffic()
	require.NoError(t, err)
	require.Equal(t, int64(5500), now.since(before).received)
}
