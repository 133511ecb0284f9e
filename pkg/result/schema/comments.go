package schema

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"strings"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
)

// comments returns the doc comments of types and fields by their names, package.Type and
// package.Type.Field.
func comments() (map[string]string, error) {
	out := map[string]string{}
	document := reflect.TypeFor[result.Envelope]().PkgPath()
	err := errors.Join(
		addComments(out, reflect.TypeFor[plan.Case]().PkgPath(), plan.Source),
		addComments(out, reflect.TypeFor[simulate.Model]().PkgPath(), simulate.Source),
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

// line returns a comment as one line.
func line(c *ast.CommentGroup) string {
	return strings.Join(strings.Fields(c.Text()), " ")
}
