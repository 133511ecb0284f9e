package shard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// scratchPrefix begins the names of scratch directories.
const scratchPrefix = "cxshard-"

// scratch is a directory that a shard and its ranks share while the shard
// lives: stores and shared memory. Its owner holds a lock on it, which the
// kernel releases whatever ends the owner, so that the next shard can tell an
// abandoned one and remove it.
type scratch struct {
	path string
	lock *os.File
}

// ScratchBase is where scratch directories go: memory where there is any, since
// ranks wait for each other there and exchange data through it.
func ScratchBase() string {
	const shm = "/dev/shm"
	if unix.Access(shm, unix.W_OK|unix.X_OK) == nil {
		return shm
	}
	return os.TempDir()
}

// newScratch removes what dead shards left in base and makes a directory there.
func newScratch(base string) (*scratch, error) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, fmt.Errorf("scratch directory: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), scratchPrefix) {
			continue
		}
		// Another user's directory cannot be opened, a live one not locked.
		if abandoned, err := lockDir(filepath.Join(base, e.Name())); err == nil {
			_ = abandoned.remove()
		}
	}
	for {
		path, err := os.MkdirTemp(base, scratchPrefix)
		if err != nil {
			return nil, fmt.Errorf("scratch directory: %w", err)
		}
		s, err := lockDir(path)
		if err == nil {
			return s, nil
		}
		// Another shard took the new directory for an abandoned one.
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("scratch directory: %w", err)
		}
	}
}

// lockDir locks a directory that still stands under its name.
func lockDir(path string) (*scratch, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		dir.Close()
		return nil, err
	}
	opened, err := dir.Stat()
	if err == nil {
		var named os.FileInfo
		if named, err = os.Stat(path); err == nil && !os.SameFile(opened, named) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return &scratch{path: path, lock: dir}, nil
}

// remove removes the directory and releases the lock.
func (s *scratch) remove() error {
	return errors.Join(os.RemoveAll(s.path), s.lock.Close())
}
