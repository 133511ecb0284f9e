package plan

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"sync"

	"github.com/collectivex/collectivex/pkg/safefile"
	"github.com/collectivex/collectivex/pkg/strictjson"
)

// FileName is the name of a matrix file in a directory of documents, whose readers skip it.
const FileName = "matrix_full.json"

// Write writes the matrix as JSON, one case or cell per line. The generator must be set.
func (m *Matrix) Write(w io.Writer) error {
	if m.Generator.Program == "" || m.Generator.Version == "" || m.Generator.Format != Format {
		return fmt.Errorf("matrix has no generator: %+v", m.Generator)
	}
	out := bufio.NewWriterSize(w, 1<<16)
	gen, err := json.Marshal(m.Generator)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "{\"version\":%d,\n\"generator\":%s", m.Version, gen)
	if err := writeList(out, "requested_cases", m.RequestedCases); err != nil {
		return err
	}
	if err := writeList(out, "requested_other", m.RequestedOther); err != nil {
		return err
	}
	if err := writeList(out, "include", m.Include); err != nil {
		return err
	}
	fmt.Fprint(out, "}\n")
	return out.Flush()
}

// writeList writes a list under its name, one element per line.
func writeList[T any](out *bufio.Writer, name string, list []T) error {
	fmt.Fprintf(out, ",\n%q:[\n", name)
	for i := range list {
		text, err := json.Marshal(&list[i])
		if err != nil {
			return err
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(text)
		out.WriteByte('\n')
	}
	return out.WriteByte(']')
}

// WriteFile writes the matrix to path atomically, and sets its digest.
func (m *Matrix) WriteFile(path string) error {
	sum := sha256.New()
	err := safefile.WriteAtomic(path, func(w io.Writer) error { return m.Write(io.MultiWriter(w, sum)) })
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err // without the name of a temporary file
	}
	if err != nil {
		return fmt.Errorf("write matrix %s: %w", path, err)
	}
	m.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// maxMatrix is the maximum size of a matrix file, in bytes: ten times a plan of 100,000 cases.
const maxMatrix = 1 << 30

var matrixForm = sync.OnceValue(func() *strictjson.Form { return strictjson.New(Matrix{}, Types()) })

// generated is the part of a matrix that determines which program reads it.
type generated struct {
	Version   int       `json:"version"`
	Generator Generator `json:"generator"`
}

func parse(data []byte, version string, archived bool) (*Matrix, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("matrix: empty; make it with 'cxgen matrix -o FILE'")
	}
	data, err := strictjson.Screen(data, nil)
	var made generated
	if err == nil {
		err = strictjson.Unmarshal(data, &made)
	}
	by := made.Generator
	ours := by.Version == version
	switch {
	case errors.Is(err, strictjson.ErrTruncated):
		return nil, errors.New("matrix: truncated; make it again with 'cxgen matrix -o FILE'")
	case err != nil:
		return nil, fmt.Errorf("matrix: %w", err)
	case made.Version != MatrixVersion:
		return nil, fmt.Errorf("matrix: version %d, want %d", made.Version, MatrixVersion)
	case by.Format != Format:
		return nil, fmt.Errorf("matrix: format %d, this program reads %d", by.Format, Format)
	case !ours && !archived:
		return nil, fmt.Errorf("matrix: made by %s %s, this program is %s; use one version for all jobs of a run", by.Program, by.Version, version)
	}
	m := Matrix{Archived: !ours}
	if ours {
		err = matrixForm().Decode(data, &m)
	} else {
		err = strictjson.Unmarshal(data, &m)
	}
	if err != nil {
		return nil, fmt.Errorf("matrix: %w", err)
	}
	return &m, m.check()
}

// ReadFile reads the matrix in the file at path, which this version of the program wrote. It refuses another
// format or version, violations of the schema, and cells and cases that are inconsistent.
func ReadFile(path, version string) (*Matrix, error) { return readFile(path, version, false) }

// ReadArchived reads the matrix in the file at path, which any version of the program wrote, for readers of
// results. A matrix of this version is checked as in ReadFile. In one of another version, unknown members are
// dropped, and ids and lists of cases are kept as written.
func ReadArchived(path, version string) (*Matrix, error) { return readFile(path, version, true) }

func readFile(path, version string, archived bool) (*Matrix, error) {
	data, err := safefile.Read(path, maxMatrix)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, fmt.Errorf("read matrix %s: %w; make one with 'cxgen matrix -o FILE'", path, failed.Err)
	}
	if err != nil {
		return nil, err
	}
	m, err := parse(data, version, archived)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	sum := sha256.Sum256(data)
	m.SHA256 = hex.EncodeToString(sum[:])
	return m, nil
}

// check refuses a matrix with inconsistent cells and cases: each case must appear once, have the block of
// its family, and if runnable be in exactly one cell. Archived matrices are not held to the guarantees of
// this version.
func (m *Matrix) check() error {
	runnable := map[string]bool{}
	seen := map[string]bool{}
	upstream := len(m.RequestedCases) // remaining cases of this list
	for q := range m.Requested() {
		upstream--
		id := q.Case.CaseID
		switch {
		case seen[id]:
			return fmt.Errorf("matrix: duplicate case %s", id)
		case !q.Case.Placed():
			return fmt.Errorf("matrix: case %s has %d ranks on %d nodes with %d each", id, q.Case.World, q.Case.Nodes, q.Case.RanksPerNode)
		case !m.Archived && id != q.Case.ID():
			return fmt.Errorf("matrix: case %s should be named %s by its fields; make the matrix again", id, q.Case.ID())
		case !m.Archived && q.Case.Upstream() != (upstream >= 0):
			return fmt.Errorf("matrix: case %s is in the wrong list of requested cases", id)
		case q.Disposition != Runnable && q.Disposition != Unsupported:
			return fmt.Errorf("matrix: case %s has the unknown disposition %q", id, q.Disposition)
		}
		seen[id] = true
		if q.Disposition == Runnable {
			runnable[id] = true
		}
	}
	ids := map[string]bool{}
	for i := range m.Include {
		c := &m.Include[i]
		if ids[c.ID] {
			return fmt.Errorf("matrix: duplicate cell %s", c.ID)
		}
		ids[c.ID] = true
		for _, id := range c.CaseIDs {
			if !runnable[id] {
				return fmt.Errorf("matrix: cell %s lists case %s, which is not runnable, not known or in another cell", c.ID, id)
			}
			delete(runnable, id)
		}
	}
	for id := range runnable {
		return fmt.Errorf("matrix: runnable case %s is in no cell", id)
	}
	return nil
}

// Requested yields every requested case in plan order: first RequestedCases, then RequestedOther.
func (m *Matrix) Requested() iter.Seq[*Requested] {
	return func(yield func(*Requested) bool) {
		for _, list := range [][]Requested{m.RequestedCases, m.RequestedOther} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// Cell returns the cell of that id.
func (m *Matrix) Cell(id string) (Cell, error) {
	for i := range m.Include {
		if m.Include[i].ID == id {
			return m.Include[i], nil
		}
	}
	return Cell{}, fmt.Errorf("the matrix has no cell %q", id)
}

// Cases returns the requested cases of a cell, in its order.
func (m *Matrix) Cases(cell Cell) ([]Requested, error) {
	byID := map[string]*Requested{}
	for q := range m.Requested() {
		byID[q.Case.CaseID] = q
	}
	out := make([]Requested, len(cell.CaseIDs))
	for i, id := range cell.CaseIDs {
		q := byID[id]
		switch {
		case q == nil:
			return nil, fmt.Errorf("cell %s: the matrix has no case %q", cell.ID, id)
		case q.BudgetSeconds <= 0:
			return nil, fmt.Errorf("cell %s: case %s has no time budget", cell.ID, id)
		}
		out[i] = *q
	}
	return out, nil
}
