package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// tempSuffix ends the names of files that were not committed: .NAME-RANDOM and it.
const tempSuffix = ".cx-partial"

// AtomicFile is a file that appears under its name whole or not at all. Until
// then it stands beside it under a name of its own, locked by its writer.
type AtomicFile struct {
	path string
	temp *os.File
}

// CreateAtomic opens a file that Commit will put at path, over an older one if
// there is one. What is no regular file there (a directory, a device, a link such
// as /dev/stdout) is an error: it would be replaced, not written to. The caller
// ends the file with Commit or Abort.
func CreateAtomic(path string) (*AtomicFile, error) {
	if older, err := os.Lstat(path); err == nil && !older.Mode().IsRegular() {
		return nil, fmt.Errorf("%s exists and is not a regular file: name another file", path)
	}
	for {
		temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*"+tempSuffix)
		if failed, ok := errors.AsType[*os.PathError](err); ok {
			return nil, &os.PathError{Op: "create", Path: path, Err: failed.Err}
		}
		if err != nil {
			return nil, err
		}
		// EndPartial of another process may have come between the two calls. Where the
		// file system has no locks, EndPartial cannot lock either and removes nothing.
		if err := lock(temp); !errors.Is(err, unix.EWOULDBLOCK) && stands(temp) {
			return &AtomicFile{path: path, temp: temp}, nil
		}
		temp.Close()
	}
}

// lock locks a file that a writer has not committed.
func lock(temp *os.File) error { return unix.Flock(int(temp.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// stands reports whether an open file still has its name.
func stands(f *os.File) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(opened, named)
}

// Write implements io.Writer.
func (f *AtomicFile) Write(p []byte) (int, error) { return f.temp.Write(p) }

// Sync makes what was written survive a crash; it is not yet in place.
func (f *AtomicFile) Sync() error {
	if err := errors.Join(f.temp.Chmod(0o644), f.temp.Sync()); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}

// Commit syncs what was written and puts it in place. When it fails, nothing
// is left behind.
func (f *AtomicFile) Commit() error {
	err := f.Sync()
	if err == nil {
		err = os.Rename(f.temp.Name(), f.path)
	}
	if err != nil {
		f.Abort()
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return errors.Join(f.temp.Close(), syncDir(filepath.Dir(f.path)))
}

// Abort drops what was written.
func (f *AtomicFile) Abort() {
	os.Remove(f.temp.Name())
	f.temp.Close()
}

// WriteAtomic creates the file at path, or replaces it, with what write writes.
// When it fails, the file that was at path stays as it was; see CreateAtomic.
func WriteAtomic(path string, write func(io.Writer) error) error {
	f, err := CreateAtomic(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Abort()
		return err
	}
	return f.Commit()
}

// syncDir makes a rename in dir survive a crash of the machine.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// EndPartial ends what killed writers of atomic files left in dir. A file is put
// in place where whole reports that all of the file of this name was written and
// synced, and removed otherwise; a nil whole removes all of them. Files whose
// writer lives, and those of other users, stay as they are.
func EndPartial(dir string, whole func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		partial, found := strings.CutSuffix(e.Name(), tempSuffix)
		dash := strings.LastIndexByte(partial, '-')
		if !found || dash < 1 || partial[0] != '.' || !e.Type().IsRegular() {
			continue
		}
		name := partial[1:dash]
		err = errors.Join(err, endPartial(filepath.Join(dir, e.Name()), filepath.Join(dir, name), whole != nil && whole(name)))
	}
	return err
}

func endPartial(partial, path string, whole bool) error {
	temp, err := os.OpenFile(partial, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer temp.Close()
	info, err := temp.Stat()
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) != os.Geteuid() || lock(temp) != nil || !stands(temp) {
		return nil
	}
	if whole {
		return os.Rename(partial, path)
	}
	return os.Remove(partial)
}
