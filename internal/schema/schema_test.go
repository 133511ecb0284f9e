package schema_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/golden"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/internal/schema"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

func validate(t *testing.T, s *jsonschema.Schema, text string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err)
	return s.Validate(v)
}

func encode(t *testing.T, d result.Document) string {
	require.NoError(t, result.Validate(d))
	data, err := result.Encode(d)
	require.NoError(t, err)
	return string(data)
}

func documents(t *testing.T) (ep, collective string) {
	rdma := "rdma"
	c := resulttest.EPCase()
	c.ScaleOutTransport, c.Env = &rdma, map[string]string{"NCCL_ALGO": "Ring"}
	return encode(t, resulttest.EP(c, resulttest.Attempt())),
		encode(t, resulttest.Collective(resulttest.CollectiveCase(), resulttest.Attempt()))
}

func TestDocumentsAreOfTheirSchema(t *testing.T) {
	schemas := resulttest.Schemas(t)
	ep, collective := documents(t)
	for _, doc := range []string{ep, encode(t, resulttest.Fail(resulttest.New(resulttest.EPCase(), resulttest.Attempt()), "timeout"))} {
		require.NoError(t, validate(t, schemas["case-attempt.schema.json"], doc))
		require.Error(t, validate(t, schemas["collective-attempt.schema.json"], doc))
	}
	for _, doc := range []string{collective, encode(t, resulttest.Fail(resulttest.New(resulttest.CollectiveCase(), resulttest.Attempt()), "timeout"))} {
		require.NoError(t, validate(t, schemas["collective-attempt.schema.json"], doc))
		require.Error(t, validate(t, schemas["case-attempt.schema.json"], doc))
	}
}

func TestSchemasRefuse(t *testing.T) {
	schemas := resulttest.Schemas(t)
	ep, collective := documents(t)
	for _, tc := range []struct{ name, doc, old, new string }{
		{"another version", ep, `"version":1`, `"version":2`},
		{"another record type", ep, `"record_type":"case-attempt"`, `"record_type":"swap"`},
		{"a field is missing", ep, `"tokens_per_rank":1,`, ``},
		{"a field too many", ep, `"tokens_per_rank":1,`, `"tokens_per_rank":1,"x":1,`},
		{"a number as text", ep, `"global_tokens":2`, `"global_tokens":"2"`},
		{"a list is null", ep, `"fanout_histogram":[0,2]`, `"fanout_histogram":null`},
		{"an unknown status", ep, `"status":"success"`, `"status":"ok"`},
		{"an unknown origin", ep, `"origin":"chained-median"`, `"origin":"chained-mean"`},
		{"an unknown vendor", ep, `"vendor":"host"`, `"vendor":""`},
		{"a factor is missing", ep, `"experts":256,"gpus_per_node":4,"hidden"`, `"gpus_per_node":4,"hidden"`},
		{"an op in an EP case", ep, `"routing":"uniform","hidden":7168,"topk"`, `"op":"x","routing":"uniform","hidden":7168,"topk"`},
		{"a mode in a collective case", collective, `"op":"all_reduce","redop"`, `"mode":"normal","op":"all_reduce","redop"`},
		{"no check", collective, `"correctness":{"passed":true`, `"correctness":{"x":true`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := schemas["case-attempt.schema.json"]
			if tc.doc == collective {
				s = schemas["collective-attempt.schema.json"]
			}
			broken := strings.Replace(tc.doc, tc.old, tc.new, 1)
			require.NotEqual(t, tc.doc, broken)
			require.Error(t, validate(t, s, broken))
		})
	}
}

func TestMatrix(t *testing.T) {
	s := resulttest.Schemas(t)["matrix.schema.json"]
	ep := plan.Requested{SKU: "local", Disposition: plan.Runnable, Case: resulttest.EPCase(), BudgetSeconds: 60}
	other := plan.Requested{SKU: "local", Disposition: plan.Unsupported, Case: resulttest.CollectiveCase()}
	write := func(cases, others []plan.Requested) string {
		m := plan.Matrix{
			Version: 1, Generator: plan.Generator{Program: "cxgen", Version: "dev", Format: plan.Format},
			RequestedCases: cases, RequestedOther: others, Include: []plan.Cell{{ID: "a", CaseIDs: []string{"x"}}},
		}
		var b strings.Builder
		require.NoError(t, m.Write(&b))
		return b.String()
	}
	good := write([]plan.Requested{ep}, []plan.Requested{other})
	require.NoError(t, validate(t, s, good))
	require.Error(t, validate(t, s, write([]plan.Requested{other}, nil)))
	require.NoError(t, validate(t, s, write(nil, []plan.Requested{ep, other})))
	require.Error(t, validate(t, s, strings.Replace(good, `"disposition":"runnable"`, `"disposition":"maybe"`, 1)))
}

// The directory schema has the generated schemas and no others.
func TestSchemasAreCurrent(t *testing.T) {
	files, err := schema.Files()
	require.NoError(t, err)
	var want []string
	for _, f := range files {
		path := filepath.Join("../../schema", f.Name)
		golden.Equal(t, path, string(f.Data))
		want = append(want, path)
	}
	kept, err := filepath.Glob("../../schema/*")
	require.NoError(t, err)
	require.Equal(t, want, kept)
}
