package page

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/table"
)

// markup is HTML. A constant is markup as it is, and any other text becomes markup through mark, which escapes it. Only
// the script and the styles are converted.
type markup string

// mark returns m with the values in the places of its {}. It escapes values that are not markup, for text and for
// attributes in double quotes.
func mark(m markup, values ...any) markup {
	var b strings.Builder
	for _, v := range values {
		before, after, _ := strings.Cut(string(m), "{}")
		m = markup(after)
		inner, ok := v.(markup)
		if !ok {
			inner = markup(escape.Replace(fmt.Sprint(v)))
		}
		b.WriteString(before + string(inner))
	}
	return markup(b.String()) + m
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;", "+", "&#43;", "\x00", "\uFFFD")

// when returns m if it applies.
func when(applies bool, m markup) markup {
	if applies {
		return m
	}
	return ""
}

// each returns m for each value.
func each(m markup, values []string) (out markup) {
	for _, v := range values {
		out += mark(m, v)
	}
	return out
}

// writer writes the body of the page.
type writer struct {
	bytes.Buffer
	*Page
}

func (w *writer) put(m markup, values ...any) { w.WriteString(string(mark(m, values...))) }

// table writes a table. The script sorts the rows of each body.
func (w *writer) table(label, name string, columns []table.Column, bodies ...[]Row) {
	class := func(c table.Column) markup { return when(c.Right, ` class="figure"`) }
	w.put("\n"+`<div class="scroll" tabindex="0" role="group" aria-label="{}"><table data-name="{}">`+"\n<thead><tr>", label, name)
	for _, c := range columns {
		w.put(`<th scope="col"{}>{}</th>`, class(c), c.Name)
	}
	w.put("</tr></thead>")
	for _, body := range bodies {
		w.put("\n<tbody>")
		for _, row := range body {
			w.put("\n<tr{}>", when(row.Bad, ` class="bad"`))
			for i, cell := range row.Cells {
				var attributes markup
				if f, ok := cell.(Figure); ok {
					attributes, cell = mark(` data-value="{}"`, f.Value)+when(f.Title != "", mark(` title="{}"`, f.Title)), f.Text
				}
				if columns[i].Strong {
					cell = mark("<b>{}</b>", cell)
				}
				w.put("<td{}{}>{}</td>", class(columns[i]), attributes, cell)
			}
			w.put("</tr>")
		}
		w.put("\n</tbody>")
	}
	w.put("\n</table></div>")
}

// texts returns rows of texts.
func texts(cells [][]string) []Row {
	out := make([]Row, len(cells))
	for i := range cells {
		for _, text := range cells[i] {
			out[i].Cells = append(out[i].Cells, text)
		}
	}
	return out
}

func (w *writer) head(css, policy string) {
	w.put(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>CollectiveX report</title>
<style>{}</style>
</head>
<body>
<h1>CollectiveX report</h1>
<nav aria-label="parts of the page">`, policy, markup(css))
	w.put(when(len(w.Comparisons) > 0, `<a href="#comparison">Comparison</a> `))
	w.put(when(len(w.Trends) > 0, `<a href="#trend">Trend</a> `))
	for _, v := range w.Views {
		w.put(`<a href="#view-{}">{}</a> `, v.Name, v.Title)
	}
	w.put(`<a href="#runs">Runs</a> <a href="#coverage">Coverage</a> <a href="#provenance">Provenance</a>
<input type="search" id="search" placeholder="search cases" aria-label="search cases" hidden>
<button type="button" id="theme" hidden>dark or light</button>
</nav>

<main>`)
}

func (w *writer) glance() {
	w.put("\n" + `<section id="glance" aria-label="at a glance">`)
	w.put(each("\n"+`<p class="machine">{}</p>`, w.Machines()))
	w.put("\n" + `<ul class="verdicts">`)
	for _, r := range w.Runs {
		w.put("\n"+`<li><b>{}</b> <a href="#coverage">{}</a></li>`, r.Name, r.Verdict())
	}
	for _, c := range w.Comparisons {
		w.put("\n"+`<li><b>{}</b> against <b>{}</b>: <a href="#comparison">{}</a></li>`, c.Run, c.First, c.Verdict)
	}
	w.put("\n</ul>")
	w.put(when(len(w.Views) == 0, "\n<p>No document has a figure.</p>"))
	for _, s := range w.Headlines {
		w.put("\n"+`<details open><summary title="{}">{}{}</summary>`, s.Note, s.Title, when(s.Common != "", mark(` <span class="note">({})</span>`, s.Common)))
		w.table(s.Title, "headlines", s.Table.Columns, texts(s.Table.Rows))
		w.put("\n</details>")
	}
	w.put("\n</section>\n")
}

// more says how many rows are left out.
func more(n int) markup {
	return when(n > 0, mark(" {} left out.", plural.Count(n, "more row is", "more rows are")))
}

func (w *writer) comparison() {
	w.put("\n" + `<section id="comparison">` + "\n<h2>Comparison of runs</h2>")
	for _, c := range w.Comparisons {
		title := c.Run + " against " + c.First
		w.put("\n<h3>{}</h3>\n"+`<p class="note">As <code>cxrun compare</code> judges cases; docs/compare.md says how. An effect below 3 % does not count. With fewer than five repeats a side, a change has no error and decides nothing. A question mark marks an effect that no second measurement has confirmed.{}{}</p>`,
			title, each(" {}.", c.Beside), more(c.More))
		w.put(each("\n"+`<p class="note">{}</p>`, c.Notes))
		w.table(title, "comparison", table.Text(w.Heads()...), texts(c.Rows))
	}
	w.put("\n</section>\n")
}

func (w *writer) trend() {
	w.put("\n"+`<section id="trend">
<h2>Trend over runs</h2>
<p class="note">The time of each run, oldest first: the lowest bar is the shortest time, the highest one the longest, but at least 10 % above it. The change is that of the last run from the median of the runs before it.{}</p>`,
		more(w.MoreTrends))
	w.table("trend", "trend", slices.Concat(table.Text("case", "metric", "at", "trend"), table.Figures("runs", "last µs", "change")), texts(w.Trends))
	w.put("\n</section>\n")
}

func (w *writer) view(v *View, picture []byte) {
	banner := w.Banner(*v)
	w.put("\n"+`<section class="view" id="view-{}">
<h2>{}</h2>
<p class="note">{}</p>
<p class="banner" role="status"{}>{}</p>
<figure><img src="data:image/svg+xml;base64,{}" alt="{}: a chart of the figures in the tables below"></figure>`,
		v.Name, v.Title, v.Note, when(len(banner) == 0, " hidden"), each("<span>{}</span>", banner), base64.StdEncoding.EncodeToString(picture), v.Title)
	w.series(v)
	w.rungs(v)
	w.put("\n</section>\n")
}

// series writes the table of all series of a view.
func (w *writer) series(v *View) {
	what := "Latency and rate are at p50,"
	if v.Time != "" {
		what = "Time and rate are"
	}
	common, unlisted := v.Common(), v.Unlisted()
	w.put("\n<details><summary>All {} series</summary>\n"+`<p class="note">{} of the best rung. Rows of one comparison key and one way of measuring stay together.{}{}</p>`,
		len(v.Listed()), what, when(common != "", mark(" All rows: {}.", common)), when(unlisted > 0, mark(" {} in the charts and in the NDJSON.", plural.Count(unlisted, "more series is", "more series are"))))
	columns := slices.Concat(table.Text(v.Columns()...), table.Text("status"), table.Figures("rungs", "lowest "+v.TimeTitle()+" µs"))
	if len(v.Rates) > 0 {
		columns = append(columns, table.Figures(strings.TrimSpace("highest "+v.Rates[0].Title+" "+v.Rates[0].Unit))...)
	}
	w.table(v.Title+": series", v.Name+"-series", append(columns, table.Text("comparison key")...), w.Groups(*v)...)
	w.put("\n</details>")
}

// rungs writes the table of all rungs of a view, unless there are too many.
func (w *writer) rungs(v *View) {
	rungs := w.Rungs(*v)
	if len(rungs) == 0 {
		return
	}
	var figures []string
	for _, name := range v.Quantiles() {
		figures = append(figures, name+" µs")
	}
	for _, r := range v.Rates {
		figures = append(figures, strings.TrimSpace(r.Title+string(when(v.Time == "" && !r.Given, " at p50"))+" "+r.Unit))
	}
	if v.Time == "" {
		figures = append(figures, "samples")
	}
	w.put("\n<details><summary>Every rung</summary>")
	w.table(v.Title+": rungs", v.Name+"-rungs", slices.Concat(table.Text(v.Columns()...), table.Text(v.X.Title, "state"), table.Figures(figures...)), rungs...)
	w.put("\n</details>")
}

// runs writes the table of runs. left names what the data leaves out.
func (w *writer) runs(left string) {
	w.put("\n" + `<section id="runs">` + "\n<h2>Runs</h2>")
	var rows []Row
	for _, r := range w.Runs {
		var missing any = "unknown"
		if r.Planned {
			missing = r.Count.Missing
		}
		rows = append(rows, Row{Cells: []any{r.Name, r.ID, r.First, r.Asked(), r.Count.Success, r.Count.Invalid, r.Count.Failed, missing, r.Count.Unsupported, r.Count.Attempts}})
	}
	w.table("runs", "runs", slices.Concat(table.Text("run", "id", "first document"),
		table.Figures("cases", "passed", "invalid", "failed", "missing", "unsupported", "attempts")), rows)
	w.put(when(left != "", mark("\n"+`<p class="note">To stay below 10 MB, the charts leave out {}. The NDJSON has them.</p>`, left)))
	w.put("\n</section>")
}

func (w *writer) coverage() {
	w.put("\n"+`<section id="coverage">
<h2>Coverage</h2>
<p class="note">Each case of each run, and its outcome. Cases without a document are only known for runs whose matrix was given.</p>
<details{}><summary>{}</summary>`, when(len(w.Coverage) < 200, " open"), plural.Count(len(w.Coverage), "row", "rows"))
	var cases, files []Row
	for _, c := range w.Coverage {
		cases = append(cases, Row{Cells: []any{c.Run, c.State, c.SKU, c.Backend, c.ID, c.Reason, c.Measured, c.Asked, c.Attempts, c.Repeats}})
	}
	for _, r := range w.Rejected {
		files = append(files, Row{Cells: []any{r.Reason, r.Files}})
	}
	w.table("coverage", "coverage", slices.Concat(table.Text("run", "state", "SKU", "backend", "case", "reason"),
		table.Figures("rungs passed", "requested", "attempts", "repeats")), cases)
	w.put("\n</details>")
	if len(files) > 0 {
		w.put("\n<h3>Files left out</h3>")
		w.table("files left out", "files", slices.Concat(table.Text("what is wrong"), table.Figures("files")), files)
	}
	w.put("\n</section>")
}

func (w *writer) provenance() {
	w.put("\n" + `<section id="provenance">
<h2>Provenance</h2>
<p class="note">The machines and software of the cases. Each chart has a table of the provenance of its series.</p>`)
	var rows []Row
	for _, o := range w.Origins {
		facts := make([]string, len(o.Facts))
		for i, f := range o.Facts {
			facts[i] = f.Name + ": " + f.Value
		}
		rows = append(rows, Row{Cells: []any{o.Cases, strings.Join(facts, "; ")}})
	}
	w.table("provenance", "provenance", slices.Concat(table.Figures("cases"), table.Text("facts")), rows)
	w.put("\n</section>")
}
