package fleet

import (
	"archive/zip"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

const (
	downloads    = 3                // tries of one artifact
	downloadTime = 15 * time.Minute // of one try
	maxArchive   = 1 << 30          // bytes of a zip
	maxUnpacked  = 2 << 30          // bytes of its files together
	maxFiles     = 50_000           // in one zip
)

// artifact is an artifact of a run as the API lists it; go-github has no digest.
type artifact struct {
	ID      int64  `json:"id"`
	Name    string `json:"name"`
	Size    int64  `json:"size_in_bytes"`
	Expired bool   `json:"expired"`
	Digest  string `json:"digest"` // sha256:… of the zip; older servers have none
}

// artifacts lists the artifacts of a run, only those with this name if it is not empty.
func (c *Client) artifacts(ctx context.Context, run int64, name string) ([]artifact, error) {
	list, err := all(ctx, func(a artifact) int64 { return a.ID }, func(ctx context.Context, opt github.ListOptions) ([]artifact, int, *github.Response, error) {
		u := fmt.Sprintf("repos/%s/%s/actions/runs/%d/artifacts?per_page=%d&page=%d", c.owner, c.name, run, opt.PerPage, opt.Page)
		if name != "" {
			u += "&name=" + name
		}
		req, err := c.gh.NewRequest(http.MethodGet, u, nil)
		if err != nil {
			return nil, 0, nil, err
		}
		var page struct {
			Total     int        `json:"total_count"`
			Artifacts []artifact `json:"artifacts"`
		}
		resp, err := c.gh.Do(ctx, req, &page)
		return page.Artifacts, page.Total, resp, err
	})
	if err != nil {
		return nil, c.failed(ctx, fmt.Sprintf("artifacts of run %d", run), err)
	}
	return list, nil
}

// Kinds of artifacts.
const (
	KindMatrix    = "matrix"
	KindCell      = "cell"
	KindAggregate = "aggregate"
	KindSamples   = "samples" // raw samples of a cell
)

// Documents returns the kinds of artifacts without raw samples.
func Documents() []string { return []string{KindMatrix, KindCell, KindAggregate} }

type wanted struct {
	artifact
	kind    string
	cell    string // of a cell and its samples
	attempt int    // of a cell and its samples
}

func (w wanted) key() string {
	if w.kind == KindSamples {
		return fmt.Sprintf("%s@%d", w.dir(), w.attempt)
	}
	return w.dir()
}

// dir is the directory of the files, in the run's directory.
func (w wanted) dir() string {
	switch w.kind {
	case KindMatrix:
		return "matrix"
	case KindAggregate:
		return "aggregate"
	case KindSamples: // beside the documents
		return filepath.Join("cells", w.cell, result.SamplesDir)
	default:
		return filepath.Join("cells", w.cell)
	}
}

// choose returns the newest matrix, the newest attempt of each cell, and the newest
// aggregate, in that order, cells by name. With samples, the samples of all attempts of each
// cell come last, since a cell has the documents of all its attempts.
func choose(run int64, list []artifact, samples bool) []wanted {
	id := strconv.FormatInt(run, 10)
	shard := regexp.MustCompile(`^(cxshard|cxsamples)-([a-z0-9][a-z0-9-]*)-` + id + `-([0-9]{1,6})$`)
	newest := map[string]wanted{}
	for _, a := range list {
		w := wanted{artifact: a}
		switch m := shard.FindStringSubmatch(a.Name); {
		case a.Name == "cxsweep-matrix-"+id:
			w.kind = KindMatrix
		case a.Name == "cxsweep-aggregate-"+id:
			w.kind = KindAggregate
		case m != nil && (m[1] == "cxshard" || samples):
			w.kind, w.cell = KindCell, m[2]
			if m[1] == "cxsamples" {
				w.kind = KindSamples
			}
			w.attempt, _ = strconv.Atoi(m[3])
		default:
			continue
		}
		if old, ok := newest[w.key()]; !ok || cmp.Or(cmp.Compare(w.attempt, old.attempt), cmp.Compare(w.ID, old.ID)) > 0 {
			newest[w.key()] = w
		}
	}
	rank := map[string]int{KindMatrix: 0, KindCell: 1, KindAggregate: 2, KindSamples: 3}
	return slices.SortedFunc(maps.Values(newest), func(a, b wanted) int {
		return cmp.Or(cmp.Compare(rank[a.kind], rank[b.kind]), cmp.Compare(a.cell, b.cell), cmp.Compare(a.attempt, b.attempt))
	})
}

var errExpired = errors.New("expired: GitHub has deleted it")

// download writes the zip of an artifact into f and checks its digest. It repeats a broken
// download with a new link, since each is valid for a minute.
func (c *Client) download(ctx context.Context, a artifact, f *os.File) (verified bool, err error) {
	for try := range downloads {
		if try > 0 {
			if err := c.clock.Sleep(ctx, firstPause<<try); err != nil {
				return false, err
			}
		}
		var again bool
		if verified, again, err = c.downloadOnce(ctx, a, f); err == nil || !again || ctx.Err() != nil {
			return verified, err
		}
	}
	return false, fmt.Errorf("%w (%d tries)", err, downloads)
}

func (c *Client) downloadOnce(ctx context.Context, a artifact, f *os.File) (verified, again bool, err error) {
	link, err := c.link(ctx, a)
	if err != nil {
		return false, false, err
	}
	ctx, cancel := c.clock.WithTimeout(ctx, downloadTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
	if err != nil {
		return false, false, errors.New("GitHub's link to the artifact is invalid")
	}
	resp, err := c.blobs.Do(req)
	if err != nil {
		return false, true, fmt.Errorf("download: %w", withoutURL(ctx, err))
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusGone || resp.StatusCode == http.StatusNotFound:
		return false, false, errExpired
	case resp.StatusCode != http.StatusOK:
		return false, true, fmt.Errorf("download: the store answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	_, err = f.Seek(0, io.SeekStart)
	if err := errors.Join(err, f.Truncate(0)); err != nil {
		return false, false, err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(resp.Body, maxArchive+1))
	switch {
	case err != nil:
		return false, true, fmt.Errorf("download: %w", withoutURL(ctx, err))
	case n > maxArchive:
		return false, false, fmt.Errorf("archive of more than %d bytes", maxArchive)
	case resp.ContentLength >= 0 && n != resp.ContentLength:
		return false, true, fmt.Errorf("download: %d of %d bytes", n, resp.ContentLength)
	}
	if a.Digest == "" {
		return false, false, nil
	}
	if got := digest(sum); got != a.Digest {
		return false, true, fmt.Errorf("the digest of the download is %s, GitHub lists %s", got, a.Digest)
	}
	return true, false, nil
}

func digest(h hash.Hash) string { return "sha256:" + hex.EncodeToString(h.Sum(nil)) }

// withoutURL drops the URL from an error, since anybody who has a link to the store can use it.
func withoutURL(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for u := err; u != nil; u = errors.Unwrap(u) {
		if _, ok := u.(interface{ Timeout() bool }); ok && errors.Unwrap(u) != nil {
			err = errors.Unwrap(u)
		}
	}
	return err
}

// link returns a link to the zip of an artifact in the store.
func (c *Client) link(ctx context.Context, a artifact) (string, error) {
	req, err := c.gh.NewRequest(http.MethodGet, fmt.Sprintf("repos/%s/%s/actions/artifacts/%d/zip", c.owner, c.name, a.ID), nil)
	if err != nil {
		return "", err
	}
	resp, err := c.gh.BareDo(ctx, req)
	if resp != nil && resp.Body != nil {
		defer resp.Body.Close()
	}
	switch {
	case statusOf(err) == http.StatusFound:
		at := resp.Header.Get("Location")
		if at == "" {
			return "", errors.New("GitHub's answer has no link to the artifact")
		}
		return at, nil
	case statusOf(err) == http.StatusGone:
		return "", errExpired
	case err != nil:
		return "", c.failed(ctx, "artifact "+a.Name, err)
	default:
		return "", fmt.Errorf("artifact %s: GitHub answers %s instead of a link", a.Name, resp.Status)
	}
}

// unpack writes the files of the zip f into dir, which exists, and returns their digests by
// slash-separated path. It writes nothing unless the archive has only plain files inside dir,
// up to limits of number and size.
func unpack(f *os.File, dir string) (map[string]string, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	magic := make([]byte, 2)
	if _, err := f.ReadAt(magic, 0); err != nil || string(magic) != "PK" {
		return nil, errors.New("not a zip archive")
	}
	z, err := zip.NewReader(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("damaged archive: %w", err)
	}
	if len(z.File) > maxFiles {
		return nil, fmt.Errorf("refused: the archive has %d entries, more than %d", len(z.File), maxFiles)
	}
	seen := map[string]bool{}
	var total uint64
	for _, e := range z.File {
		total += e.UncompressedSize64
		name := strings.TrimSuffix(e.Name, "/")
		kind := e.Mode()
		switch {
		case !filepath.IsLocal(name) || strings.ContainsAny(name, "\\:\x00") || name == ".":
			return nil, fmt.Errorf("refused: the archive has an entry outside of its directory: %q", e.Name)
		case !kind.IsRegular() && !kind.IsDir():
			return nil, fmt.Errorf("refused: the archive has a link or a device: %q", e.Name)
		case seen[filepath.Clean(name)]:
			return nil, fmt.Errorf("refused: the archive has two entries %q", e.Name)
		case total > maxUnpacked || e.UncompressedSize64 > maxUnpacked:
			return nil, fmt.Errorf("refused: the archive unpacks to more than %d bytes", maxUnpacked)
		}
		seen[filepath.Clean(name)] = true
	}
	out := map[string]string{}
	for _, e := range z.File {
		path := filepath.Join(dir, filepath.FromSlash(e.Name))
		if e.Mode().IsDir() {
			if err := os.MkdirAll(path, 0o755); err != nil {
				return nil, err
			}
			continue
		}
		if out[e.Name], err = unpackFile(e, path); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// unpackFile writes one entry, and no more bytes than it announces.
func unpackFile(e *zip.File, path string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	in, err := e.Open()
	if err != nil {
		return "", fmt.Errorf("damaged archive: %q: %w", e.Name, err)
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	// The reader ends with an error where an entry is longer or shorter than announced.
	_, err = io.Copy(io.MultiWriter(out, sum), io.LimitReader(in, int64(e.UncompressedSize64)+1))
	if err := errors.Join(err, out.Close()); err != nil {
		return "", fmt.Errorf("damaged archive: %q: %w", e.Name, err)
	}
	return digest(sum), nil
}

// fetchInto downloads an artifact into work, which it empties first, and unpacks it there. It
// returns the directory of the files and their digests by slash-separated path, and whether the
// zip matches a digest from GitHub.
func (c *Client) fetchInto(ctx context.Context, a artifact, work string) (files string, digests map[string]string, verified bool, err error) {
	files = filepath.Join(work, "files")
	if err := errors.Join(os.RemoveAll(work), os.MkdirAll(files, 0o755)); err != nil {
		return "", nil, false, err
	}
	f, err := os.Create(filepath.Join(work, "zip"))
	if err != nil {
		return "", nil, false, err
	}
	defer f.Close()
	if verified, err = c.download(ctx, a, f); err == nil {
		digests, err = unpack(f, files)
	}
	return files, digests, verified, err
}

// Matrix returns the plan of a run, whichever version of the program made it. The error wraps
// ErrNoMatrix while there is none.
func (c *Client) Matrix(ctx context.Context, run int64) (*plan.Matrix, error) {
	list, err := c.artifacts(ctx, run, "cxsweep-matrix-"+strconv.FormatInt(run, 10))
	if err != nil {
		return nil, err
	}
	chosen := choose(run, list, false)
	if len(chosen) == 0 || chosen[0].kind != KindMatrix {
		return nil, ErrNoMatrix
	}
	work, err := os.MkdirTemp("", "cxgen-matrix-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	files, _, _, err := c.fetchInto(ctx, chosen[0].artifact, work)
	var m *plan.Matrix
	if err == nil {
		if m, err = plan.ReadArchived(filepath.Join(files, plan.FileName), ""); errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("the artifact has no %s", plan.FileName)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("matrix of run %d: %w", run, err)
	}
	return m, nil
}

// ErrNoMatrix is the error of a run that has no matrix, or not yet.
var ErrNoMatrix = errors.New("the run has no matrix")
