package compare

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/sanitize"
	"github.com/collectivex/collectivex/pkg/table"
)

// Columns of Line.Cells.
const (
	columnMetric = iota
	columnStatus
	columnTime
	columnNoise
	columnRuns
	columnOld
	columnNew
	columnAt
)

// columns are the headings of Line.Cells.
var columns = slices.Concat(table.Text("metric", "status"), table.Figures("time, − is faster", "noise", "runs", "old µs", "new µs"), table.Text("at"))

// Columns returns the headings of Line.Cells.
func Columns() []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c.Name
	}
	return out
}

// Line is a line of a table of comparisons: a metric of a case, or a rung that did not shift with its case. Its
// times and their change are from one rung. The status of a metric covers all rungs of the case.
type Line struct {
	CaseID string
	Cells  []string
	Trend  string   // of a comparison with a history
	Notes  []string // why, and what to do
}

// Lines returns the lines of a case. Unchanged cases have a line only if all is set. Figures of a case that was
// measured again are those of the second measurement. Texts of documents are not escaped.
func (k *Case) Lines(all bool) (out []Line) {
	if k.Shift == nil {
		cells := make([]string, len(columns))
		cells[columnMetric], cells[columnStatus] = k.Metric, k.Status
		return []Line{{CaseID: k.CaseID, Cells: cells, Notes: k.notes()}}
	}
	s := k.shown()
	decided := k.Status == Same || k.Status == Unclear && k.Why == "" // the latter by a history: not suspect
	if all || !decided || k.OldFailed+k.NewFailed > 0 {
		status, floor := marked(k.Status, k.Confirmed), "unknown"
		if k.Status == Unclear && s.Enough > 0 {
			status += fmt.Sprintf(" (%s)", enough(s.Enough))
		}
		if s.Floor != nil {
			floor = "±" + strings.TrimLeft(percent(*s.Floor), "+")
		}
		out = append(out, Line{CaseID: k.CaseID, Trend: Bars(k.Trend), Notes: k.notes(), Cells: []string{
			k.Metric, status, percent(s.NewUs / s.OldUs), floor, fmt.Sprintf("%d+%d", s.OldRuns, s.NewRuns),
			microseconds(s.OldUs), microseconds(s.NewUs), k.At,
		}})
	}
	for i := range k.Rungs {
		r := &k.Rungs[i]
		if r.Status != Slower && r.Status != Faster {
			continue
		}
		s, notes := r.shown(), []string{"the rung changed by " + percent(r.shown().Beyond) + " beyond its case"}
		if r.Again != nil {
			notes = append(notes, suspectedAt(r.Ratio))
		}
		out = append(out, Line{CaseID: k.CaseID, Notes: notes, Cells: []string{
			k.Metric, marked(r.Status, r.Confirmed), percent(s.NewUs / s.OldUs), "", "", microseconds(s.OldUs), microseconds(s.NewUs), r.Rung,
		}})
	}
	return out
}

// notes returns why a case has its status, and what would decide it.
func (k *Case) notes() (notes []string) {
	suite := ""
	if k.Suite != "" {
		suite = " --suite " + k.Suite
	}
	switch {
	case k.Why == fewRuns:
		notes = append(notes, fmt.Sprintf("%s: measure both again with 'cxrun sweep%s --repeat %d'", fewRuns, suite, MinRuns))
	case k.Why != "":
		notes = append(notes, k.Why)
	}
	for _, d := range k.Differs {
		notes = append(notes, d.Factor+" "+d.change())
	}
	if k.OldFailed+k.NewFailed > 0 {
		notes = append(notes, fmt.Sprintf("failed in %s of OLD and %d of NEW", plural.Count(k.OldFailed, "further run", "further runs"), k.NewFailed))
	}
	return notes
}

// width is the maximum width of a table in columns, apart from the ids of cases.
const width = 100

// Text writes the lines of all cases for a terminal: a case, its lines below it, and at the end each note once.
func (c *Comparison) Text(w io.Writer, all bool) error {
	var order []string
	lines := map[string][]Line{}
	for i := range c.Cases {
		for _, l := range c.Cases[i].Lines(all) {
			if lines[l.CaseID] == nil {
				order = append(order, l.CaseID)
			}
			lines[l.CaseID] = append(lines[l.CaseID], l)
		}
	}
	if len(order) == 0 {
		return nil
	}
	var notes Notes
	t := &table.Table{Columns: slices.Clone(columns)}
	t.Columns[columnTime].Name = "time"
	_, history := c.History()
	if history {
		t.Columns = append(t.Columns, table.Text("trend")...)
	}
	for _, id := range order {
		for _, l := range lines[id] {
			row := notes.Mark(l).Cells
			if history {
				row = append(slices.Clone(row), l.Trend)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	shorten(t)
	var b strings.Builder
	rows := strings.SplitAfter(t.Text(0), "\n")
	b.WriteString("case (time: − is faster)\n" + rows[0])
	rows = rows[1:]
	for _, id := range order {
		n := len(lines[id])
		b.WriteString(sanitize.Line(id) + "\n" + strings.Join(rows[:n], ""))
		rows = rows[n:]
	}
	b.WriteString("\n")
	written := b.Len()
	for _, legend := range [][2]string{
		{"unclear (", "unclear (N): N runs a side would decide it, if shift and noise are as measured"},
		{"?", "?: a suspect until a second measurement confirms it: add --confirm DIR"},
	} {
		if slices.ContainsFunc(t.Rows, func(r []string) bool { return strings.Contains(r[columnStatus], legend[0]) }) {
			b.WriteString(legend[1] + "\n")
		}
	}
	for _, n := range notes {
		head, text, _ := strings.Cut(n, " ")
		b.WriteString(wrapped(head+" ", sanitize.Line(text)))
	}
	if b.Len() > written {
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Verdict formats how many cases and metrics have each status.
func (c *Comparison) Verdict() string {
	var parts []string
	for _, status := range Statuses() {
		if n := c.Counts[status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, status))
		}
	}
	return strings.Join(parts, ", ")
}

// Notes are the notes of a table, each once, after its mark.
type Notes []string

// Mark returns a line whose status has the mark of its notes.
func (n *Notes) Mark(l Line) Line {
	if len(l.Notes) == 0 {
		return l
	}
	text := " " + strings.Join(l.Notes, "; ")
	i := 0
	for i < len(*n) && (*n)[i] != superscript(i+1)+text {
		i++
	}
	if i == len(*n) {
		*n = append(*n, superscript(i+1)+text)
	}
	l.Cells = slices.Clone(l.Cells)
	l.Cells[columnStatus] += superscript(i + 1)
	return l
}

func superscript(n int) string {
	return strings.Map(func(r rune) rune { return []rune("⁰¹²³⁴⁵⁶⁷⁸⁹")[r-'0'] }, fmt.Sprint(n))
}

// shorten cuts names of rungs off, so that a table has at most width columns.
func shorten(t *table.Table) {
	used := 0
	for i, c := range t.Columns {
		if i == columnAt {
			continue
		}
		widest := utf8.RuneCountInString(c.Name)
		for _, r := range t.Rows {
			widest = max(widest, utf8.RuneCountInString(r[i]))
		}
		used += 2 + widest
	}
	left := max(8, width-used-2)
	for _, r := range t.Rows {
		if at := []rune(r[columnAt]); len(at) > left {
			r[columnAt] = string(at[:left-1]) + "…"
		}
	}
}

// wrapped returns text in lines of at most width columns, the first after a head and the others indented like it.
func wrapped(head, text string) string {
	var b strings.Builder
	line := head
	indent := strings.Repeat(" ", utf8.RuneCountInString(head))
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case utf8.RuneCountInString(line+" "+word) > width:
			b.WriteString(line + "\n")
			line = indent
		default:
			line += " "
		}
		line += word
	}
	return b.String() + line + "\n"
}

// String formats a line such as "library version: 2.27.3 → 2.28.9".
func (d Difference) String() string { return d.Factor + ": " + d.change() }

func (d Difference) change() string {
	list := func(v []string) string {
		if len(v) == 0 {
			return "–"
		}
		return strings.Join(v, ", ")
	}
	return list(d.Old) + " → " + list(d.New)
}

// marked marks a status that a second measurement has not confirmed.
func marked(status string, confirmed bool) string {
	switch {
	case status != Slower && status != Faster:
		return status
	case confirmed:
		return status + " (confirmed)"
	default:
		return status + "?"
	}
}

// enough formats a Shift.Enough.
func enough(runs int) string {
	if runs > MaxEnough {
		return fmt.Sprintf(">%d", MaxEnough)
	}
	return fmt.Sprint(runs)
}

func percent(ratio float64) string { return fmt.Sprintf("%+.1f %%", 100*(ratio-1)) }

func microseconds(us float64) string { return fmt.Sprintf("%.4g", us) }
