package safefile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/safefile"
)

func TestReadFrom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("0123456789"), 0o600))
	for offset, want := range map[int64]string{0: "0123456789", 7: "789", 10: "", 11: ""} {
		data, err := safefile.ReadFrom(path, offset, 10)
		require.NoError(t, err)
		require.Equal(t, want, string(data))
	}
	_, err := safefile.ReadFrom(path, 7, 9)
	require.ErrorIs(t, err, safefile.ErrTooLarge, "the limit is that of the whole file")
	_, err = safefile.ReadFrom(filepath.Dir(path), 0, 10)
	require.ErrorIs(t, err, safefile.ErrIrregular)
}
