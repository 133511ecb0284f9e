package fleet

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/safefile"
)

// States of an artifact after a fetch.
const (
	StateFetched = "fetched"
	StateKept    = "kept" // from an earlier fetch, unchanged
	StateExpired = "expired"
	StateFailed  = "failed"
)

// Fetched is the artifacts of a run in a directory.
type Fetched struct {
	Run
	Dir       string     `json:"dir"`
	Artifacts []Artifact `json:"artifacts"` // matrix, cells by name, aggregate, samples by cell
	Missing   []string   `json:"missing"`   // what the run should have: "matrix", "aggregate", cells
}

// Artifact is one of them.
type Artifact struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"` // matrix, cell, aggregate or samples
	Cell     string `json:"cell,omitempty"`
	Attempt  int    `json:"attempt,omitempty"` // of the cell
	State    string `json:"state"`             // fetched, kept, expired or failed
	Dir      string `json:"dir,omitempty"`     // below Fetched.Dir
	Files    int    `json:"files"`
	Verified bool   `json:"verified"` // GitHub gave a digest, and the files match it
	Error    string `json:"error,omitempty"`
}

// Err returns nil if everything that the run should have is in the directory.
func (f *Fetched) Err() error {
	var bad []string
	for _, a := range f.Artifacts {
		if a.State == StateExpired || a.State == StateFailed {
			bad = append(bad, a.Name)
		}
	}
	bad = append(bad, f.Missing...)
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("run %d is incomplete: no %s", f.ID, strings.Join(bad, ", "))
}

// record is a file in the directory about what was fetched.
type record struct {
	RunID     int64            `json:"run_id"`
	Artifacts map[string]fetch `json:"artifacts"` // by directory
}

type fetch struct {
	ID       int64             `json:"id"`
	Verified bool              `json:"verified"`
	Files    map[string]string `json:"files"` // digests
}

// Names in the directory; hidden, so that readers of documents do not see them.
const (
	recordName  = ".cxgen-fetch.json"
	partialName = ".cxgen-partial"
)

// Fetch downloads artifacts of these kinds of a run into dir: the matrix, the newest attempt of each
// cell and the aggregate into matrix/, cells/CELL/ and aggregate/, and the raw samples of all
// attempts of each cell into cells/CELL/samples/. It keeps unchanged artifacts, so that it
// continues an interrupted fetch, and fetches what is new after a re-run. Each directory
// appears whole or not at all, except for samples. The result names the artifacts that cannot be
// fetched. Fetch calls done after each artifact.
func (c *Client) Fetch(ctx context.Context, run int64, dir string, kinds []string, done func(Artifact)) (*Fetched, error) {
	r, err := c.Run(ctx, run)
	if err != nil {
		return nil, err
	}
	list, err := c.artifacts(ctx, run, "")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	held, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	if errors.Is(unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%s: another fetch is writing here", dir)
	}
	have, err := readRecord(dir, run)
	if err != nil {
		return nil, err
	}
	partial := filepath.Join(dir, partialName)
	defer os.RemoveAll(partial)
	out := &Fetched{Run: r, Dir: dir, Artifacts: []Artifact{}, Missing: []string{}}
	there := map[string]bool{}
	for _, w := range choose(run, list, true) {
		if !slices.Contains(kinds, w.kind) {
			continue
		}
		there[w.dir()] = true
		a := Artifact{Name: w.Name, Kind: w.kind, Cell: w.cell, Attempt: w.attempt, State: StateKept}
		var err error
		if old, known := have.Artifacts[w.key()]; !known || old.ID != w.ID || !old.holds(filepath.Join(dir, w.dir())) {
			a.State, err = StateFetched, errExpired
			if !w.Expired {
				err = c.fetch(ctx, w, dir, partial, have)
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
		}
		switch got := have.Artifacts[w.key()]; {
		case errors.Is(err, errExpired):
			a.State, a.Error = StateExpired, err.Error()
		case err != nil:
			a.State, a.Error = StateFailed, err.Error()
		default:
			a.Dir, a.Files, a.Verified = w.dir(), len(got.Files), got.Verified
		}
		out.Artifacts = append(out.Artifacts, a)
		done(a)
	}
	out.Missing = append(out.Missing, missing(r, dir, kinds, there)...)
	return out, nil
}

// missing returns what the plan of the run requests and no artifact of these kinds contains.
func missing(r Run, dir string, kinds []string, there map[string]bool) []string {
	var out []string
	if slices.Contains(kinds, KindMatrix) && !there[KindMatrix] {
		out = append(out, "matrix")
	}
	if m, err := plan.ReadArchived(filepath.Join(dir, "matrix", plan.FileName), ""); err == nil && slices.Contains(kinds, KindCell) {
		for i := range m.Include {
			if id := m.Include[i].ID; !there[filepath.Join("cells", id)] {
				out = append(out, id)
			}
		}
	}
	slices.Sort(out)
	if r.Completed() && !there["aggregate"] {
		out = append(out, "aggregate")
	}
	return out
}

// fetch downloads one artifact, unpacks it in partial, and moves it into its place.
func (c *Client) fetch(ctx context.Context, w wanted, dir, partial string, have *record) error {
	files, digests, verified, err := c.fetchInto(ctx, w.artifact, partial)
	if err != nil {
		return err
	}
	place := filepath.Join(dir, w.dir())
	if w.kind == KindSamples {
		if _, known := have.Artifacts[filepath.Dir(w.dir())]; !known {
			return errors.New("the documents that these samples belong to were not fetched")
		}
		err = merge(files, place, digests)
	} else {
		_, known := have.Artifacts[w.dir()]
		err = replace(files, place, w.kind == KindCell, known)
	}
	if err != nil {
		return err
	}
	have.Artifacts[w.key()] = fetch{ID: w.ID, Verified: verified, Files: digests}
	return safefile.WriteJSON(filepath.Join(dir, recordName), have)
}

// replace moves the directory files to place, which may exist only if it was fetched before.
// The samples of a cell stay, since files does not have the samples of earlier attempts.
func replace(files, place string, cell, fetched bool) error {
	if _, err := os.Lstat(place); err == nil && !fetched {
		return fmt.Errorf("%s exists and was not fetched here; name another directory, or move it away", place)
	}
	if cell {
		err := os.Rename(filepath.Join(place, result.SamplesDir), filepath.Join(files, result.SamplesDir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := errors.Join(os.RemoveAll(place), os.MkdirAll(filepath.Dir(place), 0o755)); err != nil {
		return err
	}
	return os.Rename(files, place)
}

// merge moves the files with the slash-separated names in digests into dir, and replaces files
// of the same name.
func merge(files, dir string, digests map[string]string) error {
	for name := range digests {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(files, filepath.FromSlash(name)), to); err != nil {
			return err
		}
	}
	return nil
}

func readRecord(dir string, run int64) (*record, error) {
	path := filepath.Join(dir, recordName)
	r := &record{}
	err := safefile.ReadJSON(path, 64<<20, r)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.RunID = run
	case err != nil:
		return nil, fmt.Errorf("%s: %w; name another directory", path, err)
	case r.RunID != run:
		return nil, fmt.Errorf("%s has the artifacts of run %d; name another directory", dir, r.RunID)
	}
	if r.Artifacts == nil {
		r.Artifacts = map[string]fetch{}
	}
	return r, nil
}

// holds reports whether the files are in dir as they were unpacked.
func (f fetch) holds(dir string) bool {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return false
	}
	for name, want := range f.Files {
		file, err := safefile.Open(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return false
		}
		sum := sha256.New()
		_, err = io.Copy(sum, file)
		file.Close()
		if err != nil || digest(sum) != want {
			return false
		}
	}
	return true
}
