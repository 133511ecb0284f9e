package shard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/regular"
	"github.com/collectivex/collectivex/pkg/result"
)

// caseKey identifies a case within a run.
type caseKey struct {
	id     string
	repeat int
}

func keyOf(c plan.Case) caseKey { return caseKey{c.CaseID, c.Repeat} }

// history is what a results directory already holds.
type history struct {
	attempts map[caseKey]int       // attempts of this run attempt
	finished map[caseKey]bool      // not to be run again
	cases    map[caseKey]plan.Case // as the documents of this run have them
}

// readHistory reads the documents in dir. A case is finished by any document
// of this run attempt, unless the case never had its chance, and by a success
// of an earlier attempt of the run: a re-run gives failed cases another one.
// Files that are no documents are named to warn, and do not count.
func readHistory(dir string, run Run, warn func(string)) (history, error) {
	h := history{attempts: map[caseKey]int{}, finished: map[caseKey]bool{}, cases: map[caseKey]plan.Case{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return h, err
	}
	inspector := newInspector()
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".json" || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		doc, err := readDocument(inspector, filepath.Join(dir, e.Name()))
		if err != nil {
			warn(fmt.Sprintf("%s does not count: %v", e.Name(), err))
			continue
		}
		head := doc.Head()
		allocation := head.Identity.AllocationFactors
		if allocation.RunID == nil || *allocation.RunID != run.RunID {
			continue // another run: nothing is shared with it
		}
		key := keyOf(head.Identity.Case)
		h.cases[key] = head.Identity.Case
		if allocation.RunAttempt != nil && *allocation.RunAttempt == run.RunAttempt {
			h.attempts[key] = max(h.attempts[key], head.Identity.AttemptOrdinal)
			h.finished[key] = h.finished[key] || !untried(head.Outcome)
		}
		h.finished[key] = h.finished[key] || head.Outcome.Status == result.Success
	}
	return h, nil
}

// newInspector returns the inspector of documents that a run left: the one that
// folds have.
func newInspector() *result.Inspector {
	x := result.NewInspector(provenance.NewScreen().Check)
	x.Whole = true
	return x
}

// readDocument returns the document in the file at path, if it counts.
func readDocument(x *result.Inspector, path string) (result.Document, error) {
	data, err := regular.Read(path, result.MaxDocument)
	if err != nil {
		return nil, err
	}
	in, err := x.Inspect(data)
	if err != nil {
		return nil, err
	}
	return in.Document()
}

// admits says whether a shard may run the cases: the documents of its run
// answer these cases and no others of the same names, and there are none of
// them unless it resumes.
func (h history) admits(cases []plan.Requested, resume bool) error {
	for _, q := range cases {
		old, known := h.cases[keyOf(q.Case)]
		if !known {
			continue
		}
		if !resume {
			return ErrExists
		}
		if !sameCase(old, q.Case) {
			return fmt.Errorf("%w: case %s was planned otherwise then", ErrOther, q.Case.CaseID)
		}
	}
	return nil
}

// sameCase compares cases as documents and matrices spell them.
func sameCase(a, b plan.Case) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// untried reports whether a case failed for want of time or of a fit machine.
func untried(o result.Outcome) bool {
	code := codeOf(o)
	return o.Status == result.Failed && (code == result.ReasonSkipped || code == result.ReasonEnvironment)
}

// codeOf is the code of an outcome's first reason.
func codeOf(o result.Outcome) result.Reason {
	if len(o.Reasons) == 0 {
		return ""
	}
	code, _, _ := strings.Cut(o.Reasons[0], ": ")
	return result.Reason(code)
}

// lockResults makes dir and keeps every other shard out of it. What a killed
// shard left half-written is removed.
func lockResults(dir string) (unlock func() error, err error) {
	if err := os.MkdirAll(filepath.Join(dir, samplesDir), 0o755); err != nil {
		return nil, err
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		d.Close()
		return nil, fmt.Errorf("another shard writes to %s: %w", dir, err)
	}
	if err := tidy(dir); err != nil {
		d.Close()
		return nil, err
	}
	return d.Close, nil
}

// tidy removes partial files, and samples whose document was never written.
func tidy(dir string) error {
	samples := filepath.Join(dir, samplesDir)
	err := errors.Join(result.RemovePartial(dir), result.RemovePartial(samples))
	entries, e := os.ReadDir(samples)
	err = errors.Join(err, e)
	for _, e := range entries {
		doc := filepath.Join(dir, strings.TrimSuffix(e.Name(), samplesSuffix)+".json")
		if _, e2 := os.Stat(doc); errors.Is(e2, fs.ErrNotExist) {
			err = errors.Join(err, os.Remove(filepath.Join(samples, e.Name())))
		}
	}
	return err
}

// RunIn returns the run id of the documents in dir, so that a shard outside of
// Actions resumes its own run, or fresh where there are none.
func RunIn(dir, fresh string) (string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	if err != nil {
		return "", err
	}
	inspector := newInspector()
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".json" {
			continue
		}
		doc, err := readDocument(inspector, filepath.Join(dir, e.Name()))
		if err == nil && doc.Head().Identity.AllocationFactors.RunID != nil {
			return *doc.Head().Identity.AllocationFactors.RunID, nil
		}
	}
	return fresh, nil
}
