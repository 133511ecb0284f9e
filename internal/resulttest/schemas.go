package resulttest

import (
	"bytes"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/schema"
)

// Schemas returns the JSON Schemas by the names of their files.
func Schemas(t testing.TB) map[string]*jsonschema.Schema {
	t.Helper()
	files, err := schema.Files()
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	for _, f := range files {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(f.Data))
		require.NoError(t, err)
		require.NoError(t, compiler.AddResource(schema.Base+f.Name, value))
	}
	out := map[string]*jsonschema.Schema{}
	for _, f := range files {
		out[f.Name], err = compiler.Compile(schema.Base + f.Name)
		require.NoError(t, err)
	}
	return out
}
