package result_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/result"
)

// FuzzInspect inspects any bytes as a document: nothing panics, what counts is the
// same when only its head is read, its line is its compact form, and a document that
// was judged in full can be written again and counts again.
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
		heads, whole := result.NewInspector(harmless), result.NewInspector(harmless)
		whole.Whole = true
		d, err := heads.Inspect(bytes.Clone(data))
		same, other := whole.Inspect(bytes.Clone(data))
		require.Equal(t, err == nil, other == nil, "%v, %v", err, other)
		if err != nil {
			return
		}
		require.Equal(t, d.Head, same.Head)
		require.Equal(t, string(d.Line), string(same.Line))
		doc, err := d.Document()
		if err != nil {
			return // under a digest that holds: see Document
		}
		again, err := result.EncodeDocument(doc)
		require.NoError(t, err)
		_, err = heads.Inspect(again)
		require.NoError(t, err)
	})
}
