package bench

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/sanitize"
)

// automatic is the library's own choice among the algorithms.
const automatic = bench.Auto

// Algorithms compares the algorithms of an operation with the library's own choice, at every size.
type Algorithms struct {
	DType     string          `json:"dtype"`
	RedOp     string          `json:"redop"`
	Root      int             `json:"root"` // -1 for an operation without one
	Repeat    int             `json:"repeat"`
	Placement string          `json:"placement"`
	Sizes     []AlgorithmSize `json:"sizes"`
	// NotOffered has the reason for each algorithm that the library refused.
	NotOffered map[string]string `json:"not_offered,omitempty"`
}

// AlgorithmSize is a row of Algorithms.
type AlgorithmSize struct {
	Requested int64              `json:"requested_bytes"`
	Times     map[string]float64 `json:"time_us"` // by algorithm, of rows that passed; "auto" is the library's own choice
	// Chosen is the library's own choice; missing if it reported none.
	Chosen string `json:"chosen,omitempty"`
	// Best is the algorithm with the shortest time, and Cost how much longer the library's own choice takes, in
	// per cent; empty and null if either was not measured.
	Best string   `json:"best,omitempty"`
	Cost *float64 `json:"auto_cost_percent"`
}

// algorithm returns the algorithm that the case of a document requires, or "".
func algorithm(d *collective.Document) string {
	if b := collective.Of(&d.Identity.Case); b != nil {
		return b.Algorithm
	}
	return ""
}

// notOffered reports whether the library refused the algorithm of a case, or everything that the case needs.
func notOffered(d *collective.Document) bool {
	return algorithm(d) != "" && bench.Lacking(d.Outcome)
}

// compare adds the rows of a document to the comparisons of algorithms.
func (p *Report) compare(d *collective.Document) {
	if len(p.r.algo) == 0 {
		return
	}
	name := cmp.Or(algorithm(d), automatic)
	for _, placement := range p.r.Shape.Placements {
		a := p.comparison(d, placement)
		if notOffered(d) {
			a.NotOffered[name] = d.Outcome.Reasons[:min(1, len(d.Outcome.Reasons))].String() // of the first rank
		}
		for i := range d.Measurement.Rows {
			row := &d.Measurement.Rows[i]
			if f, timed := p.r.View.Figures(row); timed && row.Placement == placement && row.Good() {
				s := a.add(row.Requested, name, f.TimeUS)
				if name == automatic {
					s.Chosen = row.Algorithm
				}
			}
		}
	}
}

// comparison returns the comparison to which a placement of a document belongs.
func (p *Report) comparison(d *collective.Document, placement string) *Algorithms {
	a := &Algorithms{
		DType: d.Measurement.DType, RedOp: d.Measurement.RedOp, Root: p.r.rootOf(d), Repeat: d.Identity.Repeat, Placement: placement,
		NotOffered: map[string]string{},
	}
	for _, o := range p.Algorithms {
		if o.DType == a.DType && o.RedOp == a.RedOp && o.Root == a.Root && o.Repeat == a.Repeat && o.Placement == a.Placement {
			return o
		}
	}
	p.Algorithms = append(p.Algorithms, a)
	return a
}

// add adds the time of an algorithm at a size, and returns that row.
func (a *Algorithms) add(requested int64, name string, us float64) *AlgorithmSize {
	i := slices.IndexFunc(a.Sizes, func(s AlgorithmSize) bool { return s.Requested >= requested })
	if i < 0 {
		i = len(a.Sizes)
	}
	if i == len(a.Sizes) || a.Sizes[i].Requested != requested {
		a.Sizes = slices.Insert(a.Sizes, i, AlgorithmSize{Requested: requested, Times: map[string]float64{}})
	}
	s := &a.Sizes[i]
	s.Times[name] = us
	if name != automatic && (s.Best == "" || us < s.Times[s.Best]) {
		s.Best = name
	}
	if auto, is := s.Times[automatic]; is && s.Best != "" {
		cost := 100 * (auto/s.Times[s.Best] - 1)
		s.Cost = &cost
	}
	return s
}

// names returns the algorithms that were measured, in the order of plans, the library's own choice first.
func (a *Algorithms) names() []string {
	return slices.DeleteFunc(append([]string{automatic}, collective.AlgorithmNames()...), func(name string) bool {
		return !slices.ContainsFunc(a.Sizes, func(s AlgorithmSize) bool { _, is := s.Times[name]; return is })
	})
}

// print prints the times by size and algorithm, which one is the best from where on, and what the library
// does not offer.
func (a *Algorithms) print(w io.Writer, op string) {
	names := a.names()
	title := strings.Join(slices.DeleteFunc([]string{op, a.DType, a.RedOp, strings.ReplaceAll(a.Placement, "_", " ")}, func(s string) bool { return s == "" }), " ")
	if a.Root > 0 {
		title += fmt.Sprintf(", root %d", a.Root)
	}
	fmt.Fprintf(w, "#\n# algorithms of %s: time in us, * the shortest; auto is the library's own choice\n", title)
	fmt.Fprintf(w, "# %10s", "size")
	for _, name := range names {
		fmt.Fprintf(w, "  %*s ", columnOf(name), name)
	}
	fmt.Fprintf(w, "  %10s  %s\n", "auto costs", "auto is")
	for _, s := range a.Sizes {
		var line strings.Builder
		fmt.Fprintf(&line, "# %10d", s.Requested)
		for _, name := range names {
			text, mark := "-", " "
			if us, is := s.Times[name]; is {
				text = fixed(us, columnOf(name))
			}
			if name == s.Best {
				mark = "*"
			}
			fmt.Fprintf(&line, "  %*s%s", columnOf(name), text, mark)
		}
		cost := "-"
		if s.Cost != nil {
			cost = fmt.Sprintf("%+.1f %%", *s.Cost)
		}
		fmt.Fprintf(&line, "  %10s  %s", cost, s.Chosen)
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
	if text := a.crossings(); text != "" {
		fmt.Fprintf(w, "# best: %s\n", text)
	}
	for _, name := range slices.Sorted(maps.Keys(a.NotOffered)) {
		fmt.Fprintf(w, "# not offered: %s: %s\n", name, sanitize.Line(a.NotOffered[name]))
	}
}

func columnOf(name string) int { return max(len(name), 7) }

// crossings returns the best algorithms with the sizes from which on they are the best.
func (a *Algorithms) crossings() string {
	var parts []string
	best := ""
	for _, s := range a.Sizes {
		if s.Best != "" && s.Best != best {
			best = s.Best
			parts = append(parts, best+" from "+bench.Spelled(s.Requested))
		}
	}
	return strings.Join(parts, ", ")
}
