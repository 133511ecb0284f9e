package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/result"
)

// section is one part of a summary, the same for every form of it.
type section struct {
	title  string
	note   string
	table  *table
	keys   int // leading columns of the table that tell its rows apart
	common string
	charts []chart
	folded bool // details
}

// liftCommon takes the key columns that are equal in all rows out of the table
// and names them once.
func (s *section) liftCommon() {
	var common []string
	for i := s.keys - 1; i >= 0; i-- {
		value := s.table.rows[0][i]
		if slices.ContainsFunc(s.table.rows, func(r []string) bool { return r[i] != value }) {
			continue
		}
		if value != "" {
			common = append(common, s.table.columns[i].name+" "+value)
		}
		s.table.remove(i)
	}
	slices.Reverse(common)
	s.common = strings.Join(common, ", ")
}

// chart is one series over labelled positions. Charts have no logarithmic axis
// and no legend, so that latencies, which need both, stand in tables.
type chart struct {
	title  string
	x, y   string
	labels []string
	values []float64
}

func (s *Summary) sections() []section {
	all := []section{
		s.failedSection(), s.missingSection(), s.rejectedSection(), s.unrequestedSection(),
		s.warningSection(), s.arithmeticSection(), s.epSection(),
	}
	all = append(all, s.collectiveSections()...)
	all = append(all, s.pairSection(), s.machineSection(), s.epLadder())
	all = append(all, s.collectiveLadders()...)
	all = append(all, s.pairSquares()...)
	all = append(all, s.unsupportedSection())
	all = slices.DeleteFunc(all, func(s section) bool { return len(s.table.rows) == 0 })
	for i := range all {
		all[i].liftCommon()
		all[i].table.dropEmpty()
	}
	return all
}

// verdict is the first line of every form.
func (s *Summary) verdict() string {
	c := s.Counts
	asked := c.Cases
	if s.Requests != nil {
		asked = s.Requests.Cases
	}
	parts := []string{fmt.Sprintf("%d of %s passed", c.Success, plural(asked, "case"))}
	for _, p := range []struct {
		n    int
		what string
	}{{c.Failed, "failed"}, {c.Invalid, "invalid"}, {c.Missing, "without a document"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	unsupported := c.Unsupported
	if s.Requests != nil {
		unsupported += s.Requests.Unsupported
	}
	if unsupported > 0 {
		parts = append(parts, fmt.Sprintf("%d unsupported", unsupported))
	}
	if extra := c.Attempts - c.Cases; extra > 0 {
		parts = append(parts, plural(extra, "further attempt"))
	}
	line := strings.Join(parts, ", ")
	if len(s.Runs) == 1 && s.Runs[0] != "" {
		line = "run " + s.Runs[0] + ": " + line
	}
	return line
}

func (s *Summary) failedSection() section {
	t := &table{columns: append(text("cell", "case", "status", "reason"), figure("rows", "attempts")...)}
	for _, f := range s.Failed {
		t.rows = append(t.rows, []string{
			f.Cell, f.CaseID, f.Status, strings.Join(f.Reasons, "; "),
			fmt.Sprintf("%d of %d", f.Measured, f.Asked), strconv.Itoa(f.Attempts),
		})
	}
	return section{title: "Failed cases", table: t}
}

func (s *Summary) missingSection() section {
	t := &table{columns: text("cell", "case")}
	for _, m := range s.Missing {
		t.rows = append(t.rows, []string{m.Cell, m.CaseID})
	}
	return section{
		title: "Cases without a document", table: t,
		note: "The cell ended without writing one: its log says why.",
	}
}

func (s *Summary) warningSection() section {
	t := &table{columns: append(text("warning", "first case"), figure("cases")...)}
	for _, w := range s.Warnings {
		t.rows = append(t.rows, []string{w.Text, w.Cases[0], strconv.Itoa(len(w.Cases))})
	}
	return section{title: "Warnings", table: t, note: "The figures stand, and the devices were not at their best or not seen."}
}

func (s *Summary) unrequestedSection() section {
	t := &table{columns: text("case")}
	for _, id := range s.Unrequested {
		t.rows = append(t.rows, []string{id})
	}
	return section{title: "Cases that nobody asked for", table: t}
}

func (s *Summary) rejectedSection() section {
	t := &table{columns: append(text("what is wrong"), figure("files")...)}
	for _, r := range s.Rejected {
		t.rows = append(t.rows, []string{r.Reason, strconv.Itoa(r.Files)})
	}
	return section{title: "Files left out", table: t, note: "The log names them."}
}

func (s *Summary) unsupportedSection() section {
	t := &table{columns: text("case", "reason", "detail")}
	for _, u := range s.Unsupported {
		t.rows = append(t.rows, []string{u.CaseID, u.Reason, u.Detail})
	}
	return section{title: "Unsupported cases", table: t, folded: true}
}

func (s *Summary) machineSection() section {
	t := &table{columns: append(text("SKU", "backend", "device", "framework", "runtime", "library"), figure("cases")...)}
	for _, m := range s.Machines {
		t.rows = append(t.rows, []string{m.SKU, m.Backend, m.Device, m.Framework, m.Runtime, m.Library, strconv.Itoa(m.Cases)})
	}
	return section{title: "Measured on", table: t}
}

// epKeys are the columns that tell EP cases apart.
var epKeys = text("SKU", "backend", "mode", "phase", "routing", "dispatch", "EP")

func (e *EP) keys() []string {
	return []string{e.SKU, e.Backend, e.Mode, e.Phase, e.Routing, e.Dispatch, strconv.Itoa(e.World)}
}

func (s *Summary) epSection() section {
	t := &table{columns: slices.Concat(epKeys, figure("T"), []column{{name: "pair period µs", right: true, strong: true}},
		figure("p99", "dispatch µs", "combine µs", "roundtrip µs", "tokens/s", "dispatch GB/s", "combine GB/s", "max error"), text("not measured"))}
	for _, e := range s.EP {
		if len(e.Rungs) == 0 {
			continue
		}
		p := e.Rungs[e.Headline]
		us, pair := p.headline()
		mark := ""
		if !pair {
			mark = " (roundtrip)"
		}
		t.rows = append(t.rows, append(e.keys(), strconv.Itoa(p.TokensPerRank),
			orDash(p50(us))+mark, orDash(p99(us)), orDash(p50(p.DispatchTime)), orDash(p50(p.CombineTime)),
			orDash(p50(p.Roundtrip)), rate(p.TokenRate), orDash(p.DispatchGBps), orDash(p.CombineGBps),
			strconv.FormatFloat(e.MaxError, 'g', 2, 64), e.dropped()))
	}
	return section{
		title: "Expert parallel dispatch and combine", table: t, keys: len(epKeys),
		note: fmt.Sprintf("At T = %d tokens per rank, else the middle of the ladder. Times are p50 but for the column p99. "+
			"The headline is the chained pair period; dispatch, combine and roundtrip are fresh-entry windows, maximum over ranks. "+
			"GB/s are logical bytes for each GPU; tokens/s are at the roundtrip.", headlineTokens),
	}
}

// arithmeticSection lists the rungs whose combine adds in another way than the
// backend declares, although the contract's gate passes them.
func (s *Summary) arithmeticSection() section {
	t := &table{columns: slices.Concat(epKeys, text("declared sum"), figure("T", "wrong values", "max error", "bound"))}
	for _, e := range s.EP {
		for _, p := range e.Rungs {
			a := p.Arithmetic
			if a == nil || a.Passed {
				continue
			}
			t.rows = append(t.rows, append(e.keys(), a.Accumulation, strconv.Itoa(p.TokensPerRank),
				fmt.Sprintf("%d of %d", a.Wrong, a.Checked), errorFigure(a.MaxError), errorFigure(a.Bound)))
		}
	}
	return section{
		title: "Combine does not add as declared", table: t, keys: len(epKeys),
		note: "The figures stand: the contract's gate passes these rows. Errors are units in the last place of bf16, of an untimed combine of chosen rows.",
	}
}

// errorFigure spells an error, which is null where it is not finite.
func errorFigure(e *float64) string {
	if e == nil {
		return "not finite"
	}
	return strconv.FormatFloat(*e, 'g', 3, 64)
}

// dropped says which rungs the backend cannot do.
func (e *EP) dropped() string {
	if len(e.Dropped) == 0 {
		return ""
	}
	return "T = " + strings.Trim(fmt.Sprint(e.Dropped), "[]")
}

func p50(q *result.Percentiles) float64 {
	if q == nil {
		return 0
	}
	return q.P50
}

func p99(q *result.Percentiles) float64 {
	if q == nil {
		return 0
	}
	return q.P99
}

func (s *Summary) epLadder() section {
	t := &table{columns: slices.Concat(epKeys, figure("T", "pair period µs", "dispatch µs", "combine µs", "roundtrip µs",
		"p99", "tokens/s", "dispatch GB/s", "combine GB/s"))}
	sec := section{title: "Dispatch and combine at every rung", table: t, keys: len(epKeys), folded: true}
	for _, e := range s.EP {
		if len(e.Rungs) == 0 {
			continue
		}
		c := chart{
			title: fmt.Sprintf("%s %s EP%d %s %s %s %s", e.SKU, e.Backend, e.World, e.Mode, e.Phase, e.Routing, e.Dispatch),
			x:     "tokens per rank", y: "tokens/s at roundtrip p50",
		}
		for _, p := range e.Rungs {
			t.rows = append(t.rows, append(e.keys(), strconv.Itoa(p.TokensPerRank), orDash(p50(p.PairPeriod)),
				orDash(p50(p.DispatchTime)), orDash(p50(p.CombineTime)), orDash(p50(p.Roundtrip)), orDash(p99(p.Roundtrip)),
				rate(p.TokenRate), orDash(p.DispatchGBps), orDash(p.CombineGBps)))
			c.labels = append(c.labels, strconv.Itoa(p.TokensPerRank))
			c.values = append(c.values, p.TokenRate)
		}
		sec.charts = append(sec.charts, c)
	}
	return sec
}

// collectiveKeys are the columns that tell collective cases apart.
var collectiveKeys = text("SKU", "backend", "ranks", "op", "type", "redop", "buffers")

func (c *Collective) keys() []string {
	return []string{c.SKU, c.Backend, strconv.Itoa(c.World), c.Op, c.DType, c.RedOp, c.Buffers}
}

func (s *Summary) collectiveSections() []section {
	var out []section
	for _, g := range groups(s.Collectives) {
		t := &table{columns: slices.Concat(collectiveKeys,
			[]column{{name: "peak busbw GB/s", right: true, strong: true}}, figure("at", "floor µs", "at"))}
		for _, c := range g.cases {
			peak, floor := c.Points[c.Peak], c.Points[c.Floor]
			t.rows = append(t.rows, append(c.keys(), orDash(peak.BusBW), size(peak.Bytes), orDash(floor.P50), size(floor.Bytes)))
		}
		out = append(out, section{
			title: "Collectives, " + g.title, table: t, keys: len(collectiveKeys),
			note: "The highest bus bandwidth and the lowest latency of the ladder, both at p50.",
		})
	}
	return out
}

func (s *Summary) collectiveLadders() []section {
	var out []section
	laddered := slices.DeleteFunc(slices.Clone(s.Collectives), func(c Collective) bool { return len(c.Points) < 2 })
	for _, g := range groups(laddered) {
		sizes := ladder(g.cases)
		names := make([]string, len(sizes))
		for i, b := range sizes {
			names[i] = size(b)
		}
		latency := &table{columns: slices.Concat(collectiveKeys, figure(names...))}
		busbw := &table{columns: latency.columns}
		sec := section{title: "Bus bandwidth by size in GB/s, " + g.title, table: busbw, keys: len(collectiveKeys), folded: true}
		for _, c := range g.cases {
			lat, bw := c.keys(), c.keys()
			for _, b := range sizes {
				p := c.at(b)
				lat, bw = append(lat, orDash(p.P50)), append(bw, orDash(p.BusBW))
			}
			latency.rows, busbw.rows = append(latency.rows, lat), append(busbw.rows, bw)
			ch := chart{
				title: fmt.Sprintf("%s %s %d ranks: %s", c.SKU, c.Backend, c.World, strings.TrimSpace(c.Op+" "+c.DType+" "+c.RedOp)),
				x:     "size", y: "busbw GB/s",
			}
			for _, p := range c.Points {
				ch.labels, ch.values = append(ch.labels, size(p.Requested)), append(ch.values, p.BusBW)
			}
			sec.charts = append(sec.charts, ch)
		}
		out = append(out, section{
			title: "Latency p50 by size in µs, " + g.title, table: latency, keys: len(collectiveKeys), folded: true,
		}, sec)
	}
	return out
}

// group is collective cases that may stand in one column: one timing mode and
// placement.
type group struct {
	title string
	cases []Collective
}

func groups(all []Collective) []group {
	var out []group
	for _, c := range all {
		if len(c.Points) == 0 {
			continue
		}
		title := words(c.Mode) + ", " + words(c.Placement)
		i := slices.IndexFunc(out, func(g group) bool { return g.title == title })
		if i < 0 {
			i = len(out)
			out = append(out, group{title: title})
		}
		out[i].cases = append(out[i].cases, c)
	}
	return out
}

func words(s string) string { return strings.ReplaceAll(s, "_", " ") }

// maxSizes bounds the columns of a ladder table.
const maxSizes = 8

// ladder returns at most maxSizes sizes of the cases, spread evenly from the
// smallest to the largest.
func ladder(cases []Collective) []int64 {
	var all []int64
	for _, c := range cases {
		for _, p := range c.Points {
			all = append(all, p.Requested)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) <= maxSizes {
		return all
	}
	out := make([]int64, maxSizes)
	for i := range out {
		out[i] = all[i*(len(all)-1)/(maxSizes-1)]
	}
	return out
}

func (c *Collective) at(requested int64) CollectivePoint {
	for _, p := range c.Points {
		if p.Requested == requested {
			return p
		}
	}
	return CollectivePoint{}
}
