// Package memlog gives a C library a file in memory to write its log to. The file goes with
// the process. What libraries log is private: it has addresses and host names.
package memlog

/*
#include <stdio.h>

// Libraries log through streams of the C library.
static int cx_flush_all(void) { return fflush(NULL); }
*/
import "C"

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Log is what one library has logged.
type Log struct{ file *os.File }

// New returns an empty log. Its name appears in /proc/PID/fd.
func New(name string) (*Log, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory for %s: %w", name, err)
	}
	return &Log{os.NewFile(uintptr(fd), name)}, nil
}

// Path names the file for the library, which opens it once.
func (l *Log) Path() string { return fmt.Sprintf("/proc/self/fd/%d", l.file.Fd()) }

// Text returns all that the library has logged.
func (l *Log) Text() (string, error) {
	C.cx_flush_all()
	text, err := os.ReadFile(l.Path())
	return string(text), err
}

// Close frees the memory once the library has closed the file, too.
func (l *Log) Close() error { return l.file.Close() }
