package safefile

import (
	"encoding/json"
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

// tempSuffix is the suffix of files that are not committed yet: .NAME-RANDOM.cx-partial.
const tempSuffix = ".cx-partial"

// AtomicFile is a file that appears under its name whole or not at all. Until it is
// committed it has a temporary name in the same directory, and its writer keeps it locked.
type AtomicFile struct {
	path string
	temp *os.File
}

// CreateAtomic opens a file that Commit will rename to path, replacing an older file. It is
// an error if path exists and is not a regular file (a directory, a device, a link such as
// /dev/stdout), since Commit would replace it instead of writing to it. The caller must
// call Commit or Abort.
func CreateAtomic(path string) (*AtomicFile, error) {
	if older, err := os.Lstat(path); err == nil && !older.Mode().IsRegular() {
		return nil, fmt.Errorf("%s exists and is not a regular file: name another file", path)
	}
	for {
		temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*"+tempSuffix)
		if failed, ok := errors.AsType[*os.PathError](err); ok {
			cause := failed.Err
			if errors.Is(cause, fs.ErrNotExist) {
				cause = fmt.Errorf("%w; make the directory %s first", cause, filepath.Dir(path))
			}
			return nil, &os.PathError{Op: "create", Path: path, Err: cause}
		}
		if err != nil {
			return nil, err
		}
		// EndPartial of another process may have run between the two calls. On a file
		// system without locks, EndPartial cannot lock either, and removes nothing.
		if err := lock(temp); !errors.Is(err, unix.EWOULDBLOCK) && Linked(temp) {
			return &AtomicFile{path: path, temp: temp}, nil
		}
		temp.Close()
	}
}

// lock locks a file that is not committed yet.
func lock(temp *os.File) error { return unix.Flock(int(temp.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// Linked reports whether the name of an open file still refers to it.
func Linked(f *os.File) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(opened, named)
}

// Write implements io.Writer.
func (f *AtomicFile) Write(p []byte) (int, error) { return f.temp.Write(p) }

// Sync writes the content to the disk, so that it survives a crash. The file is not yet in
// place.
func (f *AtomicFile) Sync() error {
	if err := errors.Join(f.temp.Chmod(0o644), f.temp.Sync()); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}

// Commit syncs the file and renames it into place. If it fails, it leaves nothing behind.
func (f *AtomicFile) Commit() error {
	err := f.Sync()
	if err == nil {
		err = os.Rename(f.temp.Name(), f.path)
	}
	if err != nil {
		f.Abort()
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return errors.Join(f.temp.Close(), SyncDir(filepath.Dir(f.path)))
}

// Abort removes the file.
func (f *AtomicFile) Abort() {
	os.Remove(f.temp.Name())
	f.temp.Close()
}

// WriteAtomic creates or replaces the file at path with what write writes. If it fails, an
// older file at path is unchanged; see CreateAtomic.
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

// WriteJSON is WriteAtomic with v as one line of JSON.
func WriteJSON(path string, v any) error {
	return WriteAtomic(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(v) })
}

// SyncDir makes a rename in dir survive a crash.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// EndPartial removes the uncommitted files that killed writers left in dir. If whole is not
// nil and reports true for the name of a file, which must then be completely written and
// synced, the file is renamed into place instead. Files of living writers and of other users are
// not touched.
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
	if !ok || int(owner.Uid) != os.Geteuid() || lock(temp) != nil || !Linked(temp) {
		return nil
	}
	if whole {
		return os.Rename(partial, path)
	}
	return os.Remove(partial)
}
