package bench

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/sanitize"
	"github.com/collectivex/collectivex/pkg/table"
)

// automatic is the library's own choice among the algorithms.
const automatic = bench.Auto

// Algorithms compares the variants of an operation, which are algorithms and numbers of CTAs (see collective.Variant),
// with the library's own choice, at every size.
type Algorithms struct {
	DType     string          `json:"dtype"`
	RedOp     string          `json:"redop"`
	Root      int             `json:"root"` // -1 for an operation without one
	Repeat    int             `json:"repeat"`
	Placement string          `json:"placement"`
	Sizes     []AlgorithmSize `json:"sizes"`
	// NotOffered has the reason for each variant that the library refused.
	NotOffered map[string]string `json:"not_offered,omitempty"`

	ctas []int // that were asked for
}

// AlgorithmSize is a row of Algorithms.
type AlgorithmSize struct {
	Requested int64              `json:"requested_bytes"`
	Times     map[string]float64 `json:"time_us"` // by variant, of rows that passed; "auto" is the library's own choice
	// Chosen and ChosenCTAs are the library's own choice; missing if it reported none.
	Chosen     string `json:"chosen,omitempty"`
	ChosenCTAs int    `json:"chosen_ctas,omitempty"`
	// Used is what the library reported to have used; missing if it reported nothing.
	Used map[string]string `json:"used,omitempty"`
	// Best is the variant with the shortest time, "auto" also if the best one used what the library chooses itself.
	// Cost is how much longer the library's own choice takes than the best variant that used something else, in per
	// cent; null if either was not measured.
	Best string   `json:"best,omitempty"`
	Cost *float64 `json:"auto_cost_percent"`
}

// variant returns what the case of a document chooses in the place of the library, or "".
func variant(d *collective.Document) string {
	if b := collective.Of(&d.Identity.Case); b != nil {
		return b.Variant()
	}
	return ""
}

// beside reports whether a case is one of --algo or --ctas, beside those that the request is for.
func (r *Request) beside(d *collective.Document) bool {
	return variant(d) != collective.Variant(r.device, r.blocks)
}

// notOffered reports whether the library refused the variant of a case beside others, or everything that it needs.
func (r *Request) notOffered(d *collective.Document) bool {
	return r.beside(d) && bench.Lacking(d.Outcome)
}

// compare adds the rows of a document to the comparisons of algorithms.
func (p *Report) compare(d *collective.Document) {
	if p.r.variants() == "" {
		return
	}
	name := cmp.Or(variant(d), automatic)
	for _, placement := range p.r.Shape.Placements {
		a := p.comparison(d, placement)
		if p.r.notOffered(d) {
			a.NotOffered[name] = d.Outcome.Reasons[:min(1, len(d.Outcome.Reasons))].String() // of the first rank
		}
		for i := range d.Measurement.Rows {
			row := &d.Measurement.Rows[i]
			if f, timed := p.r.View.Figures(row); timed && row.Placement == placement && row.Good() {
				used := ""
				if row.Algorithm != "" {
					used = collective.Variant(row.Algorithm, row.CTAs)
				}
				s := a.add(row.Requested, name, used, f.TimeUS)
				if name == automatic {
					s.Chosen, s.ChosenCTAs = row.Algorithm, row.CTAs
				}
			}
		}
	}
}

// comparison returns the comparison to which a placement of a document belongs.
func (p *Report) comparison(d *collective.Document, placement string) *Algorithms {
	a := &Algorithms{
		DType: d.Measurement.DType, RedOp: d.Measurement.RedOp, Root: p.r.rootOf(d), Repeat: d.Identity.Repeat, Placement: placement,
		NotOffered: map[string]string{}, ctas: p.r.ctas,
	}
	for _, o := range p.Algorithms {
		if o.DType == a.DType && o.RedOp == a.RedOp && o.Root == a.Root && o.Repeat == a.Repeat && o.Placement == a.Placement {
			return o
		}
	}
	p.Algorithms = append(p.Algorithms, a)
	return a
}

// add adds the time of a variant at a size, of which the library used what is named, and returns that row.
func (a *Algorithms) add(requested int64, name, used string, us float64) *AlgorithmSize {
	i := slices.IndexFunc(a.Sizes, func(s AlgorithmSize) bool { return s.Requested >= requested })
	if i < 0 {
		i = len(a.Sizes)
	}
	if i == len(a.Sizes) || a.Sizes[i].Requested != requested {
		a.Sizes = slices.Insert(a.Sizes, i, AlgorithmSize{Requested: requested, Times: map[string]float64{}, Used: map[string]string{}})
	}
	s := &a.Sizes[i]
	s.Times[name] = us
	if used != "" {
		s.Used[name] = used
	}
	s.judge()
	return s
}

// judge sets Best and Cost.
func (s *AlgorithmSize) judge() {
	variants := slices.Sorted(maps.Keys(s.Times))
	s.Best = s.fastest(append([]string{automatic}, variants...))
	auto, is := s.Times[automatic]
	other := s.fastest(slices.DeleteFunc(variants, func(name string) bool { return name == automatic || s.same(name) }))
	if s.Cost = nil; is && other != "" {
		s.Cost = new(100 * (auto/s.Times[other] - 1))
	}
}

// same reports whether a variant used what the library chooses itself, so that their times differ by noise only.
func (s *AlgorithmSize) same(name string) bool {
	used := s.Used[name]
	return name != automatic && used != "" && used == s.Used[automatic] && (counted(used) || !counted(name))
}

// counted reports whether the name of a variant has a number of CTAs.
func counted(name string) bool { return strings.Contains(name, "(") }

// names returns the algorithms that were measured with a number of CTAs, in the order of plans, the library's own
// choice first.
func (a *Algorithms) names(ctas int) (names []string) {
	for _, algorithm := range append([]string{""}, collective.AlgorithmNames()...) {
		name := cmp.Or(collective.Variant(algorithm, ctas), automatic)
		if slices.ContainsFunc(a.Sizes, func(s AlgorithmSize) bool { _, is := s.Times[name]; return is }) {
			names = append(names, name)
		}
	}
	return names
}

// fastest returns the first variant with the shortest time at a size among names, or "". A variant that used what the
// library chooses itself is as fast as that.
func (s *AlgorithmSize) fastest(names []string) (best string) {
	var shortest float64
	for _, name := range names {
		us, is := s.Times[name]
		if is && s.same(name) {
			us = s.Times[automatic]
		}
		if is && (best == "" || us < shortest) {
			best, shortest = name, us
		}
	}
	return best
}

// lineWidth is the maximum width of what is printed, which fits a terminal.
const lineWidth = 80

// print prints the times by size and algorithm, and by size and CTAs, which variant is the best from where on, and
// what the library does not offer.
func (a *Algorithms) show(w io.Writer, op string) {
	title := strings.Join(slices.DeleteFunc([]string{op, a.DType, a.RedOp, strings.ReplaceAll(a.Placement, "_", " ")}, func(s string) bool { return s == "" }), " ")
	if a.Root > 0 {
		title += fmt.Sprintf(", root %d", a.Root)
	}
	fmt.Fprintf(w, "#\n# algorithms of %s\n# time in us, * the shortest; auto is the library's own choice\n", title)
	t := a.sizes()
	timed := func(name string) {
		t.column(name+" ", func(s *AlgorithmSize) string { return s.cell(name, s.Best) })
	}
	timed(automatic)
	t.column("auto costs", func(s *AlgorithmSize) string {
		if s.Cost == nil {
			return "-"
		}
		return fmt.Sprintf("%+.1f %%", *s.Cost)
	})
	t.column("auto is", func(s *AlgorithmSize) string { return collective.Variant(s.Chosen, s.ChosenCTAs) })
	for _, name := range a.names(0) {
		if name != automatic {
			timed(name)
		}
	}
	t.show(w)
	if len(a.ctas) > 0 {
		fmt.Fprintf(w, "# by the number of CTAs, the shortest time of all algorithms; NAME(N) has N CTAs\n")
		a.byCTAs().show(w)
		a.unconfirmed(w)
	}
	if text := a.crossings(); text != "" {
		paragraph(w, fmt.Sprintf("best (by %d %% or more, else auto): %s", clearPercent, text))
	}
	a.refused(w)
}

// byCTAs returns the shortest time with each number of CTAs, and the best variant.
func (a *Algorithms) byCTAs() bySize {
	t := a.sizes()
	t.column("best", func(s *AlgorithmSize) string { return s.Best })
	for _, ctas := range append([]int{0}, a.ctas...) {
		head, names := automatic, a.names(ctas)
		if ctas > 0 {
			head = strconv.Itoa(ctas)
		}
		t.column(head+" ", func(s *AlgorithmSize) string { return s.cell(s.fastest(names), s.Best) })
	}
	return t
}

// unconfirmed prints of how many times with a given number of CTAs the library did not report the number.
func (a *Algorithms) unconfirmed(w io.Writer) {
	silent, all := 0, 0
	for i := range a.Sizes {
		for name := range a.Sizes[i].Times {
			if counted(name) {
				all++
				if !counted(a.Sizes[i].Used[name]) {
					silent++
				}
			}
		}
	}
	if silent > 0 {
		paragraph(w, fmt.Sprintf("CTAs are not confirmed in %d of %s: the library did not report them", silent, plural.Count(all, "row", "rows")))
	}
}

// bySize is a table with a row for each size, whose first column it is.
type bySize struct {
	of   []AlgorithmSize
	text *table.Table
}

func (a *Algorithms) sizes() bySize {
	t := bySize{a.Sizes, &table.Table{Rows: make([][]string, len(a.Sizes))}}
	t.column("size", func(s *AlgorithmSize) string { return strconv.FormatInt(s.Requested, 10) })
	return t
}

// cell returns the time of a variant, with a mark if it is the best.
func (s *AlgorithmSize) cell(name, best string) string {
	us, is := s.Times[name]
	switch {
	case !is:
		return "- "
	case name == best:
		return strings.TrimSpace(fixed(us, 7)) + "*"
	}
	return strings.TrimSpace(fixed(us, 7)) + " "
}

func (t bySize) column(head string, cell func(s *AlgorithmSize) string) {
	t.text.Columns = append(t.text.Columns, table.Figures(head)...)
	for i := range t.of {
		t.text.Rows[i] = append(t.text.Rows[i], cell(&t.of[i]))
	}
}

// print prints a table in lines that fit a terminal, in blocks if it is wider.
func (t bySize) show(w io.Writer) {
	for line := range strings.Lines(t.text.Text(lineWidth - 1)) {
		fmt.Fprintf(w, "#%s", line)
	}
}

// paragraph prints text in lines that fit a terminal.
func paragraph(w io.Writer, text string) {
	for i, line := range table.Wrap(text, lineWidth-len("#   ")) {
		if i > 0 {
			line = "  " + line
		}
		fmt.Fprintf(w, "# %s\n", line)
	}
}

// refused prints what the library does not offer, by reason.
func (a *Algorithms) refused(w io.Writer) {
	var reasons []string
	names := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(a.NotOffered)) {
		why := strings.Replace(a.NotOffered[name], name+" not offered, ", "", 1)
		if names[why] == nil {
			reasons = append(reasons, why)
		}
		names[why] = append(names[why], name)
	}
	for _, why := range reasons {
		paragraph(w, sanitize.Line("not offered: "+strings.Join(names[why], ", ")+": "+why))
	}
}

// clearPercent is by how much another variant has to be faster to be named as the best one.
const clearPercent = 5

// crossings returns the best variants with the sizes from which on they are clearly better than the library's own
// choice and than the variant before.
func (a *Algorithms) crossings() string {
	var parts []string
	best := ""
	for i := range a.Sizes {
		s := &a.Sizes[i]
		name := s.Best
		for _, other := range []string{best, automatic} {
			if us, is := s.Times[other]; is && 100*(us/s.Times[s.Best]-1) < clearPercent {
				name = other
			}
		}
		if name != "" && name != best {
			best = name
			parts = append(parts, best+" from "+bench.Spelled(s.Requested))
		}
	}
	return strings.Join(parts, ", ")
}
