package rendezvous

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/safefile"
)

// disk is what the store needs of a file system. Errors wrap those of package io/fs.
type disk interface {
	// Mkdir creates a directory in one that exists.
	Mkdir(dir string) error
	// Visit opens and closes a directory. A file system that caches names on this host
	// then asks its server whether the directory has changed.
	Visit(dir string) error
	// Create creates a file, and fails if it exists.
	Create(path string) (io.WriteCloser, error)
	// Append opens a file to write at its end, and creates it if it is missing.
	Append(path string) (io.WriteCloser, error)
	// Read opens a file and returns its content from offset on. It fails if that is more
	// than limit bytes or the file is not a regular one.
	Read(path string, offset, limit int64) ([]byte, error)
	Truncate(path string, size int64) error
	// Link gives a file a second name, and fails if that exists.
	Link(from, to string) error
	// Names returns how many names a file has, once it is opened.
	Names(path string) (int, error)
	Remove(path string) error
}

// system is the disk of this host. What others may do with its files is left to the umask:
// a store lies in a private directory, and ranks in a container may have another account.
type system struct{}

func (system) Mkdir(dir string) error { return os.Mkdir(dir, 0o777) }

func (system) Visit(dir string) error {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	return d.Close()
}

func (system) Create(path string) (io.WriteCloser, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
}

func (system) Append(path string) (io.WriteCloser, error) {
	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
}

func (system) Read(path string, offset, limit int64) ([]byte, error) {
	return safefile.ReadFrom(path, offset, limit)
}

func (system) Truncate(path string, size int64) error { return os.Truncate(path, size) }
func (system) Link(from, to string) error             { return os.Link(from, to) }
func (system) Remove(path string) error               { return os.Remove(path) }

func (system) Names(path string) (int, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	var st unix.Stat_t
	err = errors.Join(unix.Fstat(int(f.Fd()), &st), f.Close())
	return int(st.Nlink), err
}
