// Package fold merges the files that the shards of a run wrote into one NDJSON file, and judges whether the run
// answered all requested cases.
package fold

import (
	"bufio"
	"bytes"
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
	"github.com/collectivex/collectivex/pkg/safefile"
	"github.com/collectivex/collectivex/pkg/strictjson"
)

// Record is one document of a run.
type Record struct {
	Source string // file, or file:line in NDJSON
	Input  int    // index of the path that it is below
	result.Inspected
}

// Problem is a file, or a line of one, that is not a document. Reading continues after it.
type Problem struct {
	Source string
	Err    error
}

func (p *Problem) Error() string { return p.Source + ": " + p.Err.Error() }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// kinds describe problems in a few words.
var kinds = []struct {
	err  error
	text string
}{
	{strictjson.ErrTruncated, "truncated JSON"},
	{strictjson.ErrSyntax, "not JSON"},
	{result.ErrForeign, "JSON that is not a document of this program"},
	{result.ErrDigest, "document that was changed after it was written"},
	{result.ErrInvalid, "invalid document"},
	{provenance.ErrPrivate, "document that holds something private"},
	{errClash, "second document for one attempt"},
	{errOtherRun, "document of another run"},
	{errOtherPlan, "document of another plan"},
}

// Kind describes the problem in a few words, without quoting the file.
func (p *Problem) Kind() string {
	for _, k := range kinds {
		if errors.Is(p.Err, k.err) {
			return k.text
		}
	}
	return "unreadable"
}

// irregular reports whether p is not a regular file but, for example, a FIFO, a dangling link or a link to a
// directory.
func (p *Problem) irregular() bool {
	return errors.Is(p.Err, safefile.ErrIrregular) || errors.Is(p.Err, fs.ErrNotExist)
}

// Read yields the documents below the given paths: all *.json below a directory except plans (plan.FileName),
// in lexical order of their paths, the lines of an NDJSON file in order, and the documents in a file of
// `cxrun bench -J`. A file or line that is not an acceptable document (see result.Inspector) is yielded as a
// *Problem, and so is a link to a directory, which is not followed. Any other error ends the sequence.
func Read(paths []string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		r := &reader{yield: yield, inspector: result.NewInspector(provenance.NewScreen().Check)}
		for i, p := range paths {
			r.input = i
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
	yield     func(Record, error) bool
	inspector *result.Inspector
	input     int
	raw       []byte
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
	// WalkDir follows no links, but a link named by the caller should be followed.
	if link, err := os.Lstat(p); err == nil && link.Mode()&fs.ModeSymlink != 0 {
		p += string(filepath.Separator)
	}
	return filepath.WalkDir(p, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			return nil
		case result.IsDocumentName(e.Name()):
			return r.file(path)
		case linksToDirectory(path, e):
			return r.problem(path, errLinkedDir)
		default:
			return nil
		}
	})
}

var errLinkedDir = fmt.Errorf("%w: links to directories are not followed; name it with --in", safefile.ErrIrregular)

func linksToDirectory(path string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (r *reader) file(path string) error {
	data, err := safefile.ReadInto(r.raw, path, result.MaxDocument)
	if err != nil {
		return r.problem(path, bare(err))
	}
	r.raw = data
	return r.document(path, data)
}

// bare returns err without the path, which the Problem already names.
func bare(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// lines reads an NDJSON file. A line that is too long is a problem of its own.
func (r *reader) lines(path string) error {
	f, err := safefile.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	for n := 1; ; n++ {
		line, size, err := r.line(in)
		source := fmt.Sprintf("%s:%d", path, n)
		switch {
		case size > result.MaxDocument:
			err = errors.Join(err, r.problem(source, fmt.Errorf("%d bytes, more than the limit of %d", size, result.MaxDocument)))
		case len(line) > 0:
			err = errors.Join(err, r.document(source, line))
		}
		if errors.Is(err, io.EOF) && !errors.Is(err, errStopped) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// line returns the next line without its newline, and its size. A line above result.MaxDocument is read and
// dropped.
func (r *reader) line(in *bufio.Reader) (line []byte, size int, err error) {
	line, err = in.ReadSlice('\n')
	if size = len(line); !errors.Is(err, bufio.ErrBufferFull) {
		return bytes.TrimSuffix(line, []byte("\n")), size, err
	}
	r.raw = append(r.raw[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = in.ReadSlice('\n')
		if size += len(line); size <= result.MaxDocument {
			r.raw = append(r.raw, line...)
		}
	}
	return bytes.TrimSuffix(r.raw, []byte("\n")), size, err
}

// document reads a document, or those in the JSON of `cxrun bench`.
func (r *reader) document(source string, data []byte) error {
	enclosed, err := result.Enclosed(data)
	if err != nil {
		return r.problem(source, err)
	}
	for i, line := range enclosed {
		if err := r.inspect(fmt.Sprintf("%s#%d", source, i+1), line); err != nil {
			return err
		}
	}
	if enclosed != nil {
		return nil
	}
	return r.inspect(source, data)
}

func (r *reader) inspect(source string, data []byte) error {
	d, err := r.inspector.Inspect(data)
	if err != nil {
		return r.problem(source, err)
	}
	return r.emit(Record{Source: source, Input: r.input, Inspected: d}, nil)
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
