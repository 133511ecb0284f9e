// Package prune moves old runs and old samples out of a directory of results. It deletes
// nothing.
package prune

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/dirlock"
	"github.com/collectivex/collectivex/pkg/fold"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/safefile"
)

// Retention selects the runs and samples that stay.
type Retention struct {
	Results string // holds runs: directories with documents, and NDJSON files
	To      string // directory for the other runs; on the same file system, outside of Results
	// Runs is how many runs with a success stay for each case and comparison key, from the
	// newest on; for a case that never succeeded, how many runs with an attempt. At least 1.
	Runs int
	// Samples is the same for the raw samples of the runs that stay. At least 1.
	Samples   int
	Baselines []string // documents (see fold.Read) whose runs stay, samples and all
}

// Entry is one name in the results, and whether it stays.
type Entry struct {
	Name string   `json:"name"`
	Runs []string `json:"runs"` // run ids of its documents, sorted
	// Documents counts its documents; Newest is when the newest was written.
	Documents int       `json:"documents"`
	Newest    time.Time `json:"newest,omitzero"`
	// Keep is why the entry stays; empty if it is moved.
	Keep string `json:"keep"`
	// Samples are the directories of raw samples that are moved although the entry stays,
	// relative to it.
	Samples []string `json:"samples"`

	path string
	keys map[key]newest
}

// Plan is what Apply will do.
type Plan struct {
	Entries []*Entry `json:"entries"` // in order of their names

	retention Retention
}

// key identifies figures that are compared.
type key struct{ caseID, comparison string }

// newest holds the times of the newest success and the newest attempt of an entry at a case; zero
// without one.
type newest struct{ success, attempt time.Time }

// Reasons to keep an entry.
const (
	keepForeign  = "not a run"
	keepDamaged  = "has files that cannot be read"
	keepInUse    = "in use, or of another user"
	keepBaseline = "a baseline needs it"
)

// ErrUsage is wrapped by errors that a person can fix with other arguments.
var ErrUsage = errors.New("nothing was moved")

// New decides which entries of r.Results stay. It changes nothing.
func New(r Retention) (*Plan, error) {
	if r.Runs < 1 || r.Samples < 1 {
		return nil, fmt.Errorf("%w: the newest run of a case always stays; keep at least 1", ErrUsage)
	}
	if err := checkPlaces(r); err != nil {
		return nil, err
	}
	needed, err := runsOf(r.Baselines)
	if err != nil {
		return nil, err
	}
	names, err := os.ReadDir(r.Results)
	if err != nil {
		return nil, err
	}
	p := &Plan{retention: r, Entries: []*Entry{}}
	for _, n := range names {
		if n.Name() == dirlock.Marker {
			continue
		}
		e := &Entry{Name: n.Name(), Runs: []string{}, Samples: []string{}, path: filepath.Join(r.Results, n.Name())}
		if err := e.read(n); err != nil {
			return nil, err
		}
		if e.Keep == "" && slices.ContainsFunc(e.Runs, func(id string) bool { return needed[id] }) {
			e.Keep = keepBaseline
		}
		p.Entries = append(p.Entries, e)
	}
	stays := newestOf(p.Entries, r.Runs)
	samples := newestOf(p.Entries, r.Samples)
	for _, e := range p.Entries {
		if e.Keep != "" {
			continue
		}
		e.Keep = stays[e]
		if e.Keep != "" && samples[e] == "" {
			if e.Samples, err = e.sampleDirs(); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// checkPlaces returns an error unless runs can be moved from r.Results to r.To.
func checkPlaces(r Retention) error {
	results, err := filepath.EvalSymlinks(r.Results)
	if err != nil {
		return fmt.Errorf("%w: %s: %w; name the directory that holds runs", ErrUsage, r.Results, safefile.Cause(err))
	}
	if info, err := os.Stat(results); err == nil && !info.IsDir() {
		return fmt.Errorf("%w: %s is not a directory; name the directory that holds runs", ErrUsage, r.Results)
	}
	for _, name := range []string{dirlock.Marker, plan.FileName} {
		if _, err := os.Lstat(filepath.Join(results, name)); err == nil {
			return fmt.Errorf("%w: %s is itself a run, since it has %s; name the directory that holds runs", ErrUsage, r.Results, name)
		}
	}
	to, err := filepath.Abs(r.To)
	if err != nil {
		return err
	}
	parent, err := filepath.EvalSymlinks(existing(to))
	if err != nil {
		return err
	}
	if results, err = filepath.Abs(results); err != nil {
		return err
	}
	if rel, err := filepath.Rel(results, parent); err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return fmt.Errorf("%w: %s is inside of %s; name a directory beside it", ErrUsage, r.To, r.Results)
	}
	same, err := sameFileSystem(results, parent)
	if err == nil && !same {
		err = fmt.Errorf("%w: %s is on another file system than %s, so runs cannot be moved by renaming; name a directory on the same one", ErrUsage, r.To, r.Results)
	}
	return err
}

func existing(path string) string {
	for {
		if _, err := os.Lstat(path); err == nil || filepath.Dir(path) == path {
			return path
		}
		path = filepath.Dir(path)
	}
}

// runsOf returns the ids of the runs of the documents below paths. It fails if a document cannot
// be read or a path has none.
func runsOf(paths []string) (map[string]bool, error) {
	ids := map[string]bool{}
	for _, path := range paths {
		found := false
		for rec, err := range fold.Read([]string{path}) {
			if err != nil {
				return nil, fmt.Errorf("%w: baseline: %w", ErrUsage, err)
			}
			ids[rec.Head.RunID], found = true, true
		}
		if !found {
			return nil, fmt.Errorf("%w: baseline %s has no documents", ErrUsage, path)
		}
	}
	return ids, nil
}

func (e *Entry) read(n fs.DirEntry) error {
	if !n.IsDir() && (!n.Type().IsRegular() || filepath.Ext(e.Name) != ".ndjson") {
		e.Keep = keepForeign
		return nil
	}
	if err := e.documents(); err != nil {
		return err
	}
	if e.Keep != "" {
		return nil
	}
	held, err := take(e.path)
	if errors.Is(err, dirlock.ErrHeld) {
		e.Keep = keepInUse
		return nil
	}
	return errors.Join(err, held.release())
}

// documents reads the documents of an entry, and keeps an entry that is not a readable run.
func (e *Entry) documents() error {
	e.keys = map[key]newest{}
	for rec, err := range fold.Read([]string{e.path}) {
		if _, ok := errors.AsType[*fold.Problem](err); ok {
			e.Keep = keepDamaged
			continue
		} else if err != nil {
			return err
		}
		e.add(rec.Head, rec.Document.Head().ComparisonKey)
	}
	slices.Sort(e.Runs)
	e.Runs = slices.Compact(e.Runs)
	if e.Keep == "" && e.Documents == 0 {
		e.Keep = keepForeign
	}
	return nil
}

func (e *Entry) add(h result.Head, comparison string) {
	at, _ := time.Parse(time.RFC3339, h.GeneratedAt) // the inspector has parsed it
	e.Documents++
	e.Runs = append(e.Runs, h.RunID)
	e.Newest = later(e.Newest, at)
	k := key{h.CaseID, comparison}
	n := e.keys[k]
	n.attempt = later(n.attempt, at)
	if h.Status == result.Success {
		n.success = later(n.success, at)
	}
	e.keys[k] = n
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// newestOf returns the entries to keep so that the newest n of each key stay, with the reason of
// each. Entries that stay for another reason count among the n.
func newestOf(entries []*Entry, n int) map[*Entry]string {
	type candidate struct {
		e  *Entry
		at time.Time
	}
	successes, attempts := map[key][]candidate{}, map[key][]candidate{}
	for _, e := range entries {
		for k, at := range e.keys {
			attempts[k] = append(attempts[k], candidate{e, at.attempt})
			if !at.success.IsZero() {
				successes[k] = append(successes[k], candidate{e, at.success})
			}
		}
	}
	stays := map[*Entry]string{}
	for k, tried := range attempts {
		why, from := "newest success of a case", successes[k]
		if len(from) == 0 {
			why, from = "newest attempt at a case that never succeeded", tried
		}
		slices.SortStableFunc(from, func(a, b candidate) int { return b.at.Compare(a.at) })
		for _, c := range from[:min(n, len(from))] {
			if why > stays[c.e] { // the success, if there are both
				stays[c.e] = why
			}
		}
	}
	return stays
}

// sampleDirs returns the directories of raw samples below an entry, relative to it.
func (e *Entry) sampleDirs() (dirs []string, err error) {
	dirs = []string{}
	err = filepath.WalkDir(e.path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || d.Name() != result.SamplesDir || path == e.path {
			return err
		}
		rel, err := filepath.Rel(e.path, path)
		if err != nil {
			return err
		}
		dirs = append(dirs, rel)
		return fs.SkipDir
	})
	return dirs, err
}
