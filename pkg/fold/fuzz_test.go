package fold

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
)

// FuzzLines folds any bytes as NDJSON: each line that is not empty is a document or
// a problem, and what was folded folds to itself.
func FuzzLines(f *testing.F) {
	good := encoded(f, resulttest.Collective(resulttest.CollectiveCase(), resulttest.Attempt()))
	f.Add(good)
	f.Add(append(append(bytes.Clone(good), "\n{}\n\x00"...), good...))
	f.Add([]byte("{\n}\n[]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		in, out, again := filepath.Join(dir, "in.ndjson"), filepath.Join(dir, "out.ndjson"), filepath.Join(dir, "again.ndjson")
		require.NoError(t, os.WriteFile(in, data, 0o600))
		v, err := Fold([]string{in}, nil, Expected{}, out)
		require.NoError(t, err)
		lines := 0
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			if len(line) > 0 {
				lines++
			}
		}
		clashes := 0
		for _, p := range v.Problems {
			if p.Kind() == "second document for one attempt" {
				clashes++
			}
		}
		require.Equal(t, lines, v.Documents+v.Duplicates+len(v.Problems)-clashes)
		_, err = Fold([]string{out}, nil, Expected{}, again)
		require.NoError(t, err)
		first, err := os.ReadFile(out)
		require.NoError(t, err)
		second, err := os.ReadFile(again)
		require.NoError(t, err)
		require.Equal(t, string(first), string(second))
	})
}
