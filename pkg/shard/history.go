package shard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/dirlock"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/safefile"
)

// history is what a results directory already contains.
type history struct {
	cases map[string]*past // by case id, which includes the repeat
	other string           // digest of another matrix that a document names
}

// past is the history of a case in this run.
type past struct {
	planned  *plan.Case // as in its documents; nil if there are none
	attempts int        // in this run attempt
	finished bool       // not to be run again
	passed   bool       // has a success
}

func (h history) of(c plan.Case) *past {
	if h.cases[c.CaseID] == nil {
		h.cases[c.CaseID] = &past{}
	}
	return h.cases[c.CaseID]
}

// readHistory reads the documents in dir. A case is finished by any document of this run
// attempt, unless the case was never tried, and by a success of an earlier run attempt: a
// re-run tries failed cases again. Files that are not documents are reported to warn, and
// do not count.
func readHistory(dir string, run Run, warn func(string)) (history, error) {
	h := history{cases: map[string]*past{}}
	err := eachDocument(dir, warn, func(head *result.Envelope) {
		allocation := head.Identity.AllocationFactors
		if allocation.RunID == nil || *allocation.RunID != run.RunID {
			return // another run
		}
		planned := head.Identity.Case
		p := h.of(planned)
		p.planned = &planned
		if named := allocation.MatrixSHA256; named != "" && run.MatrixSHA256 != "" && named != run.MatrixSHA256 {
			h.other = named
		}
		if allocation.RunAttempt != nil && *allocation.RunAttempt == run.RunAttempt {
			p.attempts = max(p.attempts, head.Identity.AttemptOrdinal)
			p.finished = p.finished || !untried(head.Outcome)
		}
		p.passed = p.passed || head.Outcome.Status == result.Success
		p.finished = p.finished || p.passed
	})
	return h, err
}

// eachDocument calls f with the head of each document in dir, in the order of their names. It
// calls warn for a file with the name of a document that is not one.
func eachDocument(dir string, warn func(string), f func(*result.Envelope)) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	inspector := newInspector()
	for _, e := range entries {
		if !result.IsDocumentName(e.Name()) {
			continue
		}
		doc, err := readDocument(inspector, filepath.Join(dir, e.Name()))
		if err != nil {
			warn(fmt.Sprintf("%s does not count: %v", e.Name(), err))
			continue
		}
		f(doc.Head())
	}
	return nil
}

// newInspector returns an inspector with the rules of fold.
func newInspector() *result.Inspector {
	return result.NewInspector(provenance.NewScreen().Check)
}

// readDocument returns the document in the file at path, if it counts.
func readDocument(x *result.Inspector, path string) (result.Document, error) {
	data, err := safefile.Read(path, result.MaxDocument)
	if err != nil {
		return nil, err
	}
	in, err := x.Inspect(data)
	if err != nil {
		return nil, err
	}
	return in.Document, nil
}

// admits returns nil if a shard may run the cases: the run has no documents of them, or the
// shard resumes and the documents are of the same cases and matrix.
func (h history) admits(cases []plan.Requested, matrix string, resume bool) error {
	for _, q := range cases {
		switch old := h.of(q.Case).planned; {
		case old == nil:
		case !resume:
			return ErrExists
		case len(old.Differences(q.Case)) > 0:
			return fmt.Errorf("%w: case %s was planned differently then", ErrOther, q.Case.CaseID)
		}
	}
	if h.other != "" {
		return fmt.Errorf("%w: documents name the matrix %.12s, not %.12s", ErrOther, h.other, matrix)
	}
	return nil
}

// untried reports whether a case failed only because there was no time, not enough of it, or no
// suitable machine for it.
func untried(o result.Outcome) bool {
	code := o.Code()
	return o.Status == result.Failed && (code == result.ReasonSkipped || code == result.ReasonEnvironment || slices.Contains(o.Reasons, cutOff))
}

// takeResults claims dir, which it creates if it is missing, so that no other shard can use
// it. It then removes or completes what a killed shard left unfinished.
func takeResults(ctx context.Context, dir string) (*dirlock.Claim, error) {
	c, err := dirlock.Take(ctx, dir, dirlock.Results)
	if err != nil {
		return nil, err
	}
	if err := tidy(dir); err != nil {
		return nil, errors.Join(err, c.Release())
	}
	return c, nil
}

// tidy removes partial files. Samples are complete on the disk before their document
// appears, so samples that have a document are renamed into place instead.
func tidy(dir string) error {
	samples := filepath.Join(dir, result.SamplesDir)
	if err := os.Mkdir(samples, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err := os.Lstat(samples); err != nil || !info.IsDir() {
		return errors.Join(err, fmt.Errorf("%s is not a directory; remove it, or use another results directory", samples))
	}
	return errors.Join(safefile.EndPartial(dir, nil), safefile.EndPartial(samples, func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, strings.TrimSuffix(name, result.SamplesSuffix)+".json"))
		return err == nil
	}))
}

// RunsIn returns the runs of the documents in dir: the run attempt by run id. A later shard
// can continue under them.
func RunsIn(dir string) (map[string]string, error) {
	runs := map[string]string{}
	err := eachDocument(dir, func(string) {}, func(head *result.Envelope) {
		if of := head.Identity.AllocationFactors; of.RunID != nil && of.RunAttempt != nil {
			runs[*of.RunID] = *of.RunAttempt
		}
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return runs, err
}
