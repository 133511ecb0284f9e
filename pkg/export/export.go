// Package export writes the documents of runs in formats of other tools.
package export

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/fold"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/safefile"
)

// Form writes cases in one format.
type Form interface {
	// Add writes a case.
	Add(c Case) error
	// Close writes the rest. It does not close the file.
	Close() error
}

// Case is the attempt that counts for a case of a run.
type Case struct {
	Document result.Document
	Run      string // name of the run
	Attempts int    // at the case in its run
	Source   string // file, or file:line in NDJSON
}

// Rows returns the rows of the tidy table: first one with the number of attempts, so that a case without
// figures has a row too, then one for each figure.
func (c Case) Rows() []Row {
	h := c.Document.Head()
	at, _ := time.Parse(time.RFC3339, h.GeneratedAt) // checked when the document was read
	head := Row{
		Run: c.Run, GeneratedAt: at, CaseID: h.Identity.CaseID, ComparisonKey: h.ComparisonKey,
		SKU: h.Identity.CaseFactors.SKU, Backend: h.Implementation.Name, LibraryVersion: h.LibraryVersion(),
		Family: string(h.Identity.Case.Family), World: known(h.Topology.WorldSize), Nodes: known(h.Topology.Nodes),
		Repeat: known(h.Identity.Repeat), AttemptOrdinal: int64(h.Identity.AttemptOrdinal),
		Outcome: h.Outcome.Status, Reason: string(h.Outcome.Code()),
	}
	if id := h.Identity.AllocationFactors.RunID; id != nil {
		head.RunID = *id
	}
	if attempt := h.Identity.AllocationFactors.RunAttempt; attempt != nil {
		head.RunAttempt = *attempt
	}
	attempts := head
	attempts.Metric, attempts.Stat, attempts.Unit, attempts.Value = "attempts", "count", figure.Dimensionless, float64(c.Attempts)
	attempts.Complete = h.Outcome.Status == result.Success || h.Outcome.Status == result.Invalid
	attempts.Passed = h.Outcome.Status == result.Success
	return append([]Row{attempts}, rowsOf(c.Document, head)...)
}

// forms lists the formats, which are also the extensions of their files.
var forms = []struct {
	format string
	open   func(w io.Writer, program string) (Form, error)
}{
	{"csv", newCSV},
	{"parquet", newParquet},
	{"prom", newPrometheus},
	{"json", newTrace},
}

// Formats returns the names of the formats.
func Formats() []string {
	var all []string
	for _, f := range forms {
		all = append(all, f.format)
	}
	return all
}

// Errors of To and Write.
var (
	// ErrInput is wrapped by the error for documents that cannot be written in the format, such as documents of
	// two runs in a textfile.
	ErrInput = errors.New("nothing was written")
	// ErrNone says that there is no document. The verdict lists what was left out.
	ErrNone = errors.New("no document")
)

// To writes the attempt that counts for each case below in (see fold.Read) to w, in one of Formats. names are the
// names of the paths, for their runs (see fold.Verdict.Names). program names the writing program. The verdict lists the files that are not documents.
func To(w io.Writer, in, names []string, format, program string) (*fold.Verdict, error) {
	i := slices.Index(Formats(), format)
	if i < 0 {
		return nil, fmt.Errorf("unknown format %q: want one of %s", format, strings.Join(Formats(), ", "))
	}
	form, err := forms[i].open(w, program)
	if err != nil {
		return nil, err
	}
	v, err := addAll(in, names, form)
	if err != nil {
		return v, err
	}
	return v, form.Close()
}

// Write is To the file out, which appears whole or, on error, not at all.
func Write(in, names []string, out, format, program string) (v *fold.Verdict, err error) {
	_ = safefile.EndPartial(filepath.Dir(out), nil) // leftovers that cannot be removed do no harm
	err = safefile.WriteAtomic(out, func(w io.Writer) (err error) {
		v, err = To(w, in, names, format, program)
		return err
	})
	return v, err
}

// addAll adds the attempt that counts for each case to form.
func addAll(in, names []string, form Form) (*fold.Verdict, error) {
	verdict, documents, err := fold.Standing(in)
	if err != nil {
		return nil, err
	}
	if len(verdict.Answers) == 0 {
		return verdict, ErrNone
	}
	runs, attempts := verdict.Names(names), map[fold.Case]int{}
	for _, a := range verdict.Answers {
		attempts[a.Case] = a.Attempts
	}
	for rec, err := range documents {
		if err != nil {
			return nil, err
		}
		c := Case{Document: rec.Document, Run: runs[rec.Head.RunID], Attempts: attempts[fold.Case{Run: rec.Head.RunID, ID: rec.Head.CaseID}], Source: rec.Source}
		if err := form.Add(c); err != nil {
			return nil, err
		}
	}
	return verdict, nil
}
