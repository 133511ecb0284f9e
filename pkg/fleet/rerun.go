package fleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/fold"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/plural"
)

// Unanswered reads the documents in the NDJSON file at path and returns the ids of the
// cases of one run that have no successful document; with a plan m, also the runnable cases
// of the plan without a document. run may be 0 if the file has documents of one run only,
// whose id Unanswered returns. A line that is not a document of this program is an error,
// since it may be the success of a case.
func Unanswered(path string, m *plan.Matrix, run int64) (int64, []string, error) {
	j := fold.NewJudge(nil, fold.Expected{}) // a fetched matrix has no digest to compare
	for rec, err := range fold.Read([]string{path}) {
		if errors.Is(err, fs.ErrNotExist) {
			return 0, nil, fmt.Errorf("%s: no such file; name the dataset of the run: 'cxgen fetch RUN -o DIR' writes it to DIR/aggregate/*.ndjson", path)
		}
		if p, ok := errors.AsType[*fold.Problem](err); ok {
			return 0, nil, fmt.Errorf("%w; it may have been the success of a case: fetch the dataset again", p)
		}
		if err != nil {
			return 0, nil, err
		}
		j.Record(rec)
	}
	v := j.Verdict(nil)
	if run == 0 {
		if len(v.Runs) != 1 {
			return 0, nil, fmt.Errorf("%s has documents of %s; say which one to re-run with --run", path, plural.Count(len(v.Runs), "run", "runs"))
		}
		of, err := ParseRun(v.Runs[0])
		if err != nil {
			return 0, nil, fmt.Errorf("%s: its documents are not of a run on GitHub: run id %q", path, v.Runs[0])
		}
		run = of.ID
	}
	name := strconv.FormatInt(run, 10)
	bad, answered := ids{}, ids{}
	for _, a := range v.Answers {
		answered[a.ID] = answered[a.ID] || a.Run == name
	}
	for _, a := range v.Failed() {
		if a.Run == name {
			bad[a.ID] = true
		}
	}
	if m != nil {
		for q := range m.Requested() {
			if q.Disposition == plan.Runnable && !answered[q.Case.CaseID] {
				bad[q.Case.CaseID] = true
			}
		}
	}
	return run, slices.Sorted(maps.Keys(bad)), nil
}

// RerunFailed runs the failed jobs of a run again, as a further attempt. It sends the request
// once; if the answer is lost, the error says so.
func (c *Client) RerunFailed(ctx context.Context, run int64) error {
	_, err := c.gh.Actions.RerunFailedJobsByID(ctx, c.owner, c.name, run)
	if err == nil {
		return nil
	}
	if lost, ok := errors.AsType[*LostError](err); ok {
		return fmt.Errorf("re-run %d: %w; look at the run's attempts before you re-run it again", run, lost)
	}
	if ctx.Err() != nil {
		return &Interrupted{fmt.Sprintf("interrupted while starting the re-run of %d: it may have started; look at the run's attempts before you re-run it again", run)}
	}
	forbidden := statusOf(err) == http.StatusForbidden
	if err = c.failed(ctx, fmt.Sprintf("re-run %d", run), err); forbidden {
		err = fmt.Errorf("%w; a run that is not over, is older than 30 days or was run 50 times cannot be run again: use --dispatch", err)
	}
	return err
}

// FailedCells returns the cells whose newest job failed, by name.
func (c *Client) FailedCells(ctx context.Context, run int64) ([]string, error) {
	jobs, err := c.jobs(ctx, run)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, g := range jobs {
		if j := jobOf(g); j.Failed() && !notCell(j.Name) {
			out = append(out, j.Name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Cover is one dispatch: its filters, and the cases that it would run.
type Cover struct {
	Filters planner.Filters
	Cases   []string // wanted ones, sorted
	Others  []string // further ones, sorted; never nil
}

// Covers returns dispatches that together plan every wanted case, and the cases that no
// suite of the definitions has any more. Each dispatch is of one suite and has at most one
// value of each filter, as the workflow's inputs do. It is split if that saves cases that
// are not wanted.
func Covers(cat *catalog.Catalog, wanted []string) (covers []Cover, gone []string, err error) {
	left := ids{}
	for _, id := range wanted {
		left[id] = true
	}
	for i := range cat.Suites {
		if len(left) == 0 {
			break
		}
		s := suite{cat: cat, name: cat.Suites[i].Name}
		if s.all, err = s.plan(planner.Only{}); err != nil {
			return nil, nil, err
		}
		mine := left.and(s.all)
		if len(mine) == 0 {
			continue
		}
		s.measure()
		covers = append(covers, s.cover(draft{mine, s.all, planner.Only{planner.FilterSuite: {s.name}}})...)
		left.remove(mine)
	}
	return covers, slices.Sorted(maps.Keys(left)), nil
}

type ids map[string]bool

func (a ids) and(b ids) ids {
	out := maps.Clone(a)
	maps.DeleteFunc(out, func(id string, _ bool) bool { return !b[id] })
	return out
}

func (a ids) remove(b ids) { maps.DeleteFunc(a, func(id string, _ bool) bool { return b[id] }) }

// suite knows which cases of a suite each value of each filter keeps.
type suite struct {
	cat  *catalog.Catalog
	name string
	all  ids
	keep map[string]map[string]ids // by filter and value
}

func (s *suite) plan(only planner.Only) (ids, error) {
	only = maps.Clone(only)
	only[planner.FilterSuite] = []string{s.name}
	m, err := planner.Resolve(s.cat, planner.Filters{Only: only}, planner.Machine{})
	if err != nil {
		return nil, err
	}
	out := ids{}
	for q := range m.Requested() {
		if q.Disposition == plan.Runnable {
			out[q.Case.CaseID] = true
		}
	}
	return out, nil
}

// measure plans once for each value of each filter, since only the planner knows what a
// filter keeps.
func (s *suite) measure() {
	s.keep = map[string]map[string]ids{}
	for _, f := range planner.AllFilters() {
		if f.Name == planner.FilterSuite || f.Excludes != "" {
			continue
		}
		s.keep[f.Name] = map[string]ids{}
		for _, v := range f.Choices(s.cat) {
			// A number that the suite does not have is an error, and keeps nothing.
			if kept, err := s.plan(planner.Only{f.Name: {v}}); err == nil && len(kept) > 0 {
				s.keep[f.Name][v] = kept
			}
		}
	}
}

// draft is a dispatch in the making.
type draft struct {
	wanted, kept ids // kept: what its filters keep
	only         planner.Only
}

// others counts the cases of the drafts that are not wanted.
func others(drafts []draft) int {
	n := 0
	for _, p := range drafts {
		n += len(p.kept) - len(p.wanted)
	}
	return n
}

// cover narrows a dispatch, and splits it by the filter that saves the most unwanted cases,
// until no split saves any.
func (s *suite) cover(p draft) []Cover {
	p = s.narrow(p)
	best := []draft{p}
	for _, f := range slices.Sorted(maps.Keys(s.keep)) {
		if drafts := s.split(f, p); drafts != nil && others(drafts) < others(best) {
			best = drafts
		}
	}
	var out []Cover
	if len(best) > 1 {
		for _, p := range best {
			out = append(out, s.cover(p)...)
		}
		return out
	}
	unwanted := maps.Clone(p.kept)
	unwanted.remove(p.wanted)
	return []Cover{{
		Filters: planner.Filters{Only: p.only}, Cases: slices.Sorted(maps.Keys(p.wanted)),
		Others: append([]string{}, slices.Sorted(maps.Keys(unwanted))...),
	}}
}

// narrow sets each filter that has a value which keeps all wanted cases and fewer others.
func (s *suite) narrow(p draft) draft {
	p.only = maps.Clone(p.only)
	for _, f := range slices.Sorted(maps.Keys(s.keep)) {
		if len(p.only[f]) > 0 {
			continue
		}
		for _, v := range slices.Sorted(maps.Keys(s.keep[f])) {
			if len(p.wanted.and(s.keep[f][v])) < len(p.wanted) {
				continue
			}
			if kept := p.kept.and(s.keep[f][v]); len(kept) < len(p.kept) {
				p.only[f], p.kept = []string{v}, kept
			}
			break
		}
	}
	return p
}

// split divides a dispatch by the values of a filter; nil if they do not keep all wanted
// cases, or if the filter is set.
func (s *suite) split(f string, p draft) []draft {
	if len(p.only[f]) > 0 {
		return nil
	}
	left := maps.Clone(p.wanted)
	var out []draft
	for _, v := range slices.Sorted(maps.Keys(s.keep[f])) {
		mine := left.and(s.keep[f][v])
		if len(mine) == 0 {
			continue
		}
		only := maps.Clone(p.only)
		only[f] = []string{v}
		out = append(out, s.narrow(draft{mine, p.kept.and(s.keep[f][v]), only}))
		left.remove(mine)
	}
	if len(left) > 0 {
		return nil
	}
	return out
}
