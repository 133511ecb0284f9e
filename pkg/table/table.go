// Package table holds the tables of a summary: columns, rows of text, the sections that contain them, and
// the format of figures in cells.
package table

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/collectivex/collectivex/pkg/sanitize"
)

// Column is one column of a table; figures are right-aligned, the headline is bold.
type Column struct {
	Name   string
	Right  bool
	Strong bool
}

// Table is rows of text under columns.
type Table struct {
	Columns []Column
	Rows    [][]string
}

// DropEmpty removes the columns that are empty in all rows.
func (t *Table) DropEmpty() {
	for i := range slices.Backward(t.Columns) {
		if !slices.ContainsFunc(t.Rows, func(r []string) bool { return r[i] != "" }) {
			t.remove(i)
		}
	}
}

func (t *Table) remove(i int) {
	t.Columns = slices.Delete(slices.Clone(t.Columns), i, i+1)
	for k := range t.Rows {
		t.Rows[k] = slices.Delete(t.Rows[k], i, i+1)
	}
}

// Text returns the columns with the given names.
func Text(names ...string) []Column { return columns(false, names) }

// Figures returns the columns of figures with the given names.
func Figures(names ...string) []Column { return columns(true, names) }

// Headline returns the column of the highlighted figure.
func Headline(name string) []Column { return []Column{{Name: name, Right: true, Strong: true}} }

func columns(right bool, names []string) []Column {
	out := make([]Column, len(names))
	for i, n := range names {
		out[i] = Column{Name: n, Right: right}
	}
	return out
}

// Markdown returns the table's head and its rows, each with a newline.
func (t *Table) Markdown() (head string, rows []string) {
	var names, rule strings.Builder
	for _, c := range t.Columns {
		names.WriteString("| " + sanitize.Markdown(c.Name) + " ")
		if c.Right {
			rule.WriteString("|--:")
		} else {
			rule.WriteString("|---")
		}
	}
	for _, r := range t.Rows {
		var b strings.Builder
		for i, cell := range r {
			if cell = sanitize.Markdown(cell); t.Columns[i].Strong && cell != "" && cell != Dash {
				cell = "**" + cell + "**"
			}
			b.WriteString("| " + cell + " ")
		}
		rows = append(rows, b.String()+"|\n")
	}
	return names.String() + "|\n" + rule.String() + "|\n", rows
}

// Text returns the table as aligned lines.
func (t *Table) Text() string {
	width := make([]int, len(t.Columns))
	head := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		head[i] = c.Name
	}
	lines := [][]string{head}
	for _, r := range t.Rows {
		line := make([]string, len(r))
		for i, cell := range r {
			line[i] = sanitize.Line(cell)
		}
		lines = append(lines, line)
	}
	for _, r := range lines {
		for i, cell := range r {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, r := range lines {
		var line strings.Builder
		for i, cell := range r {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if t.Columns[i].Right {
				cell = pad + cell
			} else {
				cell += pad
			}
			line.WriteString("  " + cell)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}
