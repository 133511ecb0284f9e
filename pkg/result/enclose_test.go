package result_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/result"
)

type head struct {
	Version int    `json:"version"`
	Program string `json:"program"`
}

// Documents in the JSON of bench keep their bytes, and so their digests.
func TestEnclosedDocuments(t *testing.T) {
	var documents []result.Document
	var lines [][]byte
	for _, d := range []result.Document{
		resulttest.EP(resulttest.EPCase(), resulttest.Attempt()),
		resulttest.Collective(resulttest.CollectiveCase(), resulttest.Attempt()),
	} {
		line, err := result.EncodeDocument(d)
		require.NoError(t, err)
		documents, lines = append(documents, d), append(lines, bytes.TrimSpace(line))
	}
	text, err := result.Enclose(head{1, "cxrun devel"}, documents)
	require.NoError(t, err)
	require.Equal(t, 1, bytes.Count(text, []byte("\n")))
	got, err := result.Enclosed(text)
	require.NoError(t, err)
	require.Len(t, got, 2)
	for i := range got {
		require.Equal(t, string(lines[i]), string(got[i]))
	}
}

// A document encloses none. The JSON of an earlier version has none, and says so.
func TestNothingIsEnclosed(t *testing.T) {
	line, err := result.EncodeDocument(resulttest.EP(resulttest.EPCase(), resulttest.Attempt()))
	require.NoError(t, err)
	for _, text := range []string{"", "{", string(line)} {
		got, err := result.Enclosed([]byte(text))
		require.NoError(t, err)
		require.Nil(t, got)
	}
	_, err = result.Enclosed([]byte(`{"version":1,"program":"cxrun 1","results":[]}`))
	require.ErrorIs(t, err, result.ErrForeign)
	require.ErrorContains(t, err, "measure again")
}
