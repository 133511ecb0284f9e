// Package fold turns the files that the shards of a run left into one NDJSON
// file, and judges whether the run answered what it was asked.
package fold

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/result"
)

// MaxDocument is the largest document a fold reads. Readers of the artifacts
// take 64 MiB for all documents of a cell.
const MaxDocument = 64 << 20

// Record is one document of a run.
type Record struct {
	Source string // file, or file:line in NDJSON
	Head   Head
	// Line is the document as compact JSON, without newline. It is valid until
	// the next record is read.
	Line []byte
}

// Problem is a file, or a line of one, that is no document. A reader goes on
// after it.
type Problem struct {
	Source string
	Err    error
}

func (p *Problem) Error() string { return p.Source + ": " + p.Err.Error() }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// Kind says in a few words what is wrong, without quoting the file.
func (p *Problem) Kind() string {
	switch {
	case errors.Is(p.Err, errTruncated):
		return "truncated JSON"
	case errors.Is(p.Err, errSyntax):
		return "not JSON"
	case errors.Is(p.Err, result.ErrForeign):
		return "JSON that is no document of this program"
	case errors.Is(p.Err, provenance.ErrPrivate):
		return "document that holds something private"
	case errors.Is(p.Err, errClash):
		return "second document for one attempt"
	case errors.Is(p.Err, errOtherRun):
		return "document of another run"
	default:
		return "unreadable"
	}
}

// Read yields the documents below the given paths: all *.json of a directory
// and those below it, in lexical order of their paths, and the lines of an
// NDJSON file in theirs. Whatever is not a publishable document comes as a
// *Problem; any other error ends the sequence.
func Read(paths []string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		r := &reader{yield: yield, screen: provenance.NewScreen(), harmless: map[string]struct{}{}}
		for _, p := range paths {
			if err := r.path(p); err != nil {
				if !errors.Is(err, errStopped) {
					yield(Record{}, err)
				}
				return
			}
		}
	}
}

var errStopped = errors.New("the caller has enough")

type reader struct {
	yield    func(Record, error) bool
	screen   *provenance.Screen
	harmless map[string]struct{} // strings that passed the screen
	buf, raw []byte
}

func (r *reader) path(p string) error {
	info, err := os.Stat(p)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		if strings.HasSuffix(p, ".ndjson") {
			return r.lines(p)
		}
		return r.file(p)
	}
	return filepath.WalkDir(p, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() || !strings.HasSuffix(path, ".json") {
			return nil
		}
		return r.file(path)
	})
}

func (r *reader) file(path string) error {
	data, err := r.content(path)
	if err != nil {
		return r.problem(path, err)
	}
	return r.document(path, data)
}

// content reads a file into the reader's buffer.
func (r *reader) content(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, bare(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	if info.Size() > MaxDocument {
		return nil, fmt.Errorf("%d bytes, more than the %d of the largest document", info.Size(), MaxDocument)
	}
	if n := int(info.Size()); cap(r.raw) < n {
		r.raw = make([]byte, n+n/2)
	}
	n, err := io.ReadFull(f, r.raw[:info.Size()])
	if err != nil {
		return nil, bare(err)
	}
	return r.raw[:n], nil
}

// bare drops the path, which the problem names.
func bare(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

func (r *reader) lines(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 1<<20), MaxDocument)
	n := 0
	for lines.Scan() {
		n++
		if len(lines.Bytes()) == 0 {
			continue
		}
		if err := r.document(fmt.Sprintf("%s:%d", path, n), lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return r.problem(fmt.Sprintf("%s:%d", path, n+1), err)
	}
	return nil
}

func (r *reader) document(source string, data []byte) error {
	line, head, err := scan(data, r.buf, r.text)
	if len(line) > 0 && len(data) > 0 && &line[0] != &data[0] {
		r.buf = line
	}
	if err == nil {
		err = known(head)
	}
	if err != nil {
		return r.problem(source, err)
	}
	return r.emit(Record{Source: source, Head: head, Line: line}, nil)
}

func (r *reader) problem(source string, err error) error {
	return r.emit(Record{}, &Problem{Source: source, Err: err})
}

func (r *reader) emit(rec Record, err error) error {
	if !r.yield(rec, err) {
		return errStopped
	}
	return nil
}

// text screens one raw string. Most strings of a run are the same few, so what
// passed once is remembered, up to a bound.
func (r *reader) text(raw []byte) error {
	if _, ok := r.harmless[string(raw)]; ok {
		return nil
	}
	s := unquote(raw)
	if err := r.screen.Check(s); err != nil {
		return err
	}
	if len(raw) <= 64 && len(r.harmless) < 4096 {
		r.harmless[string(raw)] = struct{}{}
	}
	return nil
}

// known returns an error unless the head is that of a document that a run of
// this program leaves.
func known(h Head) error {
	switch {
	case h.Version != result.Version:
		return fmt.Errorf("%w: version %d", result.ErrForeign, h.Version)
	case h.RecordType != result.RecordEP && h.RecordType != result.RecordCollective:
		return fmt.Errorf("%w: record_type %q", result.ErrForeign, h.RecordType)
	case h.CaseID == "" || h.Ordinal < 1 || h.Status == "":
		return fmt.Errorf("%w: no identity.case_id, identity.attempt_ordinal or outcome.status", result.ErrForeign)
	}
	if _, err := parseTime(h.GeneratedAt); err != nil {
		return fmt.Errorf("%w: generated_at: %w", result.ErrForeign, err)
	}
	return nil
}
