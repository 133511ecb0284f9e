// Package regular reads regular files, and writes them whole or not at all. A FIFO,
// a device or a directory that stands where a file should be is an error instead of
// a wait without end, and a file larger than its reader expects is one instead of
// all memory.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrIrregular is wrapped where something else than a regular file stands.
var ErrIrregular = errors.New("not a regular file")

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

func check(info fs.FileInfo, path string) error {
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "read", Path: path, Err: ErrIrregular}
	}
	return nil
}

// Read returns the content of the regular file at path, which may have at most
// limit bytes.
func Read(path string, limit int64) ([]byte, error) { return ReadInto(nil, path, limit) }

// ReadInto is Read into buf, which grows where it is too small.
func ReadInto(buf []byte, path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return content(buf, f, path, limit)
}

// ReadFS is Read of a file in fsys.
func ReadFS(fsys fs.FS, name string, limit int64) ([]byte, error) {
	info, err := fs.Stat(fsys, name) // before it is opened, which may wait
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
	return content(nil, f, name, limit)
}

// content reads f to its end.
func content(buf []byte, f fs.File, path string, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size > limit {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%d bytes, more than the limit of %d", size, limit)}
	}
	if int64(cap(buf)) < size {
		buf = make([]byte, size+size/2)
	}
	n, err := io.ReadFull(f, buf[:size])
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) { // it shrank meanwhile
		err = nil
	}
	return buf[:n], err
}
