// Package page writes the documents of runs as one HTML file that needs no network and
// can be read without scripts, and its charts as SVG files.
package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/fold"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/report"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sanitize"
	"github.com/collectivex/collectivex/pkg/table"
)

// Page holds the contents of the file.
type Page struct {
	Runs []Run
	// Headlines has the figures of the first screen.
	Headlines []table.Section
	Cases     []Case
	Origins   []Origin
	Views     []View
	Coverage  []Coverage
	Rejected  []report.Rejected // files that are not documents
	// Comparisons are of later runs with the first. Of more than two runs, those without a case of the first are left out.
	Comparisons []Comparison
	// Trends are the rows of the trends over at least minTrend runs.
	Trends     [][]string
	MoreTrends int // omitted rows
}

// Run is the documents of one run id. Runs are in the order of their first document.
type Run struct {
	ID    string
	Name  string // of the input that it was read from, or its id
	First string // time of the first document, ISO 8601
	Count report.Counts
	// Planned reports whether a matrix of the run was given. Without one, missing cases are unknown.
	Planned bool
}

// Asked returns how many cases were requested of the run, as far as known.
func (r Run) Asked() int { return r.Count.Cases + r.Count.Missing + r.Count.Unsupported }

// Case is a case of a run, with the attempt that counts.
type Case struct {
	Run             int // index into Runs
	ID              string
	SKU, Backend    string
	World           int
	Key             string // comparison key
	Status, Reason  string
	Attempts        int
	Measured, Asked int // rungs
	Origin          int // index into Origins
	At              string

	repeat int
	first  string // id of the first repeat
}

// Origin is the provenance of cases: facts that many cases share.
type Origin struct {
	Facts []Fact
	Cases int
}

// Fact is a named value.
type Fact struct{ Name, Value string }

// mixedFacts are the facts that a chart mentions if it mixes different values.
var mixedFacts = []string{"topology", "contract", "library version"}

// Coverage is one requested case and its outcome, or the repeats of a case with the same outcome.
type Coverage struct {
	Run                             string
	ID, SKU, Backend, State, Reason string
	Measured, Asked, Attempts       int
	Repeats                         int

	first string // id of the first repeat
}

// States of a Coverage, in addition to the statuses of documents.
const (
	measured  = "measured"
	simulated = "simulated"
	missing   = "missing"
)

// View is a figure.View with its series.
type View struct {
	figure.View
	Facets []Facet
	Series []Series
}

// Facet is a facet of the view or, before those, of its cases, with the values found.
type Facet struct {
	figure.Facet
	Found []string
}

// The facets of all cases.
const (
	facetRun = iota
	facetSKU
	facetBackend
	facetRanks
	facetRepeat // middle, or the number of a repeat of a case whose middle is a series too
	facetsOfCase
)

// Series is a figure.Series of a case.
type Series struct {
	Case   int   // index into Page.Cases
	Run    int   // index into Page.Runs
	Facets []int // index into Found of each facet of the view
	Look   int   // see assignLooks; equal for equal identities, in any run and kind of measurement
	Fits   []Fit
	figure.Series
}

// answered is the kept part of the document that counts for a case.
type answered struct {
	source    string
	envelope  result.Envelope
	simulated bool
	measured  int
	asked     int
	dropped   string // what was not requested of the ranks, and why
	list      string // of the headline
	headline  any
	series    []figure.Series
}

// middle is the value of facetRepeat of the median of the repeats of a case; empty if no case is repeated.
const middle = "median"

// Build reads the documents below the given paths (see fold.Read). names are the names of the paths, for their
// runs (see fold.Verdict.Names). A matrix lists the cases requested of the runs whose documents name its digest,
// or of the only run if no document names any. The verdict names the files that are not documents.
func Build(in, names []string, matrices []*plan.Matrix) (*Page, *fold.Verdict, error) {
	of := map[string]string{} // run id → digest of its matrix
	found, v, err := fold.Keep(in, nil, func(rec fold.Record) *answered {
		of[rec.Head.RunID] = cmp.Or(of[rec.Head.RunID], rec.Head.MatrixSHA256)
		return read(rec)
	})
	if err != nil {
		return nil, nil, err
	}
	b := builder{runs: map[string]int{}, sources: map[string]int{}, origins: map[string]int{}, views: map[string]*view{}}
	b.add(v, v.Names(names), found)
	for _, m := range matrices {
		b.plan(m, of)
	}
	b.finish()
	if err := b.compare(in); err != nil {
		return nil, nil, err
	}
	return &b.Page, v, nil
}

func read(rec fold.Record) *answered {
	d := rec.Document
	s := &answered{source: rec.Source, envelope: *d.Head()}
	if f := family.Find(s.envelope.Identity.Case.Family); f != nil {
		of := &f.Summary
		s.simulated = f.Computed
		s.measured, s.asked = f.Counted(d)
		if of.Dropped != nil {
			s.dropped = of.Dropped(d)
		}
		s.series = report.Series(d)
		s.list, s.headline = of.Headline(d)
	}
	return s
}

// builder makes a page.
type builder struct {
	Page
	runs    map[string]int
	origins map[string]int
	sources map[string]int // of the documents that count: their runs
	views   map[string]*view
	repeats report.Repeats
}

// view is a View while its series are collected.
type view struct {
	View
	values []map[string]int // of each facet: index in Found
}

func (b *builder) add(v *fold.Verdict, names map[string]string, found map[fold.Case]*answered) {
	for _, run := range v.Runs {
		b.Runs = append(b.Runs, Run{ID: cmp.Or(run, "no run id"), Name: sanitize.Line(cmp.Or(names[run], "no run id"))})
	}
	for _, a := range v.Answers {
		r := &b.Runs[slices.Index(v.Runs, a.Run)]
		r.First = min(cmp.Or(r.First, "~"), found[a.Case].envelope.GeneratedAt)
	}
	slices.SortStableFunc(b.Runs, func(x, y Run) int { return strings.Compare(x.First, y.First) })
	for i, r := range b.Runs {
		b.runs[r.ID] = i
	}
	for _, f := range family.All() {
		for _, v := range f.Views {
			b.views[v.Name] = newView(v)
		}
	}
	answers := slices.Clone(v.Answers)
	slices.SortStableFunc(answers, func(x, y fold.Answer) int {
		return cmp.Compare(b.runs[cmp.Or(x.Run, "no run id")], b.runs[cmp.Or(y.Run, "no run id")])
	})
	b.Cases, b.Coverage = make([]Case, 0, len(answers)), make([]Coverage, 0, len(answers))
	drawn := map[string]int{} // series by view
	for _, s := range found {
		for _, series := range s.series {
			drawn[series.View]++
		}
	}
	for name, v := range b.views {
		v.Series = make([]Series, 0, drawn[name])
	}
	for _, a := range answers {
		b.answer(a, found[a.Case])
		delete(found, a.Case)
	}
	left := map[string]int{}
	for _, p := range slices.Concat(v.Problems, v.Replaced, v.Irregular) {
		left[p.Kind()]++
	}
	for _, kind := range slices.Sorted(maps.Keys(left)) {
		b.Rejected = append(b.Rejected, report.Rejected{Reason: kind, Files: left[kind]})
	}
}

func newView(v figure.View) *view {
	common := [facetsOfCase]figure.Facet{facetRun: {Title: "run"}, facetSKU: {Title: "SKU"}, facetBackend: {Title: "backend"}, facetRanks: {Title: "ranks", Number: true}, facetRepeat: {Title: "repeat", Number: true}}
	out := &view{View: View{View: v}}
	for _, f := range slices.Concat(common[:], v.Facets) {
		out.Facets = append(out.Facets, Facet{Facet: f})
		out.values = append(out.values, map[string]int{})
	}
	return out
}

func (b *builder) answer(a fold.Answer, s *answered) {
	e := &s.envelope
	c := Case{
		Run: b.runs[cmp.Or(a.Run, "no run id")], ID: a.ID, SKU: sanitize.Line(e.Identity.CaseFactors.SKU), Backend: sanitize.Line(e.Implementation.Name),
		World: e.Topology.WorldSize, Key: e.ComparisonKey, Status: a.Status, Reason: sanitize.Line(a.Reasons.String()), Attempts: a.Attempts,
		Measured: s.measured, Asked: s.asked, Origin: b.origin(e), At: e.GeneratedAt,
		repeat: e.Identity.Repeat, first: report.First(&e.Identity.Case),
	}
	b.sources[s.source] = c.Run
	b.Cases = append(b.Cases, c)
	b.Runs[c.Run].Count.Add(a)
	if a.Status == result.Success && s.headline != nil {
		b.repeats.Add(fold.Case{Run: b.Runs[c.Run].ID, ID: c.first}, s.list, s.headline)
	}
	state := c.Status
	if state == result.Success {
		if state = measured; s.simulated {
			state = simulated
		}
	}
	reason := c.Reason
	if s.dropped != "" {
		reason = strings.TrimPrefix(reason+"; not measured: "+s.dropped, "; ")
	}
	b.Coverage = append(b.Coverage, Coverage{
		Run: b.Runs[c.Run].Name, ID: c.ID, SKU: c.SKU, Backend: c.Backend, State: state, Reason: reason,
		Measured: c.Measured, Asked: c.Asked, Attempts: c.Attempts, first: c.first,
	})
	for _, series := range s.series {
		if v := b.views[series.View]; v != nil {
			v.add(len(b.Cases)-1, b.Runs[c.Run].Name, c, series)
		}
	}
}

func (v *view) add(index int, run string, c Case, s figure.Series) {
	values := slices.Concat([]string{run, c.SKU, c.Backend, strconv.Itoa(c.World), ""}, s.Facets)
	out := Series{Case: index, Run: c.Run, Facets: make([]int, len(v.Facets)), Series: s}
	for i, value := range values {
		value = sanitize.Line(value)
		k, ok := v.values[i][value]
		if !ok {
			k = len(v.Facets[i].Found)
			v.values[i][value] = k
			v.Facets[i].Found = append(v.Facets[i].Found, value)
		}
		out.Facets[i] = k
	}
	if v.View.Fits {
		out.Fits = fitted(&out)
	}
	v.Series = append(v.Series, out)
}

// origin returns the index of the origin of e.
func (b *builder) origin(e *result.Envelope) int {
	facts := factsOf(e)
	key := fmt.Sprintf("%q", facts)
	i, ok := b.origins[key]
	if !ok {
		i = len(b.Origins)
		b.origins[key] = i
		b.Origins = append(b.Origins, Origin{Facts: facts})
	}
	b.Origins[i].Cases++
	return i
}

func factsOf(e *result.Envelope) []Fact {
	c, t, r, p := &e.Identity.Case, &e.Topology, &e.Runtime, &e.Provenance
	transport := t.ScaleUpTransport
	if t.ScaleOutTransport != nil {
		transport += " + " + *t.ScaleOutTransport
	}
	library := result.Text(e.Implementation.LibraryVersion)
	if l := r.CollectiveLibrary; l != nil {
		library = strings.TrimSpace(library + " " + l.Kind + " " + result.Text(l.Version))
	}
	var libraries []string
	for _, l := range p.Libraries {
		libraries = append(libraries, strings.TrimSpace(strings.Join([]string{l.Kind, l.Version, l.SOName, l.BuildID}, " ")))
	}
	class := t.TopologyClass
	if f := family.Find(c.Family); f != nil && f.Planner.Lane != nil { // the lane has its own facet
		class = strings.TrimSuffix(class, "-"+f.Planner.Lane(c))
	}
	topology := strings.TrimSpace(class + " " + transport)
	if t.Nodes > 1 {
		topology += fmt.Sprintf(", %d nodes", t.Nodes)
	}
	facts := []Fact{
		{"device", t.DeviceProduct},
		{"vendor", r.Vendor},
		{"topology", topology},
		{"contract", c.Contract},
		{"library version", library},
		{"framework", r.Framework},
		{"runtime", r.AcceleratorRuntime},
		{"loaded libraries", strings.Join(libraries, "; ")},
		{"maturity", e.Implementation.Maturity},
		{"kernels", e.Implementation.KernelGeneration},
		{"sampling", c.Sampling},
		{"environment", pairs(p.Environment)},
		{"host", pairs(p.Host)},
		{"image", result.Text(p.Image)},
		{"source", result.Text(p.SourceSHA)},
		{"generator", p.Generator},
	}
	if d := e.Devices; d != nil {
		facts = append(facts, Fact{"warnings", strings.Join(d.Warnings, "; ")})
	}
	for i := range facts {
		facts[i].Value = sanitize.Line(facts[i].Value)
	}
	return slices.DeleteFunc(facts, func(f Fact) bool { return f.Value == "" })
}

func pairs(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, " ")
}

// plan adds the requested cases that no document answers.
func (b *builder) plan(m *plan.Matrix, of map[string]string) {
	for i := range b.Runs {
		run := &b.Runs[i]
		digest := of[run.ID]
		if digest != m.SHA256 && (digest != "" || len(b.Runs) > 1) {
			continue
		}
		run.Planned = true
		answered := map[string]bool{}
		for _, c := range b.Cases {
			answered[c.ID] = answered[c.ID] || c.Run == i
		}
		for r := range m.Requested() {
			c := Coverage{Run: run.Name, ID: r.Case.CaseID, SKU: r.SKU, Backend: r.Case.Backend, first: report.First(&r.Case)}
			switch {
			case answered[c.ID]:
				continue
			case r.Disposition == plan.Unsupported:
				run.Count.Unsupported++
				reason, detail := r.Why()
				c.State, c.Reason = result.Unsupported, strings.TrimSuffix(reason+": "+detail, ": ")
			default:
				run.Count.Missing++
				c.State, c.Reason = missing, "the cell wrote no document"
			}
			b.Coverage = append(b.Coverage, c)
		}
	}
}

// stateOrder puts failures first.
var stateOrder = []string{missing, result.Failed, result.Invalid, measured, simulated, result.Unsupported}

func (b *builder) finish() {
	b.Coverage = gathered(b.Coverage)
	b.Headlines = b.headlines()
	slices.SortStableFunc(b.Coverage, func(x, y Coverage) int {
		return cmp.Compare(slices.Index(stateOrder, x.State), slices.Index(stateOrder, y.State))
	})
	for _, f := range family.All() {
		for _, v := range f.Views {
			if v := b.views[v.Name]; len(v.Series) > 0 {
				v.merge(b.Cases)
				v.order()
				b.Page.Views = append(b.Page.Views, v.View)
			}
		}
	}
	assignLooks(b.Page.Views)
}

// gathered returns the coverage with one row for the repeats of a case that have the same outcome.
func gathered(all []Coverage) []Coverage {
	at, out := map[Coverage]int{}, make([]Coverage, 0, len(all))
	for _, c := range all {
		alike := c
		alike.ID = ""
		i, ok := at[alike]
		if !ok {
			i = len(out)
			at[alike] = i
			out = append(out, c)
		}
		if out[i].Repeats++; out[i].Repeats > 1 {
			out[i].ID = c.first
		}
	}
	return out
}

// merge adds a series of the medians of each case that has several repeats, and puts those of single repeats last.
func (v *view) merge(cases []Case) {
	groups, keys := map[string][]int{}, make([]string, len(v.Series))
	for i := range v.Series {
		s := &v.Series[i]
		keys[i] = fmt.Sprint(cases[s.Case].first, s.Facets)
		groups[keys[i]] = append(groups[keys[i]], i)
	}
	if len(groups) == len(v.Series) {
		return
	}
	f := &v.Facets[facetRepeat]
	f.Found, f.One = []string{middle}, true
	var singles []Series
	all := make([]Series, 0, len(groups)+len(v.Series))
	for i := range v.Series {
		s, repeats := v.Series[i], groups[keys[i]]
		if len(repeats) == 1 {
			all = append(all, s)
			continue
		}
		if repeats[0] == i {
			list := make([]*figure.Series, len(repeats))
			for k, r := range repeats {
				list[k] = &v.Series[r].Series
			}
			whole := Series{Case: s.Case, Run: s.Run, Facets: slices.Clone(s.Facets), Series: figure.Merge(list)}
			if v.View.View.Fits {
				whole.Fits = fitted(&whole)
			}
			all = append(all, whole)
		}
		number := strconv.Itoa(cases[s.Case].repeat)
		s.Facets = slices.Clone(s.Facets)
		if s.Facets[facetRepeat] = slices.Index(f.Found, number); s.Facets[facetRepeat] < 0 {
			s.Facets[facetRepeat] = len(f.Found)
			f.Found = append(f.Found, number)
		}
		singles = append(singles, s)
	}
	v.Series = slices.Concat(all, singles)
}

// order sorts the values found of each facet in the order of the facet.
func (v *view) order() {
	for i := range v.Facets {
		f := &v.Facets[i]
		if i == facetSKU || i == facetBackend {
			f.Values = slices.Sorted(slices.Values(f.Found))
		}
		if f.Number {
			f.Values = slices.SortedFunc(slices.Values(f.Found), func(a, b string) int {
				return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
			})
		}
		if i == facetRepeat && len(f.Found) > 1 {
			f.Values = append([]string{middle}, slices.DeleteFunc(f.Values, func(s string) bool { return s == middle })...)
		}
		found := f.Found
		f.Found = slices.DeleteFunc(slices.Clone(f.Values), func(s string) bool { return !slices.Contains(found, s) })
		for _, s := range found {
			if !slices.Contains(f.Found, s) {
				f.Found = append(f.Found, s)
			}
		}
		at := make([]int, len(found))
		for k, s := range found {
			at[k] = slices.Index(f.Found, s)
		}
		for k := range v.Series {
			v.Series[k].Facets[i] = at[v.Series[k].Facets[i]]
		}
	}
}
