package report

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/collectivex/collectivex/pkg/foreign"
)

// column is one column of a table; figures stand at the right, the headline is
// strong.
type column struct {
	name   string
	right  bool
	strong bool
}

type table struct {
	columns []column
	rows    [][]string
}

// dropEmpty removes the columns that no row has anything in.
func (t *table) dropEmpty() {
	for i := range slices.Backward(t.columns) {
		if !slices.ContainsFunc(t.rows, func(r []string) bool { return r[i] != "" }) {
			t.remove(i)
		}
	}
}

func (t *table) remove(i int) {
	t.columns = slices.Delete(slices.Clone(t.columns), i, i+1)
	for k := range t.rows {
		t.rows[k] = slices.Delete(t.rows[k], i, i+1)
	}
}

// text and figure are the columns of that kind with the given names.
func text(names ...string) []column { return columns(false, names) }

func figure(names ...string) []column { return columns(true, names) }

func columns(right bool, names []string) []column {
	out := make([]column, len(names))
	for i, n := range names {
		out[i] = column{name: n, right: right}
	}
	return out
}

// markdown returns the table's head and its rows, each with a newline.
func (t *table) markdown() (head string, rows []string) {
	var names, rule strings.Builder
	for _, c := range t.columns {
		names.WriteString("| " + foreign.Markdown(c.name) + " ")
		if c.right {
			rule.WriteString("|--:")
		} else {
			rule.WriteString("|---")
		}
	}
	for _, r := range t.rows {
		var b strings.Builder
		for i, cell := range r {
			if cell = foreign.Markdown(cell); t.columns[i].strong && cell != "" {
				cell = "**" + cell + "**"
			}
			b.WriteString("| " + cell + " ")
		}
		rows = append(rows, b.String()+"|\n")
	}
	return names.String() + "|\n" + rule.String() + "|\n", rows
}

// text returns the table as aligned lines.
func (t *table) text() string {
	width := make([]int, len(t.columns))
	head := make([]string, len(t.columns))
	for i, c := range t.columns {
		head[i] = c.name
	}
	lines := [][]string{head}
	for _, r := range t.rows {
		line := make([]string, len(r))
		for i, cell := range r {
			line[i] = foreign.Line(cell)
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
			if t.columns[i].right {
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
