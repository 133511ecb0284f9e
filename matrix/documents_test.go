package matrix_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
)

// TestEveryCaseCanBeDocumented is the law between planner and validator: every
// runnable case of every suite, on platforms of every form and on machines with GPUs,
// has an empty, a partial and a successful document that is valid and of its schema.
func TestEveryCaseCanBeDocumented(t *testing.T) {
	need.Full(t)
	seen := map[string]bool{}
	document(t, func(c plan.Case) bool {
		// Platforms of one form have the same cases under other names.
		c.CaseID, c.SKU, c.TopologyClass, c.Env = "", "", "", nil
		data, err := json.Marshal(&c)
		require.NoError(t, err)
		of := string(data)
		taken := seen[of]
		seen[of] = true
		return !taken
	})
}

// The same, of the cases in which a field has a value that it has in no earlier case of their
// family and backend.
func TestEveryValueOfAFieldCanBeDocumented(t *testing.T) {
	seen := map[string]bool{}
	document(t, func(c plan.Case) bool { return novel(t, seen, c) })
}

// document plans every suite and writes the documents of the runnable cases that take returns
// true of.
func document(t *testing.T, take func(plan.Case) bool) {
	t.Helper()
	cat := load(t)
	backends := cat.Words("backend")
	schemas := resulttest.Schemas(t)
	for _, machine := range []planner.Machine{
		{},
		{GPUs: &planner.GPUs{Vendor: "nvidia", Product: "h200", Arch: "sm90", Transport: "nvlink", Count: 8, Backends: backends}},
		{GPUs: &planner.GPUs{Vendor: "amd", Product: "mi300x", Arch: "gfx942", Transport: "xgmi", Count: 8, Backends: backends}},
	} {
		for _, suite := range cat.Suites {
			filters := planner.Filters{Only: planner.Only{"suite": {suite.Name}}}
			if machine.GPUs != nil {
				filters.Only["sku"] = []string{machine.GPUs.SKU()}
			}
			m, err := planner.Resolve(cat, filters, machine)
			require.NoError(t, err)
			matrix := filepath.Join(t.TempDir(), plan.FileName)
			m.Generator = plan.Generator{Program: "cxgen", Version: "dev", Format: plan.Format}
			require.NoError(t, m.WriteFile(matrix))
			_, err = plan.ReadFile(matrix, "dev")
			require.NoError(t, err, "the matrix of suite %s", suite.Name)
			for q := range m.Requested() {
				if q.Disposition == plan.Runnable && take(q.Case) {
					documented(t, schemas, q.Case)
				}
			}
		}
	}
}

// novel reports whether a field of c, but for its id, has a value that is not in seen for the
// family and backend of c, and adds the values of c. A list is one value.
func novel(t *testing.T, seen map[string]bool, c plan.Case) bool {
	t.Helper()
	c.CaseID = "" // made of the other fields
	data, err := json.Marshal(&c)
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(data, &fields))
	before := len(seen)
	var add func(path string, value any)
	add = func(path string, value any) {
		if members, ok := value.(map[string]any); ok {
			for name, member := range members {
				add(path+"."+name, member)
			}
			return
		}
		seen[fmt.Sprint(path, " ", value)] = true
	}
	add(string(c.Family)+" "+c.Backend, fields)
	return len(seen) > before
}

// documented writes the three documents of a case and reads them back.
func documented(t *testing.T, schemas map[string]*jsonschema.Schema, c plan.Case) {
	t.Helper()
	a := resulttest.Attempt()
	for name, d := range map[string]result.Document{
		"empty":      resulttest.Fail(resulttest.New(c, a), result.ReasonTimeout.With("case budget of %d s", 60).String()),
		"partial":    resulttest.Partial(resulttest.Successful(c, a), result.ReasonRankDied.With("rank %d signal %d", 1, 9).String()),
		"successful": resulttest.Successful(c, a),
	} {
		require.NoError(t, result.Validate(d), name)
		data, err := result.Encode(d)
		require.NoError(t, err)
		read, err := result.Decode(data)
		require.NoError(t, err)
		require.NoError(t, result.Validate(read), name)
		if name == "successful" {
			continue // its rows are of the form of the partial one's, and many
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		require.NoError(t, err)
		require.NoError(t, schemas[schemaFile(d)].Validate(value), "%s document of %s", name, c.CaseID)
	}
}

// schemaFile is the file with the schema of a document.
func schemaFile(d result.Document) string {
	for _, f := range result.Families() {
		for _, record := range f.Records {
			if f.Name == d.Head().Identity.Case.Family && record.Type == d.Head().RecordType {
				return record.SchemaFile()
			}
		}
	}
	return ""
}
