package fold

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/safefile"
)

// Case identifies one case of one run, which all its attempts answer.
type Case struct {
	Run string // run id
	ID  string
}

// Answer is the attempt that counts for a case: the newest success, else the newest attempt.
type Answer struct {
	Case
	Status   string
	Reasons  result.Reasons
	Attempts int
	order    [2]int // run attempt, ordinal
	at       time.Time
}

// Verdict reports whether a run answered all requested cases.
type Verdict struct {
	Documents  int // lines of the fold
	Duplicates int // byte-identical repetitions, omitted
	Problems   []*Problem
	Replaced   []*Problem     // torn documents of cases with a newer document
	Irregular  []*Problem     // not regular files; their cases are missing
	Answers    []Answer       // in order of run and case id
	Runs       []string       // run ids seen, sorted
	Inputs     map[string]int // of each run: index of the first path that has a document of it

	// The following fields are set only if there is a matrix.
	Requested   int      // runnable cases
	Unsupported int      // cases that the matrix marks unsupported
	Missing     []string // runnable case ids without a document
	Unrequested []string // case ids with a document that the matrix does not have

	planned bool // there is a matrix
}

// Failed returns the answers that are not successes.
func (v *Verdict) Failed() []Answer {
	var out []Answer
	for _, a := range v.Answers {
		if a.Status != result.Success {
			out = append(out, a)
		}
	}
	return out
}

// Err returns nil if every requested case succeeded and every regular file was a document of this run. Without a
// matrix there must be a document.
func (v *Verdict) Err() error {
	var parts []string
	for _, p := range []struct {
		n         int
		one, many string
	}{
		{len(v.Missing), "case without a document", "cases without a document"},
		{len(v.Failed()), "case failed", "cases failed"},
		{len(v.Problems), "file that is not a document", "files that are not documents"},
		{len(v.Unrequested), "case that was not requested", "cases that were not requested"},
	} {
		if p.n > 0 {
			parts = append(parts, plural.Count(p.n, p.one, p.many))
		}
	}
	if len(v.Runs) > 1 && v.Requested > 0 {
		parts = append(parts, fmt.Sprintf("documents of %d runs for one matrix", len(v.Runs)))
	}
	if len(parts) == 0 && len(v.Answers) == 0 && !v.planned {
		parts = append(parts, "no document")
	}
	if len(parts) == 0 {
		return nil
	}
	return errors.New(strings.Join(parts, ", "))
}

// Judge collects a verdict from the records of a fold.
type Judge struct {
	want    Expected
	plan    map[string]*plan.Requested // by case id; nil without a matrix
	seed    maphash.Seed
	seen    map[attempt]uint64 // hash of the document
	answers map[Case]*Answer
	v       Verdict
}

var errClash = errors.New("another document has the same attempt")

// attempt is the hashed identity of an attempt, since a fold of many runs has many.
type attempt uint64

// NewJudge returns an empty judge. It refuses documents that do not belong to the matrix m, which may be nil,
// or whose run is not as expected.
func NewJudge(m *plan.Matrix, want Expected) *Judge {
	j := &Judge{
		want: want.of(m), seed: maphash.MakeSeed(), seen: map[attempt]uint64{},
		answers: map[Case]*Answer{},
	}
	if m != nil {
		j.plan = map[string]*plan.Requested{}
		for r := range m.Requested() {
			j.plan[r.Case.CaseID] = r
		}
	}
	return j
}

var errOtherPlan = errors.New("document of another plan")

// planned returns an error if the matrix requests another case under the id of a document, or does not run it.
// A case that the matrix does not have is in the verdict.
func (j *Judge) planned(r Record) error {
	asked := j.plan[r.Head.CaseID]
	if asked == nil {
		return nil
	}
	if asked.Disposition != plan.Runnable {
		return fmt.Errorf("%w: the matrix does not run case %s: %s", errOtherPlan, r.Head.CaseID, asked.Disposition)
	}
	if other := r.Document.Head().Identity.Case.Differences(asked.Case); len(other) > 0 {
		return fmt.Errorf("%w: identity.case has another %s than the matrix", errOtherPlan, strings.Join(other, ", "))
	}
	return nil
}

// Problem records a file that is not a document.
func (j *Judge) Problem(p *Problem) { j.v.Problems = append(j.v.Problems, p) }

// Record records a document and reports whether it belongs in the fold, and whether it counts for its case so
// far. A byte-identical repetition does not belong, and a document of another run is a problem. Two different
// documents for the same attempt both belong, and are a problem.
func (j *Judge) Record(r Record) (belongs, stands bool) {
	h := r.Head
	if err := cmp.Or(j.want.check(h), j.planned(r)); err != nil {
		j.Problem(&Problem{Source: r.Source, Err: err})
		return false, false
	}
	id := attempt(maphash.String(j.seed, fmt.Sprintf("%s\x00%s\x00%s\x00%d", h.RunID, h.RunAttempt, h.CaseID, h.Ordinal)))
	sum := maphash.Bytes(j.seed, r.Line)
	if old, ok := j.seen[id]; ok {
		if old == sum {
			j.v.Duplicates++
			return false, false
		}
		j.Problem(&Problem{Source: r.Source, Err: fmt.Errorf("%w: attempt %d of case %s", errClash, h.Ordinal, h.CaseID)})
	}
	j.seen[id] = sum
	if _, ok := j.v.Inputs[h.RunID]; !ok {
		if j.v.Inputs == nil {
			j.v.Inputs = map[string]int{}
		}
		j.v.Inputs[h.RunID] = r.Input
	}
	j.v.Documents++
	return true, j.answer(h)
}

func (j *Judge) answer(h result.Head) (stands bool) {
	key := Case{Run: h.RunID, ID: h.CaseID}
	next := Answer{Case: key, Status: h.Status, Reasons: h.Reasons, Attempts: 1, order: [2]int{number(h.RunAttempt), h.Ordinal}}
	next.at, _ = parseTime(h.GeneratedAt) // checked by Head.known
	old, ok := j.answers[key]
	if !ok {
		j.answers[key] = &next
		return true
	}
	old.Attempts++
	if !next.beats(*old) {
		return false
	}
	next.Attempts = old.Attempts
	*old = next
	return true
}

// beats reports whether a counts for the case rather than b.
func (a Answer) beats(b Answer) bool {
	if success := a.Status == result.Success; success != (b.Status == result.Success) {
		return success
	}
	if c := slices.Compare(a.order[:], b.order[:]); c != 0 {
		return c > 0
	}
	return a.at.After(b.at)
}

// Verdict returns the verdict, compared with m unless it is nil.
func (j *Judge) Verdict(m *plan.Matrix) *Verdict {
	v := j.v
	v.Problems = nil
	for _, p := range j.v.Problems {
		switch {
		case p.replaced(j.answers):
			v.Replaced = append(v.Replaced, p)
		case p.irregular():
			v.Irregular = append(v.Irregular, p)
		default:
			v.Problems = append(v.Problems, p)
		}
	}
	answered := map[string]bool{}
	for _, a := range j.answers {
		v.Answers = append(v.Answers, *a)
		answered[a.ID] = true
		if !slices.Contains(v.Runs, a.Run) {
			v.Runs = append(v.Runs, a.Run)
		}
	}
	slices.Sort(v.Runs)
	slices.SortFunc(v.Answers, func(a, b Answer) int {
		return cmp.Or(strings.Compare(a.Run, b.Run), strings.Compare(a.ID, b.ID))
	})
	if m == nil {
		return &v
	}
	v.planned = true
	known := map[string]bool{}
	for r := range m.Requested() {
		known[r.Case.CaseID] = true
		if r.Disposition != plan.Runnable {
			v.Unsupported++
			continue
		}
		v.Requested++
		if !answered[r.Case.CaseID] {
			v.Missing = append(v.Missing, r.Case.CaseID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(answered)) {
		if !known[id] {
			v.Unrequested = append(v.Unrequested, id)
		}
	}
	return &v
}

// Names names each run after the path that it was read from; names are those of the paths. Runs of one path are
// told apart by their ids. A run without a name has its id.
func (v *Verdict) Names(names []string) map[string]string {
	out, runs := map[string]string{}, map[string]int{}
	for _, run := range v.Runs {
		name := ""
		if i := v.Inputs[run]; i < len(names) {
			name = names[i]
		}
		out[run] = name
		runs[name]++
	}
	for run, name := range out {
		switch {
		case name == "":
			out[run] = run
		case runs[name] > 1:
			out[run] = name + " " + run
		}
	}
	return out
}

// Fold writes the documents below in, one per line, to out, atomically, and returns the verdict of the run
// compared with m, which may be nil. It omits documents of another run than want. On error nothing was
// written. It removes leftovers of killed folds.
func Fold(in []string, m *plan.Matrix, want Expected, out string) (*Verdict, error) {
	_ = safefile.EndPartial(filepath.Dir(out), nil) // leftovers that cannot be removed do no harm
	var v *Verdict
	err := safefile.WriteAtomic(out, func(f io.Writer) (err error) {
		v, err = write(in, m, want, f)
		return err
	})
	return v, err
}

func write(in []string, m *plan.Matrix, want Expected, f io.Writer) (*Verdict, error) {
	w := bufio.NewWriterSize(f, 1<<20)
	j := NewJudge(m, want)
	for rec, err := range Read(in) {
		var p *Problem
		switch {
		case errors.As(err, &p):
			j.Problem(p)
		case err != nil:
			return nil, err
		default:
			if belongs, _ := j.Record(rec); belongs {
				w.Write(rec.Line)
				w.WriteByte('\n') // a bufio.Writer keeps its first error for Flush
			}
		}
	}
	return j.Verdict(m), w.Flush()
}

func parseTime(s string) (time.Time, error) { return time.Parse(time.RFC3339, s) }

// number parses a run attempt; other text counts as 0.
func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
