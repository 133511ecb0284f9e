package run_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/result/schema"
)

// What earlier versions wrote is still a valid document of today's schema, keeps
// every value when it is read and written again, folds to the same bytes and is in
// the summary. testdata/documents has a file for each version.
func TestOlderDocumentsAreRead(t *testing.T) {
	samples, err := filepath.Glob("../../../testdata/documents/*.ndjson")
	require.NoError(t, err)
	require.NotEmpty(t, samples)
	for _, sample := range samples {
		t.Run(filepath.Base(sample), func(t *testing.T) {
			written, err := os.ReadFile(sample)
			require.NoError(t, err)
			dir := t.TempDir()
			statuses := map[string]string{}
			for i, line := range strings.Split(strings.TrimSpace(string(written)), "\n") {
				require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.json", i)), []byte(line+"\n"), 0o644))
				d, err := result.Decode([]byte(line))
				require.NoError(t, err)
				require.NoError(t, result.Validate(d))
				again, err := result.Encode(d)
				require.NoError(t, err)
				require.Empty(t, lost("", decoded(t, []byte(line)), decoded(t, again)))
				head := d.Head()
				require.NoError(t, schemaOf(t, head.RecordType).Validate(decoded(t, []byte(line))))
				statuses[head.Identity.CaseID] = head.Outcome.Status
			}

			fromFiles, fromNDJSON := filepath.Join(t.TempDir(), "files.ndjson"), filepath.Join(t.TempDir(), "again.ndjson")
			for in, out := range map[string]string{dir: fromFiles, sample: fromNDJSON} {
				_, stdout, _ := cxrun(nil, "aggregate", "--in", in, "-o", out)
				require.Contains(t, stdout, "0 duplicates and 0 files left out")
				folded, err := os.ReadFile(out)
				require.NoError(t, err)
				require.Equal(t, string(written), string(folded), in)
			}

			code, stdout, stderr := cxrun(nil, "summarize", "--in", sample, "--format", "json")
			require.Equal(t, cli.ExitOK, code, stderr)
			require.Empty(t, stderr)
			for id, status := range statuses {
				require.Contains(t, stdout, `"case_id":"`+id+`"`)
				if status != result.Success {
					require.Contains(t, stdout, `"case_id":"`+id+`","status":"`+status+`"`)
				}
			}
		})
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

// schemaOf returns the schema of a record type.
func schemaOf(t *testing.T, recordType string) *jsonschema.Schema {
	t.Helper()
	files, err := schema.Files()
	require.NoError(t, err)
	for _, f := range files {
		if f.Name != recordType+".schema.json" {
			continue
		}
		c := jsonschema.NewCompiler()
		require.NoError(t, c.AddResource(f.Name, decoded(t, f.Data)))
		s, err := c.Compile(f.Name)
		require.NoError(t, err)
		return s
	}
	require.Fail(t, "no schema", recordType)
	return nil
}
