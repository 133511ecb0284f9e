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
	charts []chart
	folded bool // details that Markdown folds away
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
		s.epSection(),
	}
	all = append(all, s.collectiveSections()...)
	all = append(all, s.machineSection())
	all = append(all, s.epLadders()...)
	all = append(all, s.collectiveLadders()...)
	all = append(all, s.unsupportedSection())
	return slices.DeleteFunc(all, func(s section) bool {
		return (s.table == nil || len(s.table.rows) == 0) && len(s.charts) == 0
	})
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
	return strings.Join(parts, ", ")
}

func (s *Summary) failedSection() section {
	t := &table{columns: append(text("case", "status", "reason"), figure("rows", "attempts")...)}
	for _, f := range s.Failed {
		t.rows = append(t.rows, []string{
			f.CaseID, f.Status, strings.Join(f.Reasons, "; "),
			fmt.Sprintf("%d of %d", f.Measured, f.Asked), strconv.Itoa(f.Attempts),
		})
	}
	return section{title: "Failed cases", table: t}
}

func (s *Summary) missingSection() section {
	return section{
		title: "Cases without a document", table: list("case", s.Missing),
		note: "The cell that had them ended without writing one: see its log.",
	}
}

func (s *Summary) unrequestedSection() section {
	return section{title: "Cases that nobody asked for", table: list("case", s.Unrequested)}
}

func list(name string, items []string) *table {
	t := &table{columns: text(name)}
	for _, i := range items {
		t.rows = append(t.rows, []string{i})
	}
	return t
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

func (s *Summary) epSection() section {
	t := &table{columns: append(text("SKU", "backend", "mode", "phase", "routing", "dispatch"),
		figure("EP", "T", "pair period p50 µs", "p99", "dispatch p50 µs", "combine p50 µs", "roundtrip p50 µs", "tokens/s",
			"dispatch GB/s", "combine GB/s", "max error")...)}
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
		t.rows = append(t.rows, []string{
			e.SKU, e.Backend, e.Mode, e.Phase, e.Routing, e.Dispatch, strconv.Itoa(e.World), strconv.Itoa(p.TokensPerRank),
			orDash(p50(us)) + mark, orDash(p99(us)), orDash(p50(p.DispatchTime)), orDash(p50(p.CombineTime)),
			orDash(p50(p.Roundtrip)), rate(p.TokenRate), orDash(p.DispatchGBps), orDash(p.CombineGBps),
			strconv.FormatFloat(e.MaxError, 'g', 2, 64),
		})
	}
	return section{
		title: "Expert parallel dispatch and combine", table: t,
		note: fmt.Sprintf("At T = %d tokens per rank, else the middle of the ladder. The headline is the chained pair period; "+
			"dispatch, combine and roundtrip are fresh-entry windows, maximum over ranks. "+
			"GB/s are logical bytes for each GPU at p50; tokens/s are at the roundtrip's p50.", headlineTokens),
	}
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

// epLadders is one table for each SKU and EP degree: a line per case and rung.
func (s *Summary) epLadders() []section {
	t := &table{columns: append(text("case"), figure("T", "pair period p50 µs", "dispatch p50 µs", "combine p50 µs",
		"roundtrip p50 µs", "p99", "tokens/s", "dispatch GB/s", "combine GB/s")...)}
	sec := section{title: "Every rung", table: t, folded: true}
	for _, e := range s.EP {
		c := chart{title: e.CaseID, x: "tokens per rank", y: "tokens/s at roundtrip p50"}
		for _, p := range e.Rungs {
			t.rows = append(t.rows, []string{
				e.CaseID, strconv.Itoa(p.TokensPerRank), orDash(p50(p.PairPeriod)), orDash(p50(p.DispatchTime)),
				orDash(p50(p.CombineTime)), orDash(p50(p.Roundtrip)), orDash(p99(p.Roundtrip)), rate(p.TokenRate),
				orDash(p.DispatchGBps), orDash(p.CombineGBps),
			})
			c.labels = append(c.labels, strconv.Itoa(p.TokensPerRank))
			c.values = append(c.values, p.TokenRate)
		}
		sec.charts = append(sec.charts, c)
	}
	return []section{sec}
}

func (s *Summary) collectiveSections() []section {
	var out []section
	for _, g := range groups(s.Collectives) {
		t := &table{columns: append(text("op", "type", "redop", "buffers"), figure("busbw GB/s", "at", "latency p50 µs", "at")...)}
		for _, c := range g.cases {
			if len(c.Points) == 0 {
				continue
			}
			peak, floor := c.Points[c.Peak], c.Points[c.Floor]
			t.rows = append(t.rows, []string{
				c.Op, c.DType, c.RedOp, c.Buffers, orDash(peak.BusBW), size(peak.Bytes), orDash(floor.P50), size(floor.Bytes),
			})
		}
		out = append(out, section{title: "Collectives: " + g.title, table: t, note: "Peak bus bandwidth and latency floor."})
	}
	return out
}

func (s *Summary) collectiveLadders() []section {
	var out []section
	for _, g := range groups(s.Collectives) {
		sizes := ladder(g.cases)
		names := make([]string, len(sizes))
		for i, b := range sizes {
			names[i] = size(b)
		}
		latency := &table{columns: append(text("op", "type", "redop", "buffers"), figure(names...)...)}
		busbw := &table{columns: latency.columns}
		sec := section{title: "Bus bandwidth GB/s by size: " + g.title, table: busbw, folded: true}
		for _, c := range g.cases {
			lead := []string{c.Op, c.DType, c.RedOp, c.Buffers}
			lat, bw := slices.Clone(lead), slices.Clone(lead)
			for _, b := range sizes {
				p := c.at(b)
				lat, bw = append(lat, orDash(p.P50)), append(bw, orDash(p.BusBW))
			}
			latency.rows, busbw.rows = append(latency.rows, lat), append(busbw.rows, bw)
			ch := chart{title: strings.TrimSpace(c.Op + " " + c.DType + " " + c.RedOp), x: "bytes", y: "busbw GB/s"}
			for _, p := range c.Points {
				ch.labels, ch.values = append(ch.labels, size(p.Bytes)), append(ch.values, p.BusBW)
			}
			sec.charts = append(sec.charts, ch)
		}
		out = append(out, section{title: "Latency p50 µs by size: " + g.title, table: latency, folded: true}, sec)
	}
	return out
}

// group is collective cases that may stand in one table: one machine, world,
// timing mode and placement.
type group struct {
	title string
	cases []Collective
}

func groups(all []Collective) []group {
	var out []group
	for _, c := range all {
		title := fmt.Sprintf("%s, %s, %d ranks, %s, %s", c.SKU, c.Backend, c.World, words(c.Mode), words(c.Placement))
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
			all = append(all, p.Bytes)
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

func (c *Collective) at(bytes int64) CollectivePoint {
	for _, p := range c.Points {
		if p.Bytes == bytes {
			return p
		}
	}
	return CollectivePoint{}
}
