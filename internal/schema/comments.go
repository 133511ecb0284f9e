package schema

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
)

// comments returns the doc comments of types and fields by their names, package.Type and
// package.Type.Field, from the sources of this module.
func comments() (map[string]string, error) {
	types := []reflect.Type{reflect.TypeFor[plan.Case](), reflect.TypeFor[simulate.Model](), reflect.TypeFor[result.Envelope]()}
	for _, f := range result.Families() {
		types = append(types, reflect.TypeOf(f.Document))
	}
	out := map[string]string{}
	for _, t := range types {
		if err := addPackage(out, t.PkgPath()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// modulePath is the path of the module.
const modulePath = "github.com/collectivex/collectivex"

// addPackage adds the comments of a package. Its tests count too: they may declare a family.
func addPackage(out map[string]string, pkg string) error {
	paths, err := filepath.Glob(filepath.Join(need.Source(strings.TrimPrefix(pkg, modulePath)), "*.go"))
	for _, path := range paths {
		file, parseErr := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if parseErr != nil {
			return parseErr
		}
		if !strings.HasSuffix(file.Name.Name, "_test") { // the types of an external test
			addFile(out, pkg, file)
		}
	}
	return err
}

func addFile(out map[string]string, pkg string, file *ast.File) {
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
}

// line returns a comment as one line.
func line(c *ast.CommentGroup) string {
	return strings.Join(strings.Fields(c.Text()), " ")
}
