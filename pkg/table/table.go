// Package table holds the tables of a summary: columns, rows of text, the sections that contain them, and
// the format of figures in cells.
package table

import (
	"cmp"
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

	keys int // number of leading columns that identify a row
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
	if i < t.keys {
		t.keys--
	}
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

// Text returns the table as aligned lines of at most width columns, or as wide as they are if width is 0. Texts of a
// wider table are on lines of their own above its rows if the figures then fit. Otherwise it has several blocks, each
// with the columns that identify a row.
func (t *Table) Text(width int) string {
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
	widths := make([]int, len(t.Columns))
	for _, r := range lines {
		for i, cell := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	if total := 2*len(widths) + sum(widths); width == 0 || total <= width {
		width = total
	} else {
		t.identify()
	}
	above := t.above(widths, width)
	indent := 0
	if slices.Contains(above, true) {
		indent = 2
	}
	var b strings.Builder
	for _, columns := range t.blocks(widths, above, width-indent) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		last := ""
		for _, r := range lines {
			if title := titleOf(r, above); indent > 0 && title != last {
				b.WriteString("  " + strings.Join(Wrap(title, width-4), "\n    ") + "\n")
				last = title
			}
			b.WriteString(t.line(r, columns, widths, indent))
		}
	}
	return b.String()
}

func sum(list []int) (total int) {
	for _, n := range list {
		total += n
	}
	return total
}

// identify adds columns to those that identify a row until no two rows are alike in them, if there are such.
func (t *Table) identify() {
	for k := t.keys; k < len(t.Columns); k++ {
		seen := map[string]bool{}
		for _, r := range t.Rows {
			seen[strings.Join(r[:k], "\x00")] = true
		}
		if len(seen) == len(t.Rows) {
			t.keys = k
			return
		}
	}
}

// titleOf returns the cells of a row that are above it.
func titleOf(row []string, above []bool) string {
	var cells []string
	for i, cell := range row {
		if above[i] && cell != "" {
			cells = append(cells, cell)
		}
	}
	return cmp.Or(strings.Join(cells, ", "), Dash)
}

// line returns the cells of a row in some columns, with a newline; "" without cells.
func (t *Table) line(row []string, columns, widths []int, indent int) string {
	line := strings.Repeat(" ", indent)
	for _, i := range columns {
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(row[i]))
		if t.Columns[i].Right {
			line += "  " + pad + row[i]
		} else {
			line += "  " + row[i] + pad
		}
	}
	if line = strings.TrimRight(line, " "); line == "" {
		return ""
	}
	return line + "\n"
}

// above returns which columns of text are above the rows, the widest first, so that the others fit into width. If
// they never fit, only those are that leave no room for figures beside them.
func (t *Table) above(widths []int, width int) []bool {
	above := make([]bool, len(widths))
	total, figures, keys := 0, 0, 0
	for i, w := range widths {
		total += 2 + w
		if t.Columns[i].Right {
			figures += 2 + w
		}
		if i < t.keys {
			keys += 2 + w
		}
	}
	if total <= width {
		return above
	}
	room := width - 2
	if figures > room {
		total, room = keys, width/2
	}
	for total > room {
		widest := -1
		for i, c := range t.Columns {
			if !c.Right && !above[i] && (widest < 0 || widths[i] > widths[widest]) && (figures <= width-2 || i < t.keys) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		above[widest] = true
		total -= 2 + widths[widest]
	}
	return above
}

// blocks returns the columns that are beside each other: those that identify a row, and as many others as fit.
func (t *Table) blocks(widths []int, above []bool, width int) (all [][]int) {
	var keys []int
	start := 0
	for i := range t.keys {
		if !above[i] {
			keys, start = append(keys, i), start+2+widths[i]
		}
	}
	block, total := slices.Clone(keys), start
	for i := t.keys; i < len(widths); i++ {
		if above[i] {
			continue
		}
		if total+2+widths[i] > width && len(block) > len(keys) {
			all, block, total = append(all, block), slices.Clone(keys), start
		}
		block, total = append(block, i), total+2+widths[i]
	}
	return append(all, block)
}

// Wrap returns text as lines of at most width columns, unless a word is longer.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
