// Package claim marks directories as this program's own. A claimed directory
// holds a marker file with our format, which its owner keeps locked while it
// lives. The kernel releases the lock whatever ends the owner, so that the next
// process can tell an abandoned directory from one in use, and from one that
// belongs to somebody else.
package claim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Marker is the name of the marker file in a claimed directory.
const Marker = ".collectivex"

// Kind is what a claimed directory is for. A marker of one kind is foreign to
// the others: a copy of results is never taken for abandoned scratch space.
type Kind string

// The kinds.
const (
	Scratch Kind = "scratch" // stores and shared memory of a running shard
	Results Kind = "results" // documents of a cell
	Run     Kind = "run"     // plan, cells and fold of a sweep
)

func (k Kind) format() string { return "collectivex " + string(k) + " 1\n" }

var (
	// ErrHeld is wrapped where another process owns the directory.
	ErrHeld = errors.New("in use")
	// ErrForeign is wrapped where the marker file is not one of this kind.
	ErrForeign = errors.New("not ours")
)

// How long Take waits for a lock. A process that was killed releases it when it
// is gone, and children that it had forked but that had not yet become another
// program hold it a little longer.
const (
	dyingGrace  = 2 * time.Second  // while the owner still lives
	orphanGrace = 30 * time.Second // once it is gone
	pollLock    = 5 * time.Millisecond
)

// Claim is the ownership of a directory.
type Claim struct {
	dir  string
	file *os.File // the marker, locked
}

// Take claims dir, which is made where it is missing, for this process. Where
// the owner is dying or dead, Take waits until its lock is free. The error wraps
// ErrHeld where the owner lives, ErrForeign where the marker file is no marker.
func Take(ctx context.Context, dir string, kind Kind) (*Claim, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := openMarker(dir, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	c := &Claim{dir: dir, file: file}
	if err := c.take(ctx, kind); err != nil {
		file.Close()
		return nil, err
	}
	return c, nil
}

func (c *Claim) take(ctx context.Context, kind Kind) error {
	text, err := c.text()
	if err != nil {
		return err
	}
	if text != "" && !strings.HasPrefix(text, kind.format()) {
		return fmt.Errorf("%w: %s is not a marker of %s; use another directory", ErrForeign, c.file.Name(), kind)
	}
	if err := c.wait(ctx); err != nil {
		return err
	}
	owner := kind.format() + self().String()
	if err := c.file.Truncate(0); err != nil {
		return err
	}
	_, err = c.file.WriteAt([]byte(owner), 0)
	return err
}

// wait returns when the marker is locked.
func (c *Claim) wait(ctx context.Context) error {
	for began := time.Now(); ; {
		err := c.lock()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		text, err := c.text()
		if err != nil {
			return err
		}
		waited := time.Since(began)
		if owner := parseOwner(text); waited > orphanGrace || waited > dyingGrace && owner.lives() {
			return fmt.Errorf("%w: process %d writes to %s; wait until it ends, or use another directory", ErrHeld, owner.pid, c.dir)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the owner of %s: %w", c.dir, ctx.Err())
		case <-time.After(pollLock):
		}
	}
}

// Abandoned takes over dir from a dead owner. It returns false where dir has no
// marker of this kind and of this user, or where its owner lives.
func Abandoned(dir string, kind Kind) (*Claim, bool) {
	file, err := openMarker(dir, 0)
	if err != nil {
		return nil, false
	}
	c := &Claim{dir: dir, file: file}
	text, err := c.text()
	if err != nil || !strings.HasPrefix(text, kind.format()) || c.lock() != nil || !c.oursStill() {
		file.Close()
		return nil, false
	}
	return c, true
}

// openMarker opens the marker file of dir, which must be a regular file.
func openMarker(dir string, flag int) (*os.File, error) {
	path := filepath.Join(dir, Marker)
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|flag, 0o600)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%w: %s is a symbolic link", ErrForeign, path)
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is not a regular file", ErrForeign, path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// text is what the marker says; it is short.
func (c *Claim) text() (string, error) {
	raw, err := io.ReadAll(io.NewSectionReader(c.file, 0, 256))
	return string(raw), err
}

func (c *Claim) lock() error { return unix.Flock(int(c.file.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// oursStill reports whether the marker is a file of this user and still has its
// name: another process may have removed the directory in between.
func (c *Claim) oursStill() bool {
	opened, err := c.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(c.file.Name())
	if err != nil || !os.SameFile(opened, named) {
		return false
	}
	stat, ok := opened.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// Dir is the claimed directory.
func (c *Claim) Dir() string { return c.dir }

// Release gives the directory up and leaves it as it is.
func (c *Claim) Release() error { return c.file.Close() }

// Remove removes the directory with all that is in it, and gives it up. The
// marker goes last, so that what a killed Remove leaves is still marked.
// Symbolic links are removed, not followed.
func (c *Claim) Remove() error {
	entries, err := os.ReadDir(c.dir)
	for _, e := range entries {
		if e.Name() != Marker {
			err = errors.Join(err, os.RemoveAll(filepath.Join(c.dir, e.Name())))
		}
	}
	if err == nil {
		err = errors.Join(os.Remove(c.file.Name()), os.Remove(c.dir))
	}
	return errors.Join(err, c.file.Close())
}
