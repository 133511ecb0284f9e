package rank

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/rendezvous"
)

// FuzzReadStream reads any bytes as what a rank left: it never panics, and a torn
// last record is no part of it.
func FuzzReadStream(f *testing.F) {
	f.Add([]byte("{\"kind\":\"facts\",\"data\":{}}\n{\"kind\":\"sample\",\"data\":[1]}\n{\"kind\":\"done\"}\n"))
	f.Add([]byte("{\"kind\":\"failure\",\"data\":{\"reason\":\"timeout\"}}\n{\"kind\":\"device\",\"data\":null}\n{\"kind\":"))
	f.Add([]byte("\n\nnull\n{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		store, err := rendezvous.OpenFile(dir)
		require.NoError(t, err)
		require.NoError(t, store.Append(StreamKey("case-0001", 0), nil))
		require.NoError(t, store.Close())
		files, err := filepath.Glob(filepath.Join(dir, "*", "*@stream"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.NoError(t, os.WriteFile(files[0], data, 0o600))
		s, err := ReadStream(store, "case-0001", 0)
		require.NoError(t, os.WriteFile(files[0], append(slices.Clip(data), "\n{\"kind\":\"done\"}"...), 0o600))
		torn, again := ReadStream(store, "case-0001", 0)
		if err == nil && again == nil && len(data) > 0 && data[len(data)-1] == '\n' {
			require.Equal(t, s.Done, torn.Done)
		}
	})
}
