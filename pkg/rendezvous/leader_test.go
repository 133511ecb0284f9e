package rendezvous

import (
	"bytes"
	"context"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// client returns a client of a leader.
func client(t *testing.T, l *Leader, token string) *Client {
	t.Helper()
	c := Dial(strings.TrimPrefix(l.Address(), scheme), token)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestALeaderRefusesWhoeverLacksItsToken(t *testing.T) {
	l := lead(t)
	require.NoError(t, l.Put(t.Context(), "a", []byte("secret")))
	for _, token := range []string{"", "x", l.token + "x", l.token[1:]} {
		c := client(t, l, token)
		_, err := c.Get(t.Context(), "a")
		require.ErrorIs(t, err, fs.ErrPermission)
		require.ErrorContains(t, err, TokenVariable)
		require.NotContains(t, err.Error(), l.token)
		require.ErrorIs(t, c.Put(t.Context(), "b", nil), fs.ErrPermission)
		require.ErrorIs(t, c.Append("s", nil), fs.ErrPermission)
	}
	other := lead(t)
	require.NotEqual(t, l.token, other.token)
	require.NotContains(t, l.Address(), l.token)
	_, err := Join(l.Address(), func(string) string { return "" })
	require.ErrorContains(t, err, "CX_STORE_TOKEN is empty")
}

// A leader notices the end of a client that waits, but not of a wait.
func TestALeaderNoticesWhoLeaves(t *testing.T) {
	l := lead(t)
	gone := make(chan string, 10)
	l.OnLeave(func(key string) { gone <- key })
	waits := func(key string) (leave func()) {
		ctx, leave := context.WithCancel(t.Context())
		c := client(t, l, l.token)
		go func() { _, _ = c.Get(ctx, key) }()
		require.Eventually(t, func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.waits[key] != nil
		}, 10*time.Minute, time.Millisecond)
		return leave
	}
	defer waits("answered")()
	require.NoError(t, l.Put(t.Context(), "answered", nil))
	waits("dead")()
	require.Equal(t, "dead", <-gone)
}

func TestJoinOfADirectoryThatIsMissing(t *testing.T) {
	_, err := Join(t.TempDir()+"/none", os.Getenv)
	require.ErrorContains(t, err, "the shard that starts ranks creates it")
}

func TestALeaderIsBounded(t *testing.T) {
	l := lead(t)
	c := client(t, l, l.token)
	l.full = 1000
	require.NoError(t, c.Put(t.Context(), "a", make([]byte, 500)))
	require.ErrorIs(t, c.Put(t.Context(), "b", make([]byte, 500)), errFull)
	require.NoError(t, c.Append("s", make([]byte, 100)))
	require.ErrorIs(t, c.Append("s", make([]byte, 500)), errFull)
	records, _, err := c.Records("s", 0)
	require.NoError(t, err)
	require.Len(t, records, 1)
	l.full, l.keys = maxStored, maxKeys
	require.ErrorIs(t, c.Put(t.Context(), "c", nil), errFull)
	require.NoError(t, c.Append("s", make([]byte, 500)), "it has its key")
	require.ErrorIs(t, l.Put(t.Context(), "c", make([]byte, maxMessage+1)), errFull)
}

// A message that is longer than any is not even read to its end.
func TestALongMessage(t *testing.T) {
	l := lead(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, strings.Replace(l.Address(), "tcp", "http", 1)+valuePath+"a",
		bytes.NewReader(make([]byte, maxMessage+1)))
	require.NoError(t, err)
	req.Header.Set("Authorization", bearerPrefix+l.token)
	req.ContentLength = -1 // it does not say how long it is
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusInsufficientStorage, resp.StatusCode)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Get(ctx, "a")
	require.ErrorIs(t, err, context.Canceled)
}

// A request that comes twice, as after a lost reply, counts once.
func TestARequestThatComesTwice(t *testing.T) {
	l := lead(t)
	require.NoError(t, l.put("a", []byte("1"), "request"))
	require.NoError(t, l.put("a", []byte("1"), "request"))
	require.ErrorIs(t, l.put("a", []byte("1"), "another"), fs.ErrExist)
	for range 2 {
		require.NoError(t, l.append("s", []byte("1"), "first"))
	}
	require.NoError(t, l.append("s", []byte("1"), "second"))
	records, _, err := l.Records("s", 0)
	require.NoError(t, err)
	require.Len(t, records, 2)
}

// Connections beyond the limit are closed, and those that end make room.
func TestConnectionsAreBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := newBounded(l, 2)
	defer b.Close()
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			c, err := b.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	first := <-accepted
	dial()
	second := <-accepted
	_, err = dial().Read(make([]byte, 1))
	require.Error(t, err, "closed by the listener")
	require.NoError(t, first.Close())
	require.ErrorIs(t, first.Close(), net.ErrClosed, "and makes room once")
	dial()
	require.NoError(t, (<-accepted).Close())
	require.NoError(t, second.Close())
}

func TestAnAddressThatIsNotOfThisHost(t *testing.T) {
	const host = "192.0.2.17" // of no host
	_, err := Lead(host, 2)
	require.ErrorContains(t, err, "network.store_address")
	require.NotContains(t, err.Error(), host)
	err = withoutAddress(&net.OpError{Op: "listen", Err: &net.DNSError{Err: "no such host", Name: "private"}})
	require.EqualError(t, err, "no such host")
}
