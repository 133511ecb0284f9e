package result_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/result"
)

// What earlier versions wrote counts as a document, satisfies today's schema, and
// keeps every value when it is read and written again. testdata/documents has a file
// for each version; docs/documents.md makes the promise.
func TestOlderDocumentsAreRead(t *testing.T) {
	schemas := resulttest.Schemas(t)
	samples, err := filepath.Glob("../../testdata/documents/*.ndjson")
	require.NoError(t, err)
	require.NotEmpty(t, samples)
	for _, sample := range samples {
		written, err := os.ReadFile(sample)
		require.NoError(t, err)
		for line := range strings.Lines(string(written)) {
			d, err := result.Decode([]byte(line))
			require.NoError(t, err)
			head := d.Head()
			t.Run(filepath.Base(sample)+"/"+head.Identity.CaseID, func(t *testing.T) {
				_, err := result.NewInspector(func(string) error { return nil }).Inspect([]byte(line))
				require.NoError(t, err)
				require.NoError(t, schemas[head.RecordType+".schema.json"].Validate(decoded(t, []byte(line))))
				again, err := result.Encode(d)
				require.NoError(t, err)
				require.Empty(t, lost("", decoded(t, []byte(line)), decoded(t, again)))
			})
		}
	}
}

// lost lists the places of a JSON value that are not in another one, or differ there.
func lost(at string, old, now any) []string {
	var out []string
	switch o := old.(type) {
	case map[string]any:
		n, _ := now.(map[string]any)
		for k, v := range o {
			w, ok := n[k]
			if !ok {
				out = append(out, at+"."+k)
				continue
			}
			out = append(out, lost(at+"."+k, v, w)...)
		}
	case []any:
		n, _ := now.([]any)
		if len(n) != len(o) {
			return []string{at}
		}
		for i := range o {
			out = append(out, lost(fmt.Sprintf("%s[%d]", at, i), o[i], n[i])...)
		}
	default:
		if old != now {
			out = append(out, fmt.Sprintf("%s: %v is %v", at, old, now))
		}
	}
	return out
}

// decoded keeps numbers as they are spelled.
func decoded(t *testing.T, data []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	require.NoError(t, err)
	return v
}
