// Package schema generates the public JSON Schemas of the matrix and of every record type from the Go types,
// their doc comments and the constants of package result. go test ./internal/schema -update writes them.
package schema

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/strictjson"
)

// Base is the address below which the schemas are published.
const Base = "https://raw.githubusercontent.com/collectivex/collectivex/main/schema/"

// Schema files besides the files of record types.
const (
	matrixFile   = "matrix.schema.json"
	envelopeFile = "envelope.schema.json" // members of all documents
)

// File is one schema as it is checked in.
type File struct {
	Name string
	Data []byte
}

// Files returns the schemas by name. Each type is defined once, in the file that fileOf returns; other files
// refer to it by a relative reference.
func Files() ([]File, error) {
	comments, err := comments()
	if err != nil {
		return nil, err
	}
	m := &maker{comments, plan.Types().Lists, map[string]*jsonschema.Schema{}, map[string]reflect.Type{}}
	m.matrix()
	m.envelope()
	for _, f := range result.Families() {
		m.documents(f)
	}
	var out []File
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(m.files[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, File{name, b.Bytes()})
	}
	return out, nil
}

// fileOf returns the file that defines the types of a package: its family's, the matrix's for package plan,
// and the envelope's for all others.
func fileOf(pkg string) string {
	if pkg == reflect.TypeFor[plan.Case]().PkgPath() {
		return matrixFile
	}
	for _, f := range result.Families() {
		if reflect.TypeOf(f.Document).PkgPath() == pkg {
			return familyFile(f)
		}
	}
	return envelopeFile
}

// familyFile returns the file of a family's last record type.
func familyFile(f *result.Family) string { return f.Records[len(f.Records)-1].SchemaFile() }

// maker makes the schemas.
type maker struct {
	comments map[string]string // see comments
	closed   strictjson.Lists
	files    map[string]*jsonschema.Schema
	types    map[string]reflect.Type // by reference, to refuse two types of one name
}

// file returns the schema in a file.
func (m *maker) file(name string) *jsonschema.Schema {
	s := m.files[name]
	if s == nil {
		s = &jsonschema.Schema{Version: jsonschema.Version, ID: jsonschema.ID(Base + name), Definitions: jsonschema.Definitions{}}
		m.files[name] = s
	}
	return s
}

// matrix generates the schema of the matrix.
func (m *maker) matrix() {
	s := m.file(matrixFile)
	s.Title = "CollectiveX matrix"
	m.object(s, matrixFile, reflect.TypeFor[plan.Matrix]())
	cases := property(s, "requested_cases")
	only := &jsonschema.Schema{Properties: jsonschema.NewProperties()}
	only.Properties.Set("case", anyCase(matrixFile, func(f plan.Descriptor) bool { return f.Upstream != nil }))
	cases.Items = &jsonschema.Schema{AllOf: []*jsonschema.Schema{cases.Items, only}}
	open(m.define(matrixFile, "Case", reflect.TypeFor[plan.Case]()))
}

// envelope generates the schema of the envelope.
func (m *maker) envelope() {
	s := m.file(envelopeFile)
	s.Title = "CollectiveX document of any family"
	m.object(s, envelopeFile, reflect.TypeFor[result.Envelope]())
	open(s)
}

// documents generates the schemas of a family's cases and documents. The schemas of its record types differ
// only in the name of the type.
func (m *maker) documents(f *result.Family) {
	file := familyFile(f)
	block := reflect.TypeOf(plan.NewBlock(f.Name)).Elem()
	c := m.define(file, "Case", block)
	extend(c, reference(file, matrixFile, "Case"))
	c.Properties.Set("family", &jsonschema.Schema{Const: f.Name})

	d := m.define(file, "Document", reflect.TypeOf(f.Document))
	extend(d, &jsonschema.Schema{Ref: envelopeFile})
	d.Properties.Set("identity", identity(m.schema(file, reflect.TypeOf(f.Factors)), reference(file, file, "Case")))
	for _, r := range f.Records {
		s := m.file(r.SchemaFile())
		s.Title, s.Ref = r.Title, reference(r.SchemaFile(), file, "Document").Ref
		s.Properties = jsonschema.NewProperties()
		s.Properties.Set("record_type", &jsonschema.Schema{Const: r.Type})
	}
}

// identity specifies the case in an identity, and its factors.
func identity(factors, of *jsonschema.Schema) *jsonschema.Schema {
	caseFactors := &jsonschema.Schema{Properties: jsonschema.NewProperties()}
	caseFactors.Properties.Set("case", factors)
	s := &jsonschema.Schema{Properties: jsonschema.NewProperties()}
	s.Properties.Set("case_factors", caseFactors)
	s.Properties.Set("case", of)
	return s
}

// open allows members that the schema does not name.
func open(s *jsonschema.Schema) { s.AdditionalProperties = nil }

// extend adds the members of an open object to another one.
func extend(s, reference *jsonschema.Schema) {
	open(s)
	s.Ref, s.Extras = reference.Ref, map[string]any{"unevaluatedProperties": false}
}

// define defines a struct under a name in a file. It panics if two structs have the same name.
func (m *maker) define(file, name string, t reflect.Type) *jsonschema.Schema {
	key := file + "#" + name
	definitions := m.file(file).Definitions
	switch old := m.types[key]; old {
	case nil:
		m.types[key], definitions[name] = t, &jsonschema.Schema{}
		m.object(definitions[name], file, t)
	case t:
	default:
		panic(fmt.Sprintf("schema: types %v and %v have the same name", old, t))
	}
	return definitions[name]
}

// schema returns the schema of a value of type t in a file, and defines the structs in it. It panics for a
// type without a schema.
func (m *maker) schema(file string, t reflect.Type) *jsonschema.Schema {
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return &jsonschema.Schema{Type: "string"}
	}
	switch t.Kind() {
	case reflect.Interface: // see identity
		return &jsonschema.Schema{}
	case reflect.Pointer:
		return m.schema(file, t.Elem())
	case reflect.Struct:
		if t == reflect.TypeFor[plan.Case]() {
			return caseIn(file)
		}
		home := fileOf(t.PkgPath())
		m.define(home, t.Name(), t)
		return reference(file, home, t.Name())
	case reflect.Slice:
		return &jsonschema.Schema{Type: "array", Items: m.schema(file, t.Elem())}
	case reflect.Map:
		return &jsonschema.Schema{Type: "object", AdditionalProperties: m.schema(file, t.Elem())}
	case reflect.String:
		return &jsonschema.Schema{Type: "string"}
	case reflect.Bool:
		return &jsonschema.Schema{Type: "boolean"}
	case reflect.Float64:
		return &jsonschema.Schema{Type: "number", Minimum: "0"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return &jsonschema.Schema{Type: "integer", Minimum: "0"}
	default:
		panic(fmt.Sprintf("schema: no schema of type %v", t))
	}
}

// object makes s an object with the fields of a struct and no others.
func (m *maker) object(s *jsonschema.Schema, file string, t reflect.Type) {
	s.Type, s.Properties, s.AdditionalProperties = "object", jsonschema.NewProperties(), jsonschema.FalseSchema
	s.Description = m.comments[t.PkgPath()+"."+t.Name()]
	m.fields(s, file, t)
}

// fields adds the fields of t, without the fields of an embedded Envelope, which extend adds. A pointer that
// is always written may be null, and some fields have a closed list of values.
func (m *maker) fields(s *jsonschema.Schema, file string, t reflect.Type) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Type == reflect.TypeFor[result.Envelope](), name == "-":
			continue
		case f.Anonymous:
			m.fields(s, file, f.Type)
			continue
		}
		p := m.schema(file, f.Type)
		p.Enum = m.closed[f.Tag.Get("in")]
		if f.Tag.Get("sign") == "any" {
			p.Minimum = ""
		}
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

// caseIn returns the schema of a case: in a family's file of that family, in the matrix's of any family, and
// in the envelope's the common members.
func caseIn(file string) *jsonschema.Schema {
	switch file {
	case matrixFile:
		return anyCase(file, func(plan.Descriptor) bool { return true })
	case envelopeFile:
		return reference(file, matrixFile, "Case")
	}
	return reference(file, file, "Case")
}

// anyCase returns the schema of a case of one of the wanted families.
func anyCase(file string, wanted func(plan.Descriptor) bool) *jsonschema.Schema {
	s := &jsonschema.Schema{}
	for _, f := range plan.Families() {
		if wanted(f) {
			s.AnyOf = append(s.AnyOf, reference(file, fileOf(reflect.TypeOf(f.Block).Elem().PkgPath()), "Case"))
		}
	}
	return s
}

func reference(from, file, definition string) *jsonschema.Schema {
	if file == from {
		file = ""
	}
	return &jsonschema.Schema{Ref: file + "#/$defs/" + definition}
}

func property(s *jsonschema.Schema, name string) *jsonschema.Schema {
	p, ok := s.Properties.Get(name)
	if !ok {
		panic("schema: no property " + name) // a constant of this package is wrong
	}
	return p
}
