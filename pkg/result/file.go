package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"time"

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
		return nil, fmt.Errorf("%s is there and is no regular file: name another one", path)
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

// FileName is the name of a document's file: case id, time of the document and
// the position of the case in its shard. Before the time stands the time that is
// left until the year 10000, so that the newest document of a case sorts first:
// the public dashboard shows the reason of the first failure that it reads.
func FileName(d Document, index int) (string, error) {
	head := d.Head()
	at, err := time.Parse(time.RFC3339, head.GeneratedAt)
	if err != nil {
		return "", fmt.Errorf("generated_at: %w", err)
	}
	left := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() - at.UnixMilli()
	return fmt.Sprintf("%s_%015d-%s-c%03d.json", head.Identity.CaseID, left, at.UTC().Format("20060102T150405.000Z"), index), nil
}

// Write has screen look at the bytes of d and writes it into dir, whole or not at
// all; index is the position of the case in its shard. screen decides what may be
// published (see package provenance); its error keeps the document from the disk.
// The path is returned. A file that exists is an error. Write does not judge d:
// call Validate first.
func Write(dir string, d Document, index int, screen func([]byte) error) (string, error) {
	data, err := EncodeDocument(d)
	if err != nil {
		return "", err
	}
	if err := screen(data); err != nil {
		return "", fmt.Errorf("document of %s is not published: %w", d.Head().Identity.CaseID, err)
	}
	name, err := FileName(d, index)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("document %s exists already", path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	f, err := CreateAtomic(path)
	if err != nil {
		return "", err
	}
	if _, err := f.Write(data); err != nil {
		f.Abort()
		return "", err
	}
	return path, f.Commit()
}

// Encode returns v as one line of compact JSON and a newline. Numbers are not
// rounded; NaN and infinity are refused with the place where they stand.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		if at := nonFinite(reflect.ValueOf(v), ""); at != "" {
			return nil, fmt.Errorf("%s is not a finite number; publish null and a failed check instead", at)
		}
		return nil, err
	}
	return b.Bytes(), nil
}

// nonFinite returns the JSON path of the first NaN or infinity in v, else "".
func nonFinite(v reflect.Value, at string) string {
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return at
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return nonFinite(v.Elem(), at)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if p := nonFinite(v.Index(i), at+"["+strconv.Itoa(i)+"]"); p != "" {
				return p
			}
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			if p := nonFinite(v.MapIndex(k), at+"."+k.String()); p != "" {
				return p
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() || name == "-" {
				continue
			}
			next := at
			if !f.Anonymous {
				next = strings.TrimPrefix(at+"."+name, ".")
			}
			if p := nonFinite(v.Field(i), next); p != "" {
				return p
			}
		}
	default:
	}
	return ""
}
