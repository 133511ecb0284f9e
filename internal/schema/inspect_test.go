package schema_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/result"
)

// Inspection holds documents without a digest to their schema: whatever the JSON
// Schema refuses, it refuses too, here of a thousand documents with one value
// changed, removed or added. With a digest it refuses every one of them.
func TestInspectionRefusesWhatTheSchemaRefuses(t *testing.T) {
	schemas := resulttest.Schemas(t)
	ep, collective := documents(t)
	rng := rand.New(rand.NewSource(1))
	for _, doc := range []struct {
		text   string
		schema *jsonschema.Schema
	}{{ep, schemas["case-attempt.schema.json"]}, {collective, schemas["collective-attempt.schema.json"]}} {
		require.NoError(t, inspect(doc.text))
		refused := 0
		for range 600 {
			var v any
			require.NoError(t, json.Unmarshal([]byte(doc.text), &v))
			what := damage(rng, &v)
			changed, err := json.Marshal(v)
			require.NoError(t, err)
			if validate(t, doc.schema, string(changed)) != nil {
				require.Error(t, inspect(string(changed)), what)
				refused++
			}
		}
		require.Greater(t, refused, 200)
	}
}

func TestInspectionRefusesAnyChangeUnderADigest(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for _, d := range []result.Document{
		resulttest.EP(resulttest.EPCase(), resulttest.Attempt()), resulttest.Collective(resulttest.CollectiveCase(), resulttest.Attempt()),
	} {
		data, err := result.EncodeDocument(d)
		require.NoError(t, err)
		line := strings.TrimSuffix(string(data), "\n")
		require.NoError(t, inspect(line))
		require.NoError(t, inspect(strings.ReplaceAll(line, `":`, "\": \n")), "white space between tokens means nothing")
		for range 500 {
			changed := []byte(line)
			changed[rng.Intn(len(changed))] ^= 1 << rng.Intn(7)
			require.Error(t, inspect(string(changed)))
		}
	}
}

func inspect(text string) error {
	_, err := result.NewInspector(func(string) error { return nil }).Inspect([]byte(text))
	return err
}

// damage changes one place of v and says which.
func damage(rng *rand.Rand, v *any) string {
	values := []any{nil, true, "x", "", -1.0, 0.5, 1.0, []any{}, map[string]any{}, []any{"x"}}
	switch x := (*v).(type) {
	case map[string]any:
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		if len(keys) == 0 || rng.Intn(20) == 0 {
			x["unknown"] = values[rng.Intn(len(values))]
			return ".unknown added"
		}
		k := keys[rng.Intn(len(keys))]
		if rng.Intn(10) == 0 {
			delete(x, k)
			return "." + k + " removed"
		}
		e := x[k]
		what := damage(rng, &e)
		x[k] = e
		return "." + k + what
	case []any:
		if len(x) == 0 || rng.Intn(10) == 0 {
			break
		}
		i := rng.Intn(len(x))
		return fmt.Sprintf("[%d]", i) + damage(rng, &x[i])
	}
	*v = values[rng.Intn(len(values))]
	return fmt.Sprintf(" = %#v", *v)
}
