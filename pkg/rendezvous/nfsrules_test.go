package rendezvous

import (
	"io/fs"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func create(t *testing.T, c *nfsClient, path, text string) {
	t.Helper()
	f, err := c.Create(path)
	require.NoError(t, err)
	_, err = f.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func read(c *nfsClient, path string) (string, error) {
	data, err := c.Read(path, 0, math.MaxInt64)
	return string(data), err
}

func TestAMissingNameIsRemembered(t *testing.T) {
	s := &nfsServer{}
	a, b := s.Mount(), s.Mount()
	_, err := read(b, "/f")
	require.ErrorIs(t, err, fs.ErrNotExist)
	create(t, a, "/f", "x")
	for range 100 {
		_, err = read(b, "/f")
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	require.NoError(t, b.Visit("/"))
	got, err := read(b, "/f")
	require.NoError(t, err)
	require.Equal(t, "x", got)
}

func TestDataReachTheServerOnClose(t *testing.T) {
	s := &nfsServer{}
	a, b := s.Mount(), s.Mount()
	f, err := a.Append("/f")
	require.NoError(t, err)
	_, err = f.Write([]byte("x"))
	require.NoError(t, err)
	got, err := read(b, "/f")
	require.NoError(t, err)
	require.Empty(t, got)
	require.NoError(t, f.Close())
	got, err = read(b, "/f")
	require.NoError(t, err)
	require.Equal(t, "x", got)
}

func TestALostReply(t *testing.T) {
	s := &nfsServer{LoseReplies: true}
	a := s.Mount()
	create(t, a, "/temp", "x")
	require.NoError(t, a.Link("/temp", "/one"))
	require.ErrorIs(t, a.Link("/temp", "/two"), fs.ErrExist)
	n, err := a.Names("/temp")
	require.NoError(t, err)
	require.Equal(t, 3, n, "it succeeded all the same")
}

// Opening a directory does not show a change in the tick of another; changing it does.
func TestTwoChangesInOneTick(t *testing.T) {
	s := &nfsServer{Tick: 1000}
	a, b := s.Mount(), s.Mount()
	create(t, a, "/e", "")
	_, err := read(b, "/f")
	require.ErrorIs(t, err, fs.ErrNotExist)
	create(t, a, "/f", "x")
	require.NoError(t, b.Visit("/"))
	_, err = read(b, "/f")
	require.ErrorIs(t, err, fs.ErrNotExist)
	create(t, b, "/own", "")
	_, err = read(b, "/f")
	require.NoError(t, err)
}
