package prune

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/dirlock"
	"github.com/collectivex/collectivex/pkg/safefile"
)

// Directories below Retention.To.
const (
	runsDir    = "runs"    // runs, under their names
	samplesDir = "samples" // samples of runs that stayed, under the names of their runs
)

type move struct {
	entry    *Entry
	from, to string
}

func (p *Plan) moves() (out []move) {
	for _, e := range p.Entries {
		if e.Keep == "" {
			out = append(out, move{e, e.path, filepath.Join(p.retention.To, runsDir, e.Name)})
		}
		for _, dir := range e.Samples {
			out = append(out, move{e, filepath.Join(e.path, dir), filepath.Join(p.retention.To, samplesDir, e.Name, dir)})
		}
	}
	return out
}

// Apply moves the runs and samples that do not stay. Each moves with one rename, so that after
// a crash it is complete at one of the two places, and a new plan continues. Apply moves nothing
// if a target exists. It stops at a run that has changed since the plan, or that a process
// writes to.
func (p *Plan) Apply() error {
	if err := checkPlaces(p.retention); err != nil {
		return err
	}
	moves := p.moves()
	for _, m := range moves {
		if _, err := os.Lstat(m.to); err == nil {
			return fmt.Errorf("%w: %s exists; name another directory", ErrUsage, m.to)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, m := range moves {
		if err := m.do(); err != nil {
			return fmt.Errorf("move %s to %s: %w", m.from, m.to, err)
		}
	}
	return nil
}

var errChanged = errors.New("it has changed since the plan was made; run prune again")

func (m move) do() error {
	held, err := take(m.entry.path)
	if err != nil {
		return err
	}
	return errors.Join(m.rename(), held.release())
}

func (m move) rename() error {
	info, err := os.Lstat(m.entry.path)
	if err != nil {
		return err
	}
	now := &Entry{Name: m.entry.Name, path: m.entry.path}
	if err := now.documents(); err != nil {
		return err
	}
	if now.Keep != "" || now.Documents != m.entry.Documents || !now.Newest.Equal(m.entry.Newest) || info.Mode()&fs.ModeSymlink != 0 {
		return errChanged
	}
	if err := os.MkdirAll(filepath.Dir(m.to), 0o755); err != nil {
		return err
	}
	if _, err := os.Lstat(m.to); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fs.ErrExist, err)
	}
	if err := os.Rename(m.from, m.to); err != nil {
		return err
	}
	return errors.Join(safefile.SyncDir(filepath.Dir(m.to)), safefile.SyncDir(filepath.Dir(m.from)))
}

// claims are the locked markers of a run.
type claims []*dirlock.Claim

// take locks every marker in an entry, so that no process of this program writes to it. The error
// wraps dirlock.ErrHeld if a marker cannot be locked.
func take(path string) (held claims, err error) {
	err = filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != dirlock.Marker {
			return err
		}
		for _, kind := range []dirlock.Kind{dirlock.Run, dirlock.Results} {
			if c, ok := dirlock.Abandoned(filepath.Dir(path), kind); ok {
				held = append(held, c)
				return nil
			}
		}
		return fmt.Errorf("%w: %s", dirlock.ErrHeld, path)
	})
	if err != nil {
		return nil, errors.Join(err, held.release())
	}
	return held, nil
}

func (c claims) release() (err error) {
	for _, one := range c {
		err = errors.Join(err, one.Release())
	}
	return err
}

func sameFileSystem(a, b string) (bool, error) {
	var of [2]unix.Stat_t
	for i, path := range []string{a, b} {
		if err := unix.Stat(path, &of[i]); err != nil {
			return false, &fs.PathError{Op: "stat", Path: path, Err: err}
		}
	}
	return of[0].Dev == of[1].Dev, nil
}
