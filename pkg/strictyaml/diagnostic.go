package strictyaml

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Pos is a position in a file; lines and columns count from 1.
type Pos struct {
	File string
	Line int
	Col  int
}

// StartOf returns the first position of a file.
func StartOf(file string) Pos { return Pos{file, 1, 1} }

func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col) }

// Diagnostic is one problem and its position.
type Diagnostic struct {
	Pos
	Msg string
}

func (d Diagnostic) Error() string { return d.Pos.String() + ": " + d.Msg }

// Errors holds all diagnostics, sorted by file, line and column. It is never empty.
type Errors []Diagnostic

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, d := range e {
		lines[i] = d.Error()
	}
	return strings.Join(lines, "\n")
}

// Below returns the errors with dir before the name of each file.
func (e Errors) Below(dir string) Errors {
	out := slices.Clone(e)
	for i := range out {
		out[i].File = filepath.Join(dir, out[i].File)
	}
	return out
}

// Sorted returns the errors by position, each once.
func (e Errors) Sorted() Errors {
	slices.SortStableFunc(e, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	seen := map[Diagnostic]bool{}
	return slices.DeleteFunc(e, func(d Diagnostic) bool {
		again := seen[d]
		seen[d] = true
		return again
	})
}
