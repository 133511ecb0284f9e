package memlog

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who opens the path writes the text, and no file of that name is left.
func TestLog(t *testing.T) {
	l, err := New("cx-log")
	require.NoError(t, err)
	text, err := l.Text()
	require.NoError(t, err)
	require.Empty(t, text)
	library, err := os.Create(l.Path()) // as fopen does
	require.NoError(t, err)
	for _, line := range []string{"one\n", "two\n"} {
		_, err = library.WriteString(line)
		require.NoError(t, err)
	}
	text, err = l.Text()
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\n", text)
	require.NoError(t, library.Close())
	require.NoError(t, l.Close())
	_, err = l.Text()
	require.Error(t, err)
}
