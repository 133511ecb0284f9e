package dirlock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/safefile"
)

// turn is the kind of the files of turns.
const turn Kind = "turn"

// pollTurn is the interval at which TakeTurn tries again. It is long enough not to disturb the measurements of the
// other process.
const pollTurn = time.Second

// Turn is the exclusive use of something on this machine, among the processes of all users.
type Turn struct{ file *os.File }

// TakeTurn takes the turn of this process at something of this machine: it locks the file name in dir, which all
// users can write to. The file remains when the turn ends. The kernel ends the turn of a process that dies.
//
// If another process has the turn, TakeTurn calls taken with its id, which may be of another PID namespace. It
// returns the error of taken; without one, it waits until the turn is free or ctx ends, and calls taken again if
// yet another process has it.
//
// Other users may have planted anything in dir. TakeTurn follows no link, and writes only to a regular file that
// has no other name and is empty or a turn's.
func TakeTurn(ctx context.Context, dir, name string, taken func(pid int) error) (*Turn, error) {
	path := filepath.Join(dir, name)
	told := -1
	for {
		file, err := OpenShared(path)
		if err != nil {
			return nil, err
		}
		c := &Claim{file: file}
		err = c.take(ctx, turn, told >= 0)
		if err == nil && safefile.Linked(c.file) {
			return &Turn{c.file}, nil
		}
		c.file.Close()
		by, isHeld := errors.AsType[held](err)
		switch {
		case err == nil: // somebody removed the file
			continue
		case !isHeld:
			return nil, err
		case by.pid != told:
			told = by.pid
			if err := taken(by.pid); err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for process %d: %w", told, ctx.Err())
		case <-time.After(pollTurn):
		}
	}
}

// Release ends the turn.
func (t *Turn) Release() error { return t.file.Close() }

// OpenShared opens the file of a lock that all users share, or creates it for all of them. It does not open another
// user's file with O_CREAT, which Linux refuses in directories with the sticky bit (fs.protected_regular).
func OpenShared(path string) (*os.File, error) {
	for began := time.Now(); ; time.Sleep(pollLock) {
		file, err := openRegular(path, 0)
		if errors.Is(err, fs.ErrNotExist) {
			if file, err = openRegular(path, os.O_CREATE|os.O_EXCL); err == nil {
				err = file.Chmod(0o666) // whatever the umask
			}
		}
		if err == nil {
			return alone(file)
		}
		// Another process may be creating the file: it exists, or only its user can open it yet.
		created := errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrPermission)
		if !created || time.Since(began) > dyingGrace {
			return nil, err
		}
	}
}

// alone returns the file, or closes it and returns an error if it has another name.
func alone(file *os.File) (*os.File, error) {
	var stat unix.Stat_t
	err := unix.Fstat(int(file.Fd()), &stat)
	if err == nil && stat.Nlink > 1 {
		err = fmt.Errorf("%w: %s is a link to a file with another name", ErrForeign, file.Name())
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
