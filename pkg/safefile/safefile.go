// Package safefile reads regular files, and writes files whole or not at all. A FIFO, a
// device or a directory in place of a file is an error, not an endless wait, and so is a
// file larger than its reader expects.
package safefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

var (
	// ErrIrregular is wrapped by errors for a path that is not a regular file.
	ErrIrregular = errors.New("not a regular file")
	// ErrTooLarge is wrapped by errors for a file larger than its reader expects.
	ErrTooLarge = errors.New("more than the limit")
)

// Open opens the regular file at path for reading.
func Open(path string) (*os.File, error) {
	// O_NONBLOCK: a FIFO opens without a writer, and is then refused.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = check(info, path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Cause returns an error of a file without the path, for a caller that already names the path or
// must not.
func Cause(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return of.Err
	}
	return err
}

func check(info fs.FileInfo, path string) error {
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "read", Path: path, Err: ErrIrregular}
	}
	return nil
}

// Read returns the content of the regular file at path. The file may have at most limit
// bytes.
func Read(path string, limit int64) ([]byte, error) { return ReadInto(nil, path, limit) }

// ReadJSON decodes the content of the regular file at path, of at most limit bytes, into v.
func ReadJSON(path string, limit int64, v any) error {
	data, err := Read(path, limit)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// ReadInto is Read into buf, which is replaced if it is too small.
func ReadInto(buf []byte, path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return content(buf, f, path, 0, limit)
}

// ReadFrom is Read from a byte offset on. The limit applies to the whole file. It returns
// nothing if the file ends before offset.
func ReadFrom(path string, offset, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	return content(nil, f, path, offset, limit)
}

// ReadFS is Read for a file in fsys.
func ReadFS(fsys fs.FS, name string, limit int64) ([]byte, error) {
	info, err := fs.Stat(fsys, name) // before Open, which may block
	if err != nil {
		return nil, err
	}
	if err := check(info, name); err != nil {
		return nil, err
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return content(nil, f, name, 0, limit)
}

// content reads f from its current position, offset, to its end.
func content(buf []byte, f fs.File, path string, offset, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%d bytes, %w of %d", info.Size(), ErrTooLarge, limit)}
	}
	size := max(0, info.Size()-offset)
	if int64(cap(buf)) < size {
		buf = make([]byte, size+size/2)
	}
	n, err := io.ReadFull(f, buf[:size])
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) { // it shrank meanwhile
		err = nil
	}
	return buf[:n], err
}
