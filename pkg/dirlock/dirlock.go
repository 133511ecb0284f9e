// Package dirlock marks directories as belonging to this program. A claimed directory has a
// marker file, which its owner keeps locked as long as it lives. The kernel releases the lock
// however the owner ends. The next process can therefore distinguish an abandoned directory
// from one in use, and from a directory of another program. Processes take turns at devices
// with files of the same form.
package dirlock

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

	"github.com/collectivex/collectivex/pkg/safefile"
)

// Marker is the name of the marker file in a claimed directory.
const Marker = ".collectivex"

// Kind is the purpose of a claimed directory. A marker of one kind is foreign to the
// others, so that a copy of results is never mistaken for abandoned scratch space.
type Kind string

// The kinds.
const (
	Scratch Kind = "scratch" // stores and shared memory of a running shard
	Results Kind = "results" // documents of a cell
	Run     Kind = "run"     // plan, cells and fold of a sweep
)

func (k Kind) format() string { return "collectivex " + string(k) + " 1\n" }

var (
	// ErrHeld is wrapped by the error for a directory that another process owns.
	ErrHeld = errors.New("in use")
	// ErrForeign is wrapped by the error for a marker file that is not of this kind.
	ErrForeign = errors.New("not ours")
)

// How long Take waits for a lock. A killed process releases it when it is gone. Children
// that it had forked, but that had not yet executed another program, hold it a little
// longer.
const (
	dyingGrace  = 2 * time.Second  // while the owner still lives
	orphanGrace = 30 * time.Second // once it is gone
	pollLock    = 5 * time.Millisecond
)

// held is the error for a file that another process keeps locked. It wraps ErrHeld.
type held struct{ pid int }

func (h held) Error() string { return fmt.Sprintf("%v by process %d", ErrHeld, h.pid) }
func (held) Unwrap() error   { return ErrHeld }

// Claim is the ownership of a directory.
type Claim struct {
	dir  string
	file *os.File // the marker, locked
}

// Take claims dir for this process, and creates it if it is missing. If the owner is dying
// or dead, Take waits for its lock. The error wraps ErrHeld if the owner lives, and
// ErrForeign if the marker file is not a marker of this kind.
func Take(ctx context.Context, dir string, kind Kind) (*Claim, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := openMarker(dir, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	c := &Claim{dir: dir, file: file}
	if err := c.take(ctx, kind, false); err != nil {
		file.Close()
		if by, ok := errors.AsType[held](err); ok {
			err = fmt.Errorf("%w: process %d writes to %s; wait until it ends, or use another directory", ErrHeld, by.pid, dir)
		}
		return nil, err
	}
	return c, nil
}

// take locks the file and writes the owner into it. It waits for an owner that is dying or dead, unless
// atOnce is set.
func (c *Claim) take(ctx context.Context, kind Kind, atOnce bool) error {
	text, err := c.text()
	if err != nil {
		return err
	}
	if text != "" && !strings.HasPrefix(text, kind.format()) {
		return fmt.Errorf("%w: %s is not a marker of %s; use another directory", ErrForeign, c.file.Name(), kind)
	}
	if err := c.wait(ctx, atOnce); err != nil {
		return err
	}
	owner := kind.format() + self().String()
	if err := c.file.Truncate(0); err != nil {
		return err
	}
	_, err = c.file.WriteAt([]byte(owner), 0)
	return err
}

func (c *Claim) wait(ctx context.Context, atOnce bool) error {
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
		if owner := parseOwner(text); atOnce || waited > orphanGrace || waited > dyingGrace && owner.lives() {
			return held{owner.pid}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the owner of %s: %w", c.file.Name(), ctx.Err())
		case <-time.After(pollLock):
		}
	}
}

// Abandoned claims dir if its owner is dead. It returns false if dir has no marker of this
// kind and of this user, or if its owner lives.
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
	return openRegular(filepath.Join(dir, Marker), flag)
}

func openRegular(path string, flag int) (*os.File, error) {
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

// text returns the content of the marker, which is short.
func (c *Claim) text() (string, error) {
	raw, err := io.ReadAll(io.NewSectionReader(c.file, 0, 256))
	return string(raw), err
}

func (c *Claim) lock() error { return unix.Flock(int(c.file.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// oursStill reports whether the marker belongs to this user and still exists under its name.
// Another process may have removed the directory in the meantime.
func (c *Claim) oursStill() bool {
	opened, err := c.file.Stat()
	if err != nil || !safefile.Linked(c.file) {
		return false
	}
	stat, ok := opened.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// Dir returns the claimed directory.
func (c *Claim) Dir() string { return c.dir }

// Release ends the claim and leaves the directory as it is.
func (c *Claim) Release() error { return c.file.Close() }

// Remove removes the directory with everything in it, and ends the claim. The marker is
// removed last, so that what a killed Remove leaves is still marked. Symbolic links are
// removed, not followed.
func (c *Claim) Remove() error {
	entries, err := os.ReadDir(c.dir)
	for _, e := range entries {
		if e.Name() != Marker {
			err = errors.Join(err, safefile.RemoveAll(filepath.Join(c.dir, e.Name())))
		}
	}
	if err != nil {
		return errors.Join(err, c.file.Close())
	}
	// NFS keeps an open file that is removed under another name in its directory.
	return errors.Join(os.Remove(c.file.Name()), c.file.Close(), os.Remove(c.dir))
}
