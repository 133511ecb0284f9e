// Package schema makes the public JSON Schemas of the matrix and of every
// record type from the Go types, their doc comments and the constants of
// package result.
package schema

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/strictjson"
)

// base is where the schemas stand.
const base = "https://raw.githubusercontent.com/collectivex/collectivex/main/schema/"

// File is one schema as it is checked in.
type File struct {
	Name string
	Data []byte
}

// root is one schema. families are those that a plan.Case in it may be of, and
// factors is the type behind identity.case_factors.case.
type root struct {
	name, title string
	value       any
	record      string
	families    []plan.Descriptor
	factors     reflect.Type
}

// roots are the schemas.
func roots() []root {
	all := []root{{name: "matrix.schema.json", title: "CollectiveX matrix", value: plan.Matrix{}, families: plan.Families()}}
	for _, f := range result.Families() {
		of := slices.DeleteFunc(slices.Clone(plan.Families()), func(d plan.Descriptor) bool { return d.Name != f.Name })
		for _, r := range f.Records {
			all = append(all, root{r.SchemaFile(), r.Title, f.Document, r.Type, of, reflect.TypeOf(f.Factors)})
		}
	}
	return all
}

// Files returns the schemas.
func Files() ([]File, error) {
	comments, err := comments()
	if err != nil {
		return nil, err
	}
	var out []File
	closed := plan.Types().Lists
	for _, root := range roots() {
		m := &maker{root, comments, closed, jsonschema.Definitions{}, map[string]reflect.Type{}}
		data, err := m.make()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", root.name, err)
		}
		out = append(out, File{root.name, data})
	}
	return out, nil
}

// maker makes one schema.
type maker struct {
	root
	comments    map[string]string // see comments
	closed      strictjson.Lists
	definitions jsonschema.Definitions
	types       map[string]reflect.Type // of the definitions, to refuse two types of one name
}

func (m *maker) make() ([]byte, error) {
	s := m.object(reflect.TypeOf(m.value))
	if m.record != "" {
		property(s, "record_type").Const = m.record
	} else {
		m.requested(s)
	}
	s.Version, s.ID, s.Title, s.Definitions = jsonschema.Version, jsonschema.ID(base+m.name), m.title, m.definitions
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(s)
	return b.Bytes(), err
}

// requested says which families have cases in requested_cases.
func (m *maker) requested(matrix *jsonschema.Schema) {
	cases := property(matrix, "requested_cases")
	only := &jsonschema.Schema{Properties: jsonschema.NewProperties()}
	only.Properties.Set("case", anyCase(slices.DeleteFunc(slices.Clone(m.families), func(f plan.Descriptor) bool { return f.Upstream == nil })))
	cases.Items = &jsonschema.Schema{AllOf: []*jsonschema.Schema{cases.Items, only}}
}

// schema returns the schema of a value of type t, and defines the structs in it. A type
// without a schema is a mistake in this program and panics.
func (m *maker) schema(t reflect.Type) *jsonschema.Schema {
	switch {
	case t == reflect.TypeFor[plan.Case]():
		for _, f := range m.families { // a case has the members of one block
			m.define(caseName(f), t, reflect.TypeOf(f.Block).Elem())
			property(m.definitions[caseName(f)], "family").Const = f.Name
		}
		return anyCase(m.families)
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return &jsonschema.Schema{Type: "string"}
	}
	switch t.Kind() {
	case reflect.Interface:
		return m.schema(m.factors)
	case reflect.Pointer:
		return m.schema(t.Elem())
	case reflect.Struct:
		m.define(name(t), t)
		return reference(name(t))
	case reflect.Slice:
		return &jsonschema.Schema{Type: "array", Items: m.schema(t.Elem())}
	case reflect.Map:
		return &jsonschema.Schema{Type: "object", AdditionalProperties: m.schema(t.Elem())}
	case reflect.String:
		return &jsonschema.Schema{Type: "string"}
	case reflect.Bool:
		return &jsonschema.Schema{Type: "boolean"}
	case reflect.Float64:
		return &jsonschema.Schema{Type: "number"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return &jsonschema.Schema{Type: "integer"}
	default:
		panic(fmt.Sprintf("schema: no schema of type %v", t))
	}
}

// define adds the definition of an object with the fields of the structs.
func (m *maker) define(name string, structs ...reflect.Type) {
	switch old := m.types[name]; old {
	case nil:
		m.types[name] = structs[0]
		m.definitions[name] = m.object(structs...)
	case structs[0]:
	default:
		panic(fmt.Sprintf("schema: types %v and %v have the same name", old, structs[0]))
	}
}

// object returns an object with the fields of the structs, of which the first
// describes it.
func (m *maker) object(structs ...reflect.Type) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema,
		Description: m.comments[structs[0].PkgPath()+"."+structs[0].Name()],
	}
	for _, t := range structs {
		m.fields(s, t)
	}
	return s
}

// fields adds the fields of t. A pointer that is always written may be null, and some
// fields have a closed list of values.
func (m *maker) fields(s *jsonschema.Schema, t reflect.Type) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			m.fields(s, f.Type)
			continue
		case name == "-":
			continue
		}
		p := m.schema(f.Type)
		p.Enum = m.closed[f.Tag.Get("in")]
		omitted := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		if f.Type.Kind() == reflect.Pointer && !omitted {
			p = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{p, {Type: "null"}}}
		}
		p.Description = m.comments[t.PkgPath()+"."+t.Name()+"."+f.Name]
		s.Properties.Set(name, p)
		if !omitted {
			s.Required = append(s.Required, name)
		}
	}
}

// anyCase is a case of one of the families.
func anyCase(families []plan.Descriptor) *jsonschema.Schema {
	if len(families) == 1 {
		return reference(caseName(families[0]))
	}
	s := &jsonschema.Schema{}
	for _, f := range families {
		s.AnyOf = append(s.AnyOf, reference(caseName(f)))
	}
	return s
}

// caseName is the definition of a case with the block of a family; it has no Go
// type of its own.
func caseName(f plan.Descriptor) string { return title(f.Name) + "Case" }

// name is the definition of a struct: its Go name, behind the title of the family in whose package
// it is.
func name(t reflect.Type) string {
	for _, f := range plan.Families() {
		if reflect.TypeOf(f.Block).Elem().PkgPath() == t.PkgPath() {
			return title(f.Name) + t.Name()
		}
	}
	return t.Name()
}

// title is the name of a family as definitions begin with it, such as Copy or EP.
func title(name plan.Family) string {
	n := 1
	if len(name) == 2 { // an acronym
		n = len(name)
	}
	return strings.ToUpper(string(name[:n])) + string(name[n:])
}

func reference(definition string) *jsonschema.Schema {
	return &jsonschema.Schema{Ref: "#/$defs/" + definition}
}

func property(s *jsonschema.Schema, name string) *jsonschema.Schema {
	p, ok := s.Properties.Get(name)
	if !ok {
		panic("no property " + name) // a constant of this package is wrong
	}
	return p
}
