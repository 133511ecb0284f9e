// Package schema makes the public JSON Schemas of the matrix and of every
// record type from the Go types, their doc comments and the constants of
// package result.
package schema

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
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

// root is one schema. families are those that a plan.Case in it may be of, and
// factors a value of the type behind identity.case_factors.case.
type root struct {
	name, title string
	value       any
	record      string
	families    []plan.Family
	factors     any
}

// roots are the schemas.
func roots() []root {
	var names []plan.Family
	for _, f := range plan.Families() {
		names = append(names, f.Name)
	}
	all := []root{{"matrix.schema.json", "CollectiveX matrix", plan.Matrix{}, "", names, nil}}
	for _, f := range result.Families() {
		for _, r := range f.Records {
			all = append(all, root{r.Type + ".schema.json", r.Title, f.Document, r.Type, []plan.Family{f.Name}, f.Factors})
		}
	}
	return all
}

// caseName is the definition of a case with the block of a family; it has no Go
// type of its own.
func caseName(f plan.Family) string {
	return reflect.TypeOf(plan.NewBlock(f)).Elem().Name() + "Case"
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
	for _, root := range roots() {
		s := &maker{comments: comments, families: root.families, factors: root.factors, types: map[string]reflect.Type{}, values: values, used: used}
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
	families []plan.Family
	factors  any
	types    map[string]reflect.Type // definitions made, to refuse two types of one name
	values   map[string][]any        // closed lists
	used     map[string]bool         // entries of values
}

func (m *maker) make(name, title string, value any, record string) ([]byte, error) {
	s := m.reflect(value, m.refer)
	if m.hasFactors() {
		m.define(s.Definitions, reflect.TypeOf(m.factors).Name(), m.factors)
	}
	for _, f := range m.families {
		m.defineCase(s.Definitions, f)
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
	words := func(t reflect.Type) *jsonschema.Schema {
		if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
			return &jsonschema.Schema{Type: "string"}
		}
		if t == reflect.TypeFor[result.Reasons]() { // in place, without a definition
			return &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string"}}
		}
		if mapper == nil {
			return nil
		}
		return mapper(t)
	}
	r := &jsonschema.Reflector{Anonymous: true, ExpandedStruct: true, CommentMap: m.comments, Mapper: words}
	return r.Reflect(value)
}

// refer puts references where the Go type says less than the document holds: a
// case has one block, and the factors have the type of the family.
func (m *maker) refer(t reflect.Type) *jsonschema.Schema {
	switch {
	case t == reflect.TypeFor[plan.Case]():
		return anyCase(m.families)
	case t.Kind() == reflect.Interface && m.hasFactors():
		return reference(reflect.TypeOf(m.factors).Name())
	case t.Kind() == reflect.Interface:
		return reference(caseName(m.families[0]))
	default:
		return nil
	}
}

// anyCase is a case of one of the families.
func anyCase(families []plan.Family) *jsonschema.Schema {
	if len(families) == 1 {
		return reference(caseName(families[0]))
	}
	s := &jsonschema.Schema{}
	for _, f := range families {
		s.AnyOf = append(s.AnyOf, reference(caseName(f)))
	}
	return s
}

func reference(definition string) *jsonschema.Schema {
	return &jsonschema.Schema{Ref: "#/$defs/" + definition}
}

// hasFactors reports whether the factors of a case have a type of their own, and are
// not the case itself.
func (m *maker) hasFactors() bool {
	return m.factors != nil && reflect.TypeOf(m.factors) != reflect.TypeFor[plan.Case]()
}

// define adds the definition of value, and of what it needs.
func (m *maker) define(defs jsonschema.Definitions, name string, value any) *jsonschema.Schema {
	s := m.reflect(value, nil)
	maps.Copy(defs, s.Definitions)
	s.Definitions, s.Version = nil, ""
	defs[name] = s
	return s
}

// defineCase adds plan.Case with the members of the block of one family.
func (m *maker) defineCase(defs jsonschema.Definitions, f plan.Family) {
	s := m.define(defs, caseName(f), plan.Case{})
	block := m.reflect(plan.NewBlock(f), nil)
	maps.Copy(defs, block.Definitions)
	for p := block.Properties.Oldest(); p != nil; p = p.Next() {
		s.Properties.Set(p.Key, p.Value)
	}
	s.Required = append(s.Required, block.Required...)
	property(s, "family").Const = f
}

// matrix says which families have cases in requested_cases.
func (m *maker) matrix(s *jsonschema.Schema) {
	cases := property(s, "requested_cases")
	var upstream []plan.Family
	for _, f := range plan.Families() {
		if f.Upstream != nil {
			upstream = append(upstream, f.Name)
		}
	}
	only := &jsonschema.Schema{Properties: jsonschema.NewProperties()}
	only.Properties.Set("case", anyCase(upstream))
	cases.Items = &jsonschema.Schema{AllOf: []*jsonschema.Schema{cases.Items, only}}
}

func property(s *jsonschema.Schema, name string) *jsonschema.Schema {
	p, ok := s.Properties.Get(name)
	if !ok {
		panic("no property " + name) // a constant of this package is wrong
	}
	return p
}
