package fakes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// temporary is the directory of the process; a test may change TMPDIR.
var temporary = os.TempDir()

// SharedPath returns the path at which all processes of this account share a thing in a state.
func SharedPath(thing, state string) string {
	return filepath.Join(temporary, fmt.Sprintf("cx-%s-%d-%s", thing, os.Getuid(), state))
}

// Shared calls build once for all processes that need the file or directory path: one process
// builds, and the others wait for it. build creates the file or directory named create, which
// Shared then renames to path. If build fails or its process is killed, the next process builds.
func Shared(path string, build func(create string) error) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	// The lock file stays: two processes could otherwise lock two files of one name.
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return &os.PathError{Op: "lock", Path: lock.Name(), Err: err}
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	work, err := os.MkdirTemp(filepath.Dir(path), filepath.Base(path)+"-new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	created := filepath.Join(work, "created")
	if err := build(created); err != nil {
		return err
	}
	return os.Rename(created, path)
}
