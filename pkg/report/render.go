package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/table"

	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sanitize"
)

// MaxMarkdown is GitHub's limit for one step's part of the job summary.
const MaxMarkdown = 1 << 20

// maxCharts limits the charts of one section, which the browser draws.
const maxCharts = 6

// maxTextRows limits the details that a terminal shows.
const maxTextRows = 24

// Text writes the summary for a terminal of width columns, or as wide as it is if width is 0.
func (s *Summary) Text(w io.Writer, width int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", sanitize.Line(s.verdict()))
	for _, sec := range s.sections() {
		b.WriteString("\n" + within(width, sec.Title))
		if sec.Common != "" {
			b.WriteString(within(width, "all rows: "+sec.Common))
		}
		if n := len(sec.Table.Rows); sec.Folded && n > maxTextRows {
			fmt.Fprintf(&b, "  %s: in the JSON form and in the documents\n", table.Plural(n, "row"))
			continue
		}
		b.WriteString(sec.Table.Text(width))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// within returns text as a line, or in lines of at most width columns unless width is 0.
func within(width int, text string) string {
	text = sanitize.Line(text)
	if width > 0 {
		text = strings.Join(table.Wrap(text, width-2), "\n  ")
	}
	return text + "\n"
}

// JSON writes the summary as one line of JSON.
func (s *Summary) JSON(w io.Writer) error {
	data, err := result.Encode(s)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// Markdown writes the summary for GitHub's job page in at most limit bytes. The summary names what does not
// fit.
func (s *Summary) Markdown(w io.Writer, limit int) error {
	b := budget{left: limit - reserve}
	mark := "✅"
	if !s.Passed() {
		mark = "❌"
	}
	b.add(fmt.Sprintf("## CollectiveX\n\n%s **%s**\n", mark, sanitize.Markdown(s.verdict())))
	for _, sec := range s.sections() {
		b.section(sec)
	}
	_, err := io.WriteString(w, b.out.String()+b.farewell())
	return err
}

// reserve is space for naming what was omitted.
const reserve = 512

// budget is Markdown limited in size.
type budget struct {
	out  strings.Builder
	left int
	rows int // omitted rows
	secs int // omitted sections
	pics int // omitted charts
}

func (b *budget) add(s string) bool {
	if len(s) > b.left {
		return false
	}
	b.left -= len(s)
	b.out.WriteString(s)
	return true
}

func (b *budget) section(sec table.Section) {
	open, end := fmt.Sprintf("\n### %s\n\n", sanitize.Markdown(sec.Title)), ""
	if sec.Folded {
		open, end = fmt.Sprintf("\n<details><summary>%s</summary>\n\n", sanitize.HTML(sec.Title)), "\n</details>\n"
	}
	if sec.Note != "" {
		open += sanitize.Markdown(sec.Note) + "\n\n"
	}
	if sec.Common != "" {
		open += "All rows: " + sanitize.Markdown(sec.Common) + "\n\n"
	}
	head, rows := sec.Table.Markdown()
	if len(rows) == 0 || !b.add(open+head+rows[0]) {
		b.secs++
		return
	}
	b.left -= len(end)
	for i, r := range rows[1:] {
		if !b.add(r) {
			b.rows += len(rows) - 1 - i
			break
		}
	}
	for i, c := range sec.Charts {
		if i == maxCharts || !b.add(chart(&c)) {
			b.pics += len(sec.Charts) - i
			break
		}
	}
	b.out.WriteString(end)
}

func (b *budget) farewell() string {
	var left []string
	for _, l := range []struct {
		n    int
		what string
	}{{b.rows, "row"}, {b.secs, "section"}, {b.pics, "chart"}} {
		if l.n > 0 {
			left = append(left, table.Plural(l.n, l.what))
		}
	}
	if len(left) == 0 {
		return ""
	}
	return fmt.Sprintf("\nLeft out of this page: %s. The NDJSON of the run has everything.\n", strings.Join(left, ", "))
}

// chart formats a chart as a Mermaid block. Mermaid reads no exponents, so values are scaled by a prefix of
// the unit.
func chart(c *table.Chart) string {
	scale, prefix := 1.0, ""
	if top := slices.Max(c.Values); top >= 1e6 {
		scale, prefix = 1e6, "M "
	} else if top >= 1e4 {
		scale, prefix = 1e3, "k "
	}
	labels := make([]string, len(c.Labels))
	values := make([]string, len(c.Values))
	for i := range c.Labels {
		labels[i] = quoted(c.Labels[i])
		values[i] = table.Significant(c.Values[i] / scale)
	}
	return fmt.Sprintf("\n```mermaid\n%s\nxychart-beta\n  title %s\n  x-axis %s [%s]\n  y-axis %s 0 --> %s\n  line [%s]\n```\n",
		chartTheme, quoted(c.Title), quoted(c.X), strings.Join(labels, ", "), quoted(prefix+c.Y),
		table.Significant(1.05*slices.Max(c.Values)/scale), strings.Join(values, ", "))
}

// chartTheme gives the line a colour that is visible on light and dark pages.
const chartTheme = `%%{init: {"themeVariables": {"xyChart": {"plotColorPalette": "#2f81f7"}}}}%%`

// quoted returns s as a string of Mermaid. Mermaid has no escape for a quote, so quotes become apostrophes.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`"`, "'", "`", "'").Replace(sanitize.Line(s)) + `"`
}
