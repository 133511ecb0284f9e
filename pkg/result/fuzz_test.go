package result_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/result"
)

// FuzzInspect inspects any bytes as a document: nothing panics, and a document that counts can
// be written again and counts again.
func FuzzInspect(f *testing.F) {
	for _, d := range []result.Document{
		resulttest.EP(resulttest.EPCase(), resulttest.Attempt()),
		resulttest.Collective(resulttest.CollectiveCase(), resulttest.Attempt()),
		resulttest.Fail(resulttest.New(resulttest.CollectiveCase(), resulttest.Attempt()), "timeout"),
	} {
		bare, err := result.Encode(d)
		require.NoError(f, err)
		f.Add(bare)
		sealed, err := result.EncodeDocument(d)
		require.NoError(f, err)
		f.Add(sealed)
	}
	harmless := func(string) error { return nil }
	f.Fuzz(func(t *testing.T, data []byte) {
		inspector := result.NewInspector(harmless)
		d, err := inspector.Inspect(data)
		if err != nil {
			return
		}
		again, err := result.EncodeDocument(d.Document)
		require.NoError(t, err)
		_, err = inspector.Inspect(again)
		require.NoError(t, err)
	})
}
