package workflow

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"text/template/parse"

	"gopkg.in/yaml.v3"
)

//go:embed workflow.yml.tmpl
var text string

// values are the values of a template, by name. A value is a string, bool or int, values, or a list of values.
type values = map[string]any

// functions are the functions of templates.
var functions = map[string]any{"yaml": true, "not": true}

// trees is the workflow's template and those that it defines.
var trees = func() map[string]*parse.Tree {
	all, err := parse.Parse("workflow", text, "<%", "%>", functions)
	if err != nil {
		panic(err)
	}
	return all
}()

// renderer executes templates as package text/template does, as far as the workflow needs it. With that package, the
// linker would keep every method of the program.
type renderer struct {
	out  bytes.Buffer
	root any // $
}

// render executes the template with a name.
func render(name string, data any) (text []byte, err error) {
	defer func() {
		if failed, is := recover().(renderError); is {
			err = failed
		}
	}()
	r := &renderer{root: data}
	r.list(trees[name].Root, data)
	return r.out.Bytes(), nil
}

type renderError struct{ error }

func refuse(format string, args ...any) {
	panic(renderError{fmt.Errorf("workflow.yml.tmpl: "+format, args...)})
}

func (r *renderer) list(list *parse.ListNode, dot any) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.TextNode:
			r.out.Write(n.Text)
		case *parse.ActionNode:
			fmt.Fprint(&r.out, r.pipe(n.Pipe, dot))
		case *parse.IfNode:
			r.branch(&n.BranchNode, dot, dot, holds(r.pipe(n.Pipe, dot)))
		case *parse.WithNode:
			v := r.pipe(n.Pipe, dot)
			r.branch(&n.BranchNode, dot, v, holds(v))
		case *parse.RangeNode:
			for _, v := range elements(r.pipe(n.Pipe, dot)) {
				r.list(n.List, v)
			}
		case *parse.TemplateNode:
			var data any
			if n.Pipe != nil {
				data = r.pipe(n.Pipe, dot)
			}
			part, err := render(n.Name, data)
			if err != nil {
				panic(err)
			}
			r.out.Write(part)
		default:
			refuse("unsupported: %s", node)
		}
	}
}

func (r *renderer) branch(n *parse.BranchNode, dot, inner any, holds bool) {
	if holds {
		r.list(n.List, inner)
		return
	}
	r.list(n.ElseList, dot)
}

func (r *renderer) pipe(p *parse.PipeNode, dot any) any {
	if len(p.Cmds) != 1 || len(p.Decl) > 0 {
		refuse("unsupported: %s", p)
	}
	args := p.Cmds[0].Args
	if f, is := args[0].(*parse.IdentifierNode); is && len(args) == 2 {
		v := r.value(args[1], dot)
		if f.Ident == "not" {
			return !holds(v)
		}
		out, err := yaml.Marshal(v)
		if err != nil {
			refuse("%w", err)
		}
		return strings.TrimSuffix(string(out), "\n")
	}
	if len(args) != 1 {
		refuse("unsupported: %s", p)
	}
	return r.value(args[0], dot)
}

func (r *renderer) value(node parse.Node, dot any) any {
	switch n := node.(type) {
	case *parse.DotNode:
		return dot
	case *parse.StringNode:
		return n.Text
	case *parse.FieldNode:
		return field(dot, n.Ident)
	case *parse.VariableNode:
		return field(r.root, n.Ident[1:])
	}
	refuse("unsupported: %s", node)
	return nil
}

func field(of any, names []string) any {
	for _, name := range names {
		all, _ := of.(values)
		v, exists := all[name]
		if !exists {
			refuse("no value %s", name)
		}
		of = v
	}
	return of
}

func holds(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case int:
		return v != 0
	case string:
		return v != ""
	case []string:
		return len(v) > 0
	case []values:
		return len(v) > 0
	}
	return v != nil
}

// elements returns the elements of a list, or 0 to n−1 for a number n.
func elements(v any) (out []any) {
	switch v := v.(type) {
	case int:
		for i := range v {
			out = append(out, i)
		}
	case []string:
		for _, e := range v {
			out = append(out, e)
		}
	case []values:
		for _, e := range v {
			out = append(out, e)
		}
	}
	return out
}
