package schema

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// tighten adds to s, the schema of t, and to the definitions below it what Go
// types do not tell the reflector: a pointer that is always written may be
// null, and some fields have a closed list of values.
func (m *maker) tighten(root *jsonschema.Schema, t reflect.Type, seen map[reflect.Type]bool) error {
	return m.walk(root, root, t, seen)
}

func (m *maker) walk(root, s *jsonschema.Schema, t reflect.Type, seen map[reflect.Type]bool) error {
	for f := range t.Fields() {
		inner := element(f.Type)
		if f.Anonymous {
			if err := m.walk(root, s, inner, seen); err != nil {
				return err
			}
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		p, ok := s.Properties.Get(name)
		if !ok {
			continue // of another family's block
		}
		if list, ok := m.values[t.Name()+"."+name]; ok {
			p.Enum = list
			m.used[t.Name()+"."+name] = true
		}
		if strings.Contains(options, "omitzero") { // the reflector knows omitempty alone
			s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == name })
		}
		if f.Type.Kind() == reflect.Pointer && !strings.Contains(options, "omitempty") {
			description := p.Description
			p.Description = ""
			s.Properties.Set(name, &jsonschema.Schema{AnyOf: []*jsonschema.Schema{p, {Type: "null"}}, Description: description})
		}
		if err := m.definition(root, inner, seen); err != nil {
			return err
		}
	}
	return nil
}

// definition tightens the definitions of t, if it is a struct.
func (m *maker) definition(root *jsonschema.Schema, t reflect.Type, seen map[reflect.Type]bool) error {
	if t.Kind() == reflect.Interface && m.hasFactors() {
		t = reflect.TypeOf(m.factors)
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[result.Reason]() || seen[t] {
		return nil
	}
	seen[t] = true
	names := []string{t.Name()}
	if t == reflect.TypeFor[plan.Case]() {
		names = nil
		for _, f := range m.families {
			names = append(names, caseName(f))
			if err := m.walk(root, root.Definitions[caseName(f)], reflect.TypeOf(plan.NewBlock(f)).Elem(), seen); err != nil {
				return err
			}
		}
	}
	for _, name := range names {
		if old, ok := m.types[name]; ok && old != t {
			return fmt.Errorf("types %v and %v have the same name", old, t)
		}
		m.types[name] = t
		d := root.Definitions[name]
		if d == nil {
			return fmt.Errorf("type %v has no definition", t)
		}
		if err := m.walk(root, d, t, seen); err != nil {
			return err
		}
	}
	return nil
}

// element strips pointers, slices and maps.
func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}

// comments returns the doc comments of types and fields, by the names that the
// reflector looks them up with.
func comments() (map[string]string, error) {
	out := map[string]string{}
	document := reflect.TypeFor[result.Envelope]().PkgPath()
	err := errors.Join(
		addComments(out, reflect.TypeFor[plan.Case]().PkgPath(), plan.Source),
		addComments(out, document, result.Source))
	for _, f := range result.Families() {
		err = errors.Join(err, addComments(out, reflect.TypeOf(f.Document).PkgPath(), f.Source))
	}
	return out, err
}

func addComments(out map[string]string, pkg string, files fs.FS) error {
	return fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		return addFile(out, pkg, name, text)
	})
}

func addFile(out map[string]string, pkg, name string, text []byte) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.TYPE {
			continue
		}
		for _, spec := range gen.Specs {
			typ := spec.(*ast.TypeSpec)
			key := pkg + "." + typ.Name.Name
			out[key] = line(gen.Doc)
			s, ok := typ.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range s.Fields.List {
				for _, n := range f.Names {
					if out[key+"."+n.Name] = line(f.Doc); f.Doc == nil {
						out[key+"."+n.Name] = line(f.Comment)
					}
				}
			}
		}
	}
	return nil
}

// line is a comment as one line.
func line(c *ast.CommentGroup) string {
	return strings.Join(strings.Fields(c.Text()), " ")
}
