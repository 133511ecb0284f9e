package bench

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sanitize"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Table prints documents in the format of nccl-tests, so that programs that parse nccl-tests' output
// can parse it. Lines that begin with # are for people.
type Table struct {
	w       io.Writer
	r       *Request
	begun   bool     // the library has been printed
	rows    int      // printed rows of the current case
	skipped []string // the reason of each case that was not started
	narrow  bool     // has fewer columns, for a terminal, whose output no program parses
}

// NewTable returns a table for the documents of a request.
func NewTable(w io.Writer, r *Request) *Table { return &Table{w: w, r: r} }

// head returns the lines printed before anything runs. place names the backend and the reason.
func (t *Table) head(place string, world int) string {
	var w strings.Builder
	c, m := &t.r.Shape, t.r.Shape.Measure
	first, last := c.Sizes[0], c.Sizes[len(c.Sizes)-1]
	fmt.Fprintf(&w, "%s %s\n", t.r.Name(), place)
	if t.narrow {
		fmt.Fprintf(&w, "# fewer columns than nccl-tests, for this terminal; pipes get all\n")
	} else {
		fmt.Fprintf(&w, "# nccl-tests compatible columns\n")
	}
	fmt.Fprintf(&w, "# ranks %d minBytes %d maxBytes %d sizes: %d warmup iters: %d iters: %d agg iters: %d graph: %d unalign: %d trials: %d\n",
		world, first, last, len(c.Sizes), m.Warmup, m.Iterations, m.Aggregate, t.graphs(), c.Unalign, m.Trials)
	if n := len(c.Groups); n > 0 {
		fmt.Fprintf(&w, "# %d groups of %s run at once, each with a row (%s)\n", n, plural.Count(len(c.Groups[0]), "rank", "ranks"), split)
	}
	fmt.Fprintf(&w, "# timing: %s, across ranks: %s, buffers: %s, registration: %s\n", t.timing(), t.r.View.Across, c.Buffers, c.Registration)
	if v := t.r.View; v.Percentiles && m.Samples(v.Mode) < result.MinForP99 || v.PerIteration && m.Samples(vocab.PerIteration) < result.MinForP99 {
		fmt.Fprintf(&w, "# percentiles of too few samples are N/A: p90 needs 10, p95 20 and p99 100 windows (--trials), or iterations with -I or -z 3\n")
	}
	fmt.Fprintf(&w, "# checked bit for bit: results that timed windows leave, and all results of one untimed window")
	if t.r.View.Messages > 0 {
		fmt.Fprintf(&w, "; messages are counted where they arrive")
	}
	return w.String()
}

func (t *Table) graphs() int {
	if t.r.View.Mode == vocab.Graph {
		return t.r.Shape.Measure.Launches
	}
	return 0
}

func (t *Table) timing() string {
	text := map[string]string{
		vocab.Pipelined: "pipelined (-z 0: operations back to back)",
		vocab.Blocking:  "blocking (-z 3: one by one, from a common start)",
		vocab.Graph:     "graph (-G: captured once; the upload is not timed)",
	}[t.r.View.Mode]
	if wait := t.r.Shape.Measure.Wait; wait != "" {
		text = map[string]string{
			vocab.WaitBarrier:   "pipelined (-z 1: each time includes a wait and a barrier)",
			vocab.WaitOperation: "pipelined (-z 2: each time includes a wait)",
		}[wait]
	}
	if skip := t.r.Shape.Measure.Skip; skip > 0 {
		text += fmt.Sprintf(", i_ columns without the first %s of a window (-K)", plural.Count(skip, "iteration", "iterations"))
	}
	if t.r.Shape.NullStream {
		text += ", null stream (-y 1)"
	}
	if t.r.View.CPUTime {
		text += ", host's time to enqueue in the time column"
	}
	return text
}

// Grow prints the sizes of a running case that are complete and not yet printed. It stops at a size whose times
// are in doubt, since the case repeats windows of it at its end.
func (t *Table) Grow(d *collective.Document) {
	for {
		rows := t.next(d)
		if len(rows) < len(t.r.Shape.Placements) || slices.ContainsFunc(rows, func(r collective.Row) bool { return !r.Complete || len(r.Check.Reasons) > 0 }) {
			return
		}
		t.line(d, rows)
	}
}

// Document prints the remaining rows of a case, and the reasons for missing rows.
func (t *Table) Document(d *collective.Document) {
	for rows := t.next(d); len(rows) > 0; rows = t.next(d) {
		t.line(d, rows)
	}
	if text := t.r.missing(d); text != "" {
		fmt.Fprintf(t.w, "# INCOMPLETE %s: %s\n", where(d), text)
	}
	for _, x := range d.Workload.Excluded {
		if x.What != vocab.InPlace { // nccl-tests prints N/A in its columns
			fmt.Fprintf(t.w, "# not measured: %s: %s\n", sanitize.Line(x.What), sanitize.Line(x.Reason.String()))
		}
	}
	for _, s := range d.Workload.SizesDropped {
		fmt.Fprintf(t.w, "# not measured: %d bytes: %s\n", s.Bytes, sanitize.Line(s.Reason.String()))
	}
	switch {
	case d.Outcome.Status == result.Success, t.r.notOffered(d): // Foot names the algorithms that are not offered
	case len(d.Measurement.Rows) == 0 && bench.Skipped(d.Outcome):
		t.skipped = append(t.skipped, d.Outcome.Reasons.String())
	case t.r.lenient() || !bench.Lacking(d.Outcome): // a missing capability that was requested by name ends the program with its own message
		fmt.Fprintf(t.w, "# %s %s: %s\n", strings.ToUpper(d.Outcome.Status), where(d), sanitize.Line(d.Outcome.Reasons.String()))
		if text := wrongElements(d.Measurement.Rows); text != "" {
			fmt.Fprintf(t.w, "# %s\n", text)
		}
	}
	t.rows = 0
}

// wrongElements returns a line with the number of wrong elements of a case and the first row that has
// any, or "" if none is wrong. The reasons of a document lack these numbers.
func wrongElements(rows []collective.Row) string {
	var wrong, checked int64
	var in int
	first := ""
	for i := range rows {
		r := &rows[i]
		checked += r.Check.Checked
		if r.Check.Wrong == 0 {
			continue
		}
		wrong += r.Check.Wrong
		if in++; in > 1 {
			continue
		}
		first = fmt.Sprintf("%d bytes %s", r.Bytes, strings.ReplaceAll(r.Placement, "_", " "))
		if r.Src != nil && r.Dst != nil {
			first += fmt.Sprintf(" from rank %d to %d", *r.Src, *r.Dst)
		}
	}
	if in == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %s wrong, in %d of %s, the first with %s", wrong, plural.Count(int(checked), "element", "elements"), in, plural.Count(len(rows), "row", "rows"), first)
}

// next returns the rows of the next size: one for each placement. Each pair of a pairwise
// operation and each group has its own rows.
func (t *Table) next(d *collective.Document) []collective.Row {
	rows := d.Measurement.Rows[t.rows:]
	return rows[:inLine(len(rows), func(i int) *collective.Row { return &rows[i] })]
}

// inLine returns how many of n rows are in the line of the first.
func inLine(n int, row func(i int) *collective.Row) int {
	for i := 1; i < n; i++ {
		if first := row(0); first.Src != nil || row(i).Requested != first.Requested || !slices.Equal(row(i).Group, first.Group) {
			return i
		}
	}
	return n
}

// library prints the library of the first document that reports it, and the column headings.
func (t *Table) library(d *collective.Document) {
	t.begun = true
	library := "none"
	if l := d.Runtime.CollectiveLibrary; l != nil {
		library = l.Kind
		if l.Version != nil {
			library += " " + *l.Version
		}
	}
	fmt.Fprintf(t.w, "# library %s on %s\n", sanitize.Line(library), sanitize.Line(d.Runtime.AcceleratorRuntime))
	t.columns()
}

// fit makes the table narrow if it is wider than a terminal of this width. Call it before head.
func (t *Table) fit(width int) {
	full := 118 + 18*len(t.r.View.extraNames())
	if t.r.Op.Pairwise() {
		full += 12
	}
	if t.r.View.Messages > 0 {
		full += 10
	}
	if t.r.View.Timestamps {
		full += 21
	}
	if w := t.groupWidth(); w > 0 {
		full += 2 + w
	}
	t.narrow = width < full
}

// halves returns the placements that have columns. A narrow table leaves out one that nothing is measured in.
func (t *Table) halves() []string {
	if t.narrow {
		return t.r.Shape.Placements
	}
	return []string{vocab.OutOfPlace, vocab.InPlace}
}

// prefix returns the columns before the figures. A narrow table has only the size; a line above has the others.
func (t *Table) prefix(size, count, dtype, redop, root string) string {
	if t.narrow {
		return fmt.Sprintf("%10s", size)
	}
	return fmt.Sprintf("%10s  %12s  %8s  %6s  %6s", size, count, dtype, redop, root)
}

// columns prints the column headings in the widths of nccl-tests.
func (t *Table) columns() {
	extra := t.r.View.extraNames()
	time := "time"
	if t.r.View.CPUTime {
		time = "cputime"
	}
	half := func(time, algbw, busbw, wrong string, extra []string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "  %7s  %6s  %6s  %6s", time, algbw, busbw, wrong)
		for _, e := range extra {
			fmt.Fprintf(&b, "  %7s", e)
		}
		return b.String()
	}
	units := slices.Repeat([]string{"(us)"}, len(extra))
	titles, heads, below := "", "", ""
	for i, placement := range t.halves() {
		title := map[string]string{vocab.OutOfPlace: "           out-of-place", vocab.InPlace: "             in-place          "}[placement]
		titles = fmt.Sprintf("%-*s%s", i*(33+9*len(extra)), titles, title)
		heads += half(time, "algbw", "busbw", "#wrong", extra)
		below += half("(us)", "(GB/s)", "(GB/s)", "", units)
	}
	if t.r.Op.Pairwise() {
		heads += fmt.Sprintf("  %4s  %4s", "src", "dst")
		below += strings.Repeat(" ", 12)
	}
	if t.r.View.Messages > 0 {
		heads += fmt.Sprintf("  %8s", "msgrate")
		below += fmt.Sprintf("  %8s", "(M/s)")
	}
	if w := t.groupWidth(); w > 0 {
		heads += fmt.Sprintf("  %*s", w, "ranks")
		below += strings.Repeat(" ", 2+w)
	}
	if t.r.View.Timestamps {
		heads += fmt.Sprintf("  %19s", "timestamp")
		below += fmt.Sprintf("  %19s", "%Y-%m-%d %H:%M:%S")
	}
	fmt.Fprintf(t.w, "#\n# %s%s\n", t.prefix("", "", "", "", ""), titles)
	fmt.Fprintf(t.w, "# %s%s\n", t.prefix("size", "count", "type", "redop", "root"), heads)
	fmt.Fprintf(t.w, "# %s%s\n", t.prefix("(B)", "(elements)", "", "", ""), below)
}

// line prints a size: its row out of place and its row in place, if any.
func (t *Table) line(d *collective.Document, rows []collective.Row) {
	if !t.begun {
		t.library(d)
	}
	if (t.narrow || variant(d) != "") && t.rows == 0 {
		fmt.Fprintf(t.w, "# %s\n", where(d))
	}
	t.rows += len(rows)
	fmt.Fprint(t.w, "  "+t.prefix(strconv.FormatInt(rows[0].Bytes, 10), strconv.FormatInt(rows[0].Count, 10), d.Measurement.DType, cmp.Or(d.Measurement.RedOp, noRedOp), strconv.Itoa(t.r.rootOf(d))))
	for _, placement := range t.halves() {
		var row *collective.Row
		for i := range rows {
			if rows[i].Placement == placement {
				row = &rows[i]
			}
		}
		t.half(row)
	}
	if src, dst := rows[0].Src, rows[0].Dst; src != nil && dst != nil {
		fmt.Fprintf(t.w, "  %4d  %4d", *src, *dst)
	}
	if f, timed := t.r.View.Figures(&rows[0]); t.r.View.Messages > 0 {
		rate := "N/A"
		if timed {
			rate = strconv.FormatFloat(f.Rate/1e6, 'g', 4, 64)
		}
		fmt.Fprintf(t.w, "  %8s", rate)
	}
	if group := rows[0].Group; group != nil {
		fmt.Fprintf(t.w, "  %*s", t.groupWidth(), listed(group))
	}
	if t.r.View.Timestamps {
		fmt.Fprintf(t.w, "  %19s", ended(rows))
	}
	for i := range rows {
		if percent, is := t.r.View.slow(d.Measurement.Rows, &rows[i]); is {
			fmt.Fprintf(t.w, "  slow: %.0f %% below the median", percent)
			break
		}
	}
	fmt.Fprintln(t.w)
}

// groupWidth returns the width of the column with the ranks of a group; 0 without groups.
func (t *Table) groupWidth() (width int) {
	for _, group := range t.r.Shape.Groups {
		width = max(width, len(listed(group)), len("ranks"))
	}
	return width
}

// ended returns when the last of the rows had been measured, in nccl-tests' format, or "N/A".
func ended(rows []collective.Row) string {
	var last time.Time
	for i := range rows {
		if at, err := time.Parse(time.RFC3339, rows[i].EndedAt); err == nil && at.After(last) {
			last = at
		}
	}
	if last.IsZero() {
		return "N/A"
	}
	return last.Local().Format(time.DateTime)
}

// rootOf returns the root of a document as nccl-tests prints it: -1 if there is none.
func (r *Request) rootOf(d *collective.Document) int {
	if r.Op.Rooted() {
		return d.Measurement.Root
	}
	return -1
}

// half prints one placement; row is nil if it was not measured.
func (t *Table) half(row *collective.Row) {
	var f Figures
	timed := false
	if row != nil {
		f, timed = t.r.View.Figures(row)
	}
	if !timed {
		fmt.Fprintf(t.w, "  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A")
		for range t.r.View.extraNames() {
			fmt.Fprintf(t.w, "  %7s", "N/A")
		}
		return
	}
	wrong := "N/A" // no wrong elements, but the check is incomplete, or there was nothing to check
	if row.Check.Counted() {
		wrong = strconv.FormatFloat(float64(row.Check.Wrong), 'g', 6, 64)
	}
	fmt.Fprintf(t.w, "  %s  %s  %s  %6s", fixed(f.TimeUS, 7), fixed(f.AlgBW, 6), fixed(f.BusBW, 6), wrong)
	for _, v := range t.r.View.extras(row) {
		if v == nil {
			fmt.Fprintf(t.w, "  %7s", "N/A")
			continue
		}
		fmt.Fprintf(t.w, "  %s", fixed(*v, 7))
	}
}

// fixed formats v in width characters with as many decimals as fit, at most two, as nccl-tests
// does.
func fixed(v float64, width int) string {
	for decimals := 2; decimals >= 0; decimals-- {
		if s := fmt.Sprintf("%*.*f", width, decimals, v); len(s) <= width {
			return s
		}
	}
	return fmt.Sprintf("%*.1e", width, v)
}

// noRedOp is what nccl-tests prints for operations that reduce nothing.
const noRedOp = "none"

// Foot prints the totals of a report of the same documents, and the time until the first timed
// operation.
func (t *Table) Foot(p *Report) {
	for _, why := range slices.Compact(slices.Sorted(slices.Values(t.skipped))) {
		n := len(slices.DeleteFunc(slices.Clone(t.skipped), func(s string) bool { return s != why }))
		fmt.Fprintf(t.w, "# %d of the cases: %s\n", n, sanitize.Line(why))
	}
	wrong, mean := "N/A", "N/A" // nothing was checked
	if p.counted {
		wrong = strconv.FormatInt(p.OutOfBounds, 10)
	}
	if p.AvgBusBW != nil {
		mean = strconv.FormatFloat(*p.AvgBusBW, 'g', 6, 64)
	}
	if c := p.Results; len(c) > 0 && c[0].PlanSHA256 != "" && c[0].Program != nil {
		fmt.Fprintf(t.w, "# %-20s : SHA-256 %s; every rank ran it, with %s\n", t.r.By.File, c[0].PlanSHA256,
			plural.Count(c[0].Program.Messages, "message", "messages"))
	}
	for _, a := range p.Algorithms {
		a.show(t.w, t.r.Name())
	}
	for i := range p.Matrices {
		m := &p.Matrices[i]
		m.Print(t.w, m.Case)
	}
	p.totals.show(t.w, t.r)
	for _, line := range p.Slow {
		fmt.Fprintf(t.w, "# slow: %s\n", line)
	}
	fmt.Fprintf(t.w, "# %-20s : %s %s\n", "Out of bounds values", wrong, p.verdict())
	fmt.Fprintf(t.w, "# %-20s : %s \n", "Avg bus bandwidth", mean)
	if p.AvgBusBW != nil {
		fmt.Fprintf(t.w, "# (a plain mean over all sizes, small and large: compare sizes one by one, or use --min-busbw)\n")
	}
	if p.SinceStart != nil {
		fmt.Fprintf(t.w, "# %-20s : %.2f s\n", "start to first timed op", *p.SinceStart)
	}
	fmt.Fprintf(t.w, "#\n")
}

// verdict returns the result of the checks of all rows.
func (p *Report) verdict() string {
	switch {
	case p.failed || p.shown == 0:
		return "FAILED"
	case p.unfinished:
		return "INCOMPLETE"
	case !p.counted:
		return "UNCHECKED"
	default:
		return "OK"
	}
}

// unfinished reports whether a case ended before it was measured. If all operations, types or reductions
// were requested, it ignores cases that the library does not support.
func (r *Request) unfinished(o result.Outcome) bool {
	return o.Status == result.Failed && !(r.lenient() && bench.Lacking(o))
}

// missing returns the numbers of rows (size and placement) that lack trials, or "" if all rows are
// complete.
func (r *Request) missing(d *collective.Document) string {
	rows := map[int]int{} // by trials
	for i := range d.Measurement.Rows {
		if row := &d.Measurement.Rows[i]; !row.Complete {
			rows[r.trials(row)]++
		}
	}
	var parts []string
	for _, trials := range slices.Sorted(maps.Keys(rows)) {
		parts = append(parts, fmt.Sprintf("%d of %s in %d of %s", trials, plural.Count(r.Shape.Measure.Trials, "trial", "trials"), rows[trials], plural.Count(len(d.Measurement.Rows), "row", "rows")))
	}
	return strings.Join(parts, ", ")
}

// trials returns the number of trials that a row has in all modes that the columns show.
func (r *Request) trials(row *collective.Row) int {
	fewest := r.Shape.Measure.Trials
	for _, mode := range r.Shape.Modes {
		if t := *row.Timing(mode); t == nil {
			fewest = 0
		} else {
			fewest = min(fewest, t.SampleCount/r.Shape.Measure.SamplesPerTrial(mode))
		}
	}
	return fewest
}
