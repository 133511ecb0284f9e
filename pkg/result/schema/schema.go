// Package schema makes the public JSON Schemas of the matrix and of every
// record type from the Go types, their doc comments and the constants of
// package result.
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// base is where the schemas stand.
const base = "https://raw.githubusercontent.com/collectivex/collectivex/main/schema/"

// File is one schema as it is checked in.
type File struct {
	Name string
	Data []byte
}

// Names of the definitions that have no Go type of their own: a case with the
// block of its family alone.
const (
	epCase         = "EPCase"
	collectiveCase = "CollectiveCase"
)

// roots are the schemas. cases are what a plan.Case may be in it, factors the
// type behind identity.case_factors.case.
var roots = []struct {
	name, title string
	value       any
	record      string
	cases       []string
	factors     any
}{
	{"matrix.schema.json", "CollectiveX matrix", plan.Matrix{}, "", []string{epCase, collectiveCase}, nil},
	{result.RecordEP + ".schema.json", "CollectiveX document of an expert-parallel case", result.EPDocument{}, result.RecordEP, []string{epCase}, result.EPFactors{}},
	{result.RecordEPOther + ".schema.json", "CollectiveX document of an expert-parallel case beyond CollectiveX's own plan", result.EPDocument{}, result.RecordEPOther, []string{epCase}, result.EPFactors{}},
	{result.RecordCollective + ".schema.json", "CollectiveX document of a collective case", result.CollectiveDocument{}, result.RecordCollective, []string{collectiveCase}, nil},
}

// Files returns the schemas.
func Files() ([]File, error) {
	comments, err := comments()
	if err != nil {
		return nil, err
	}
	var out []File
	used := map[string]bool{}
	values := result.Closed()
	for _, root := range roots {
		s := &maker{comments: comments, cases: root.cases, factors: root.factors, types: map[string]reflect.Type{}, values: values, used: used}
		data, err := s.make(root.name, root.title, root.value, root.record)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", root.name, err)
		}
		out = append(out, File{root.name, data})
	}
	for field := range values {
		if !used[field] {
			return nil, fmt.Errorf("no field %s", field)
		}
	}
	return out, nil
}

// maker makes one schema.
type maker struct {
	comments map[string]string
	cases    []string
	factors  any
	types    map[string]reflect.Type // definitions made, to refuse two types of one name
	values   map[string][]any        // closed lists
	used     map[string]bool         // entries of values
}

func (m *maker) make(name, title string, value any, record string) ([]byte, error) {
	s := m.reflect(value, m.refer)
	if m.factors != nil {
		m.define(s.Definitions, "EPFactors", m.factors, nil)
	}
	for _, c := range m.cases {
		if err := m.defineCase(s.Definitions, c); err != nil {
			return nil, err
		}
	}
	if record != "" {
		property(s, "record_type").Const = record
	} else {
		m.matrix(s)
	}
	if err := m.tighten(s, reflect.TypeOf(value), map[reflect.Type]bool{}); err != nil {
		return nil, err
	}
	s.ID, s.Title = jsonschema.ID(base+name), title
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(s)
	return b.Bytes(), err
}

// reflect returns the schema of value with its own properties at the root.
func (m *maker) reflect(value any, mapper func(reflect.Type) *jsonschema.Schema) *jsonschema.Schema {
	r := &jsonschema.Reflector{Anonymous: true, ExpandedStruct: true, CommentMap: m.comments, Mapper: mapper}
	return r.Reflect(value)
}

// refer puts references where the Go type says less than the document holds: a
// case has one block, and the factors have the type of the family.
func (m *maker) refer(t reflect.Type) *jsonschema.Schema {
	switch {
	case t == reflect.TypeFor[plan.Case]():
		if len(m.cases) == 1 {
			return reference(m.cases[0])
		}
		any := &jsonschema.Schema{}
		for _, c := range m.cases {
			any.AnyOf = append(any.AnyOf, reference(c))
		}
		return any
	case t.Kind() == reflect.Interface && m.factors != nil:
		return reference("EPFactors")
	case t.Kind() == reflect.Interface:
		return reference(m.cases[0])
	default:
		return nil
	}
}

func reference(definition string) *jsonschema.Schema {
	return &jsonschema.Schema{Ref: "#/$defs/" + definition}
}

// define adds the definition of value, and of what it needs but for unwanted.
func (m *maker) define(defs jsonschema.Definitions, name string, value any, unwanted jsonschema.Definitions) *jsonschema.Schema {
	s := m.reflect(value, nil)
	for n, d := range s.Definitions {
		if unwanted[n] == nil {
			defs[n] = d
		}
	}
	s.Definitions, s.Version = nil, ""
	defs[name] = s
	return s
}

// defineCase adds plan.Case with the block of one family.
func (m *maker) defineCase(defs jsonschema.Definitions, name string) error {
	others := map[string]any{epCase: plan.Collective{}, collectiveCase: plan.EP{}}
	families := map[string]plan.Family{epCase: plan.FamilyEP, collectiveCase: plan.FamilyCollective}
	other, ok := others[name]
	if !ok {
		return fmt.Errorf("no case %q", name)
	}
	drop := m.reflect(other, nil)
	s := m.define(defs, name, plan.Case{}, drop.Definitions)
	for p := drop.Properties.Oldest(); p != nil; p = p.Next() {
		s.Properties.Delete(p.Key)
	}
	required := s.Required[:0]
	for _, r := range s.Required {
		if _, there := s.Properties.Get(r); there {
			required = append(required, r)
		}
	}
	s.Required = required
	property(s, "family").Const = families[name]
	return nil
}

// matrix says which cases stand in the list of EP cases.
func (m *maker) matrix(s *jsonschema.Schema) {
	cases := property(s, "requested_cases")
	only := &jsonschema.Schema{Properties: jsonschema.NewProperties()}
	only.Properties.Set("case", reference(epCase))
	cases.Items = &jsonschema.Schema{AllOf: []*jsonschema.Schema{cases.Items, only}}
}

func property(s *jsonschema.Schema, name string) *jsonschema.Schema {
	p, ok := s.Properties.Get(name)
	if !ok {
		panic("no property " + name) // a constant of this package is wrong
	}
	return p
}
